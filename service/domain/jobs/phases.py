"""The cost of an attempt by phase: its seconds, priced by the ledger's own meter.

The cuts are instants that the workers reported. They divide the ledger's charge for the claim, and
never change the sum, because `Meter.charge_in` gives the same total however time is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """After the last checkpoint of an attempt that did not complete; the whole run without one."""
    RECOVERY = "recovery"
    """The repetition of an earlier attempt's work, up to the step that it had reached."""
    UNATTRIBUTED = "unattributed"
    """After the container ended, and seconds that no report explains."""


@dataclass(frozen=True, slots=True)
class PhasePeriod:
    """Seconds [start, end) of one kind."""

    spent: Spent
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """The cost of one phase of an attempt: billed seconds, chip-seconds, nano-dollars."""

    spent: Spent
    seconds: int
    chip_seconds: int
    cost: int


@dataclass(frozen=True, slots=True)
class AttemptSeconds:
    """The seconds [start, end) of one node that belong to one attempt."""

    attempt: Attempt
    start: int
    end: int


def list_claims(
    attempts: Sequence[Attempt], node_id: str, *, own_node: bool
) -> list[AttemptSeconds]:
    """Return the claims of a job on one node, whose phases are priced, without overlap.

    A node of the job's own belongs to the job from its first second to its last: each attempt has
    the node until the next attempt begins. On a caller's node an attempt ends with its release.
    """
    here = sorted(
        (attempt for attempt in attempts if attempt.node_id == node_id),
        key=lambda attempt: attempt.claimed_at,
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


def list_periods(claim: AttemptSeconds, *, saves: bool = False) -> tuple[PhasePeriod, ...]:
    """Return the periods of a whole claim by phase. `saves` is whether the job has a directory for
    its checkpoints."""
    attempt = claim.attempt
    reports = attempt.own_reports
    pulls = [report.pull_started_at for report in reports if report.pull_started_at is not None]
    instants = (
        min(pulls, default=None),
        _last_instant(reports, "pulled_at"),
        _last_instant(reports, "started_at"),
        _last_instant(reports, "ended_at"),
    )
    cuts = [claim.start]
    for at in instants:  # without an instant, the phase before it lasts until the claim's end
        cuts.append(max(cuts[-1], min(claim.end if at is None else at, claim.end)))
    boot, pulling, init = (
        PhasePeriod(spent, left, right)
        for spent, (left, right) in zip(
            (Spent.BOOT, Spent.PULL, Spent.INIT), pairwise(cuts[:4]), strict=True
        )
    )
    # The containers ran from `start` to `end`: recovery first, lost work last.
    start, end = cuts[3], cuts[4]
    caught_up = [report.caught_up_at for report in reports if report.caught_up_at is not None]
    again = min(max(start, min(caught_up)), end) if caught_up else start
    kept = end
    if _is_incomplete(attempt) and _is_progress_known(attempt, saves=saves):
        marks = [report.checkpoint_at for report in reports if report.checkpoint_at is not None]
        kept = min(max(start, *marks), end) if marks else start
    again = min(again, kept)
    running = [
        PhasePeriod(Spent.RECOVERY, start, again),
        PhasePeriod(Spent.RUNNING, again, kept),
        PhasePeriod(Spent.LOST, kept, end),
    ]
    rest = PhasePeriod(Spent.UNATTRIBUTED, end, claim.end)
    every = (boot, pulling, init, *running, rest)
    return tuple(period for period in every if period.start < period.end)


def _last_instant(reports: Sequence[SupervisorReport], name: str) -> int | None:
    """The latest of the workers' instants; None before every worker has reported one."""
    found = [getattr(report, name) for report in reports]
    return None if not found or None in found else max(found)


def _is_incomplete(attempt: Attempt) -> bool:
    """Whether the attempt ended before its work was complete."""
    return attempt.ended and attempt.reason not in _COMPLETE


def _is_progress_known(attempt: Attempt, *, saves: bool) -> bool:
    """Whether the program reported steps or checkpoints, or had a directory for checkpoints. A
    program without reports may have saved its work in another way."""
    return saves or any(
        report.step_at is not None or report.checkpoint_at is not None
        for report in attempt.own_reports
    )


def lost_seconds(attempt: Attempt, found: Sequence[PhaseCost], *, saves: bool) -> int | None:
    """Return the billed seconds of an attempt's lost phase, after the last checkpoint of incomplete
    work. None where these are unknown. `found` are the costs of the attempt's phases, `saves` is
    whether the job has a directory for its checkpoints."""
    has_run = any(phase.spent in (Spent.RUNNING, Spent.RECOVERY) for phase in found)
    if has_run and _is_incomplete(attempt) and not _is_progress_known(attempt, saves=saves):
        return None
    return sum(phase.seconds for phase in found if phase.spent is Spent.LOST)


def steps_before(attempts: Sequence[Attempt]) -> int | None:
    """Return the highest step of the attempts before the last, where its recovery phase ends. None
    where no step is known."""
    earlier = (report for attempt in attempts[:-1] for report in attempt.own_reports)
    return max((report.step for report in earlier if report.step is not None), default=None)


_COMPLETE = frozenset({Reason.COMPLETED, Reason.COMPLETED_THEN_ABORTED})


def price_phases(
    claim: AttemptSeconds,
    meters: Sequence[Meter],
    job_id: str,
    *,
    saves: bool = False,
) -> tuple[PhaseCost, ...]:
    """Return the cost of each phase of a claim, by the meters of its node. The sum is the ledger's
    charge to the job for the claim, to the nano-dollar. `saves` is whether the job has a directory
    for its checkpoints."""
    found = []
    for period in list_periods(claim, saves=saves):
        seconds = chip_seconds = cost = 0
        for meter in meters:
            for start, end in _list_charged(meter, period, job_id):
                seconds += end - start
                chip_seconds += meter.chip_seconds_in(start, end)
                cost += meter.charge_in(start, end)
        if seconds:
            found.append(PhaseCost(period.spent, seconds, chip_seconds, cost))
    return tuple(found)


def _list_charged(meter: Meter, period: PhasePeriod, job_id: str) -> Iterator[tuple[int, int]]:
    """The billed seconds of a period that are charged to the job."""
    for start, end, whose in meter.attributed_parts(period.start, period.end):
        if whose.job == job_id:
            yield start, end


def seconds_without_charge(meters: Sequence[Meter], job_id: str, start: int, end: int) -> int:
    """Return the seconds of [start, end) outside the phases that are charged to a job. The job
    waits for its turn or for hardware."""
    period = PhasePeriod(Spent.UNATTRIBUTED, start, end)
    charged = sorted(
        (left, right) for meter in meters for left, right in _list_charged(meter, period, job_id)
    )
    waited, until = 0, start
    for left, right in charged:
        waited += max(0, left - until)
        until = max(until, right)
    return waited + max(0, end - until)


def unpriced_seconds(meter: Meter, job_id: str) -> int:
    """Return the seconds of a meter in the phases of a job that have no known price. No cost
    includes them."""
    return sum(
        meter.seconds_in(start, end, priced=False)
        for start, end, whose in meter.attributed_parts(meter.usage.start, meter.end)
        if whose.job == job_id
    )


def charged_to(meter: Meter, job_id: str) -> int:
    """Return the nano-dollars of a meter that are charged to the phases of a job."""
    return sum(
        meter.charge_in(start, end)
        for start, end, whose in meter.attributed_parts(meter.usage.start, meter.end)
        if whose.job == job_id
    )
