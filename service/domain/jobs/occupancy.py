"""What the seconds of a node were spent on: on jobs, or on waiting for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter


class Occupant(StrEnum):
    """Who has the node: a job, or the node itself."""

    JOB = "job"
    BEFORE_FIRST_JOB = "before_first_job"
    BETWEEN_JOBS = "between_jobs"
    IDLE_TAIL = "idle_tail"
    """After the last job."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Billed seconds, chip-seconds and nano-dollars of one job, or of the node without one."""

    occupant: Occupant
    job_id: str
    seconds: int
    chip_seconds: int
    cost: int


def occupancy(meters: Sequence[Meter], whose: Sequence[Attribution]) -> tuple[Occupancy, ...]:
    """Every billed second of a node once, first to last; empty where no job ever ran on it. The
    costs come to what its ledger charges, to the nano-dollar."""
    return tuple(_occupancies(meters, whose)) if any(one.job for one in whose) else ()


def _occupancies(meters: Sequence[Meter], whose: Sequence[Attribution]) -> Iterator[Occupancy]:
    numbered = [number for number, one in enumerate(whose) if one.job]
    by_row = {one.since: _occupant(number, numbered) for number, one in enumerate(whose)}
    totals: dict[tuple[Occupant, str], tuple[int, int, int]] = {}
    stretches = sorted(
        ((piece, meter) for meter in meters for piece in _pieces(meter)), key=lambda one: one[0][:2]
    )
    for (start, end, since, job), meter in stretches:
        key = by_row[since], job
        seconds, chips, cost = totals.get(key, (0, 0, 0))
        totals[key] = (
            seconds + end - start,
            chips + meter.chip_seconds(start, end),
            cost + meter.charge(start, end),
        )
    for (occupant, job), (seconds, chips, cost) in totals.items():
        yield Occupancy(occupant, job, seconds, chips, cost)


def _pieces(meter: Meter) -> Iterator[tuple[int, int, int, str]]:
    for start, end, whose in meter.pieces(meter.usage.start, meter.end):
        yield start, end, whose.since, whose.job


def _occupant(number: int, with_jobs: Sequence[int]) -> Occupant:
    """What a row of the attributions is, by the numbers of the rows that have a job."""
    if number in with_jobs:
        return Occupant.JOB
    if number < with_jobs[0]:
        return Occupant.BEFORE_FIRST_JOB
    return Occupant.IDLE_TAIL if number > with_jobs[-1] else Occupant.BETWEEN_JOBS
