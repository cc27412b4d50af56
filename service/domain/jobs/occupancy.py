"""The seconds of a node by occupant: a job, or the wait for a job."""

from __future__ import annotations

from collections.abc import Sequence
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


def list_occupancies(
    meters: Sequence[Meter], whose: Sequence[Attribution]
) -> tuple[Occupancy, ...]:
    """Return every billed second of a node once, by occupant, from first to last. Empty where no
    job ever ran. The sum of the costs is the ledger's charge, to the nano-dollar."""
    with_jobs = [number for number, row in enumerate(whose) if row.job]
    if not with_jobs:
        return ()
    by_row: dict[int, Occupant] = {}
    for number, row in enumerate(whose):
        if row.job:
            by_row[row.since] = Occupant.JOB
        elif number < with_jobs[0]:
            by_row[row.since] = Occupant.BEFORE_FIRST_JOB
        else:
            is_last = number > with_jobs[-1]
            by_row[row.since] = Occupant.IDLE_TAIL if is_last else Occupant.BETWEEN_JOBS
    totals: dict[tuple[Occupant, str], tuple[int, int, int]] = {}
    pieces = [
        (start, end, row, meter)
        for meter in meters
        for start, end, row in meter.attributed_parts(meter.usage.start, meter.end)
    ]
    for start, end, row, meter in sorted(pieces, key=lambda piece: piece[:2]):
        key = by_row[row.since], row.job
        seconds, chips, cost = totals.get(key, (0, 0, 0))
        totals[key] = (
            seconds + end - start,
            chips + meter.chip_seconds_in(start, end),
            cost + meter.charge_in(start, end),
        )
    return tuple(Occupancy(*key, *sums) for key, sums in totals.items())
