"""What each dollar of an attempt bought: its seconds by phase, priced by the ledger's own meter.

The cuts are instants that the workers reported. They divide what the ledger charges for the claim;
they never change its sum, because `Meter.charge` gives the same total however time is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from service.domain.jobs.job import Attempt, Reason
from service.domain.jobs.report import SupervisorReport
from service.domain.metering.attribution import ALWAYS
from service.domain.metering.meter import Meter

FOREVER = 2**53
"""Later than every instant."""


class Spent(StrEnum):
    """What the seconds of an attempt were spent on."""

    BOOT = "boot"
    """From the claim until the first worker began to pull."""
    PULL = "pull"
    """Until the last worker had the image."""
    INIT = "init"
    """Until the last container had started: the barrier, checks, the wait for the device."""
    RUNNING = "running"
    LOST = "lost"
    """Ran after the last checkpoint of an attempt that did not complete; all of it without one."""
    RECOVERY = "recovery"
    """Ran again what an earlier attempt had done: up to the step that it had reached."""
    UNATTRIBUTED = "unattributed"
    """After the container ended, and whatever no report explains."""


@dataclass(frozen=True, slots=True)
class PhasePeriod:
    """Seconds [start, end) of one kind."""

    spent: Spent
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """What one phase of an attempt cost: billed seconds, chip-seconds, nano-dollars."""

    spent: Spent
    seconds: int
    chip_seconds: int
    cost: int


@dataclass(frozen=True, slots=True)
class AttemptSeconds:
    """The seconds [start, end) of one node that one attempt answers for."""

    attempt: Attempt
    start: int
    end: int


def claims(attempts: Sequence[Attempt], node_id: str, *, own_node: bool) -> list[AttemptSeconds]:
    """The claims of a job on one node, without gap or overlap.

    A node of the job's own is the job's from its first second to its last: each attempt answers for
    it until the next one begins. On a caller's node an attempt ends with its release.
    """
    here = sorted(
        (one for one in attempts if one.node_id == node_id), key=lambda one: one.claimed_at
    )
    found = []
    for position, attempt in enumerate(here):
        following = here[position + 1].claimed_at if position + 1 < len(here) else FOREVER
        start = ALWAYS if own_node and position == 0 else attempt.claimed_at
        released = FOREVER if attempt.released_at is None else attempt.released_at
        found.append(
            AttemptSeconds(attempt, start, following if own_node else min(released, following))
        )
    return found


def periods(claim: AttemptSeconds, *, saves: bool = False) -> tuple[PhasePeriod, ...]:
    """The whole claim by phase. `saves` is whether the job has a directory for its checkpoints."""
    attempt = claim.attempt
    reports = [one for one in attempt.reports.values() if one.attempt == attempt.id]
    pull, pulled, started, ended = _edges(reports)
    cuts = [claim.start, *_clipped((pull, pulled, started, ended), claim)]
    boot, pulling, init = (
        PhasePeriod(spent, left, right)
        for spent, (left, right) in zip(
            (Spent.BOOT, Spent.PULL, Spent.INIT), pairwise(cuts[:4]), strict=True
        )
    )
    running = _running(attempt, cuts[3], cuts[4], saves=saves)
    rest = PhasePeriod(Spent.UNATTRIBUTED, cuts[4], claim.end)
    every = (boot, pulling, init, *running, rest)
    return tuple(one for one in every if one.start < one.end)


def _edges(
    reports: Sequence[SupervisorReport],
) -> tuple[int | None, int | None, int | None, int | None]:
    """Begin of the first pull, end of the last, start of the last container, end of the last."""
    pulls = [one.pull_started_at for one in reports if one.pull_started_at is not None]
    return (
        min(pulls, default=None),
        _last(reports, "pulled_at"),
        _last(reports, "started_at"),
        _last(reports, "ended_at"),
    )


def _last(reports: Sequence[SupervisorReport], name: str) -> int | None:
    """The latest, once every worker has reported one."""
    found = [getattr(one, name) for one in reports]
    return None if not found or None in found else max(found)


def _clipped(instants: Iterable[int | None], claim: AttemptSeconds) -> Iterator[int]:
    """The instants within the claim and in their order; what is not known is the claim's end: the
    phase before it goes on."""
    least = claim.start
    for at in instants:
        least = max(least, min(claim.end if at is None else at, claim.end))
        yield least


def _running(attempt: Attempt, start: int, end: int, *, saves: bool) -> list[PhasePeriod]:
    """The time in which the containers ran: recovery first, what was lost last."""
    reports = attempt.own_reports
    caught_up = [one.caught_up_at for one in reports if one.caught_up_at is not None]
    again = min(max(start, min(caught_up)), end) if caught_up else start
    kept = end
    if _is_in_vain(attempt) and _is_progress_known(attempt, saves=saves):
        marks = [one.checkpoint_at for one in reports if one.checkpoint_at is not None]
        kept = min(max(start, *marks), end) if marks else start
    again = min(again, kept)
    return [
        PhasePeriod(Spent.RECOVERY, start, again),
        PhasePeriod(Spent.RUNNING, again, kept),
        PhasePeriod(Spent.LOST, kept, end),
    ]


def _is_in_vain(attempt: Attempt) -> bool:
    """Whether the attempt ended before its work was complete."""
    return attempt.ended and attempt.reason not in _COMPLETE


def _is_progress_known(attempt: Attempt, *, saves: bool) -> bool:
    """Whether the program reported steps or checkpoints, or should have: it had a directory for
    them. A program that reports nothing may have saved its work in a way of its own."""
    return saves or any(
        one.step_at is not None or one.checkpoint_at is not None for one in attempt.own_reports
    )


def lost_seconds(attempt: Attempt, found: Sequence[PhaseCost], *, saves: bool) -> int | None:
    """Billed seconds that an attempt ran after its last checkpoint, in vain; None where that is not
    known. `found` are the amounts of the attempt, `saves` as in `periods`."""
    has_run = any(one.spent in (Spent.RUNNING, Spent.RECOVERY) for one in found)
    if has_run and _is_in_vain(attempt) and not _is_progress_known(attempt, saves=saves):
        return None
    return sum(one.seconds for one in found if one.spent is Spent.LOST)


def steps_before(attempts: Sequence[Attempt]) -> int | None:
    """The highest step that the attempts before the last had reached; None where none is known."""
    earlier = (report for attempt in attempts[:-1] for report in attempt.own_reports)
    return max((one.step for one in earlier if one.step is not None), default=None)


_COMPLETE = frozenset({Reason.COMPLETED, Reason.COMPLETED_THEN_ABORTED})


def amounts(
    claim: AttemptSeconds,
    meters: Sequence[Meter],
    job_id: str,
    *,
    saves: bool = False,
) -> tuple[PhaseCost, ...]:
    """What each phase of a claim cost, by the meters of its node. Their sum is what the ledger
    charges to the job for the claim, to the nano-dollar. `saves` as in `periods`."""
    found = []
    for period in periods(claim, saves=saves):
        seconds = chip_seconds = cost = 0
        for meter in meters:
            for start, end in _charged(meter, period, job_id):
                seconds += end - start
                chip_seconds += meter.chip_seconds(start, end)
                cost += meter.charge(start, end)
        if seconds:
            found.append(PhaseCost(period.spent, seconds, chip_seconds, cost))
    return tuple(found)


def _charged(meter: Meter, period: PhasePeriod, job_id: str) -> Iterator[tuple[int, int]]:
    """The billed seconds of a period that are the job's."""
    for start, end, whose in meter.pieces(period.start, period.end):
        if whose.job == job_id:
            yield start, end


def seconds_without_charge(meters: Sequence[Meter], job_id: str, start: int, end: int) -> int:
    """Seconds of [start, end) in which no second of any node is charged to the job: it waits for
    its turn or for hardware."""
    charged = sorted(
        (left, right)
        for meter in meters
        for left, right in _charged(meter, PhasePeriod(Spent.UNATTRIBUTED, start, end), job_id)
    )
    waited, until = 0, start
    for left, right in charged:
        waited += max(0, left - until)
        until = max(until, right)
    return waited + max(0, end - until)


def unpriced_seconds(meter: Meter, job_id: str) -> int:
    """Seconds of a meter that are the job's and have no known price. They are in no figure."""
    return sum(
        meter.seconds(start, end, priced=False)
        for start, end, whose in meter.pieces(meter.usage.start, meter.end)
        if whose.job == job_id
    )


def charged_to(meter: Meter, job_id: str) -> int:
    """Nano-dollars of a meter that are charged to a job."""
    return sum(
        meter.charge(start, end)
        for start, end, whose in meter.pieces(meter.usage.start, meter.end)
        if whose.job == job_id
    )
