"""The page of capacity: recent results of attempts, and the hardware in a cooldown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.application.placement.capacity import AttemptQuery
from service.application.services import Services
from service.dashboard.kit.figures import Moment, format_duration, to_moment
from service.store.capacity import AttemptCounts

PERIODS: Mapping[str, str] = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
DEFAULT_PERIOD = "7d"
SHOWN = 200
"""The most rows of each table; the command line lists all."""


@dataclass(frozen=True, slots=True)
class RestingHardware:
    """Hardware in a cooldown, its end and its reason."""

    what: str
    model: str
    zone: str
    project: str
    reason: str
    until: Moment
    left: str


@dataclass(frozen=True, slots=True)
class TriedRow:
    """The results of the attempts at one kind of hardware in one zone. `tone` is the sign for
    whether any became READY."""

    what: str
    model: str
    zone: str
    project: str
    ready: int
    attempts: int
    tone: str
    verdict: str
    instead: str
    took: str
    preempted: str
    last: Moment
    ago: str


@dataclass(frozen=True, slots=True)
class CapacitySummary:
    """Everything on the page. `projects` is True if there is more than one project to tell
    apart."""

    period: str
    resting: tuple[RestingHardware, ...]
    resting_left_out: int
    tried: tuple[TriedRow, ...]
    tried_left_out: int
    projects: bool
    as_of: Moment


def build_capacity_page(services: Services, period: str) -> CapacitySummary:
    """The page as of now, for the default period if `period` is unknown.

    Cooldowns do not depend on the period: a refusal counts for at most a day, the shortest period.
    """
    chosen = period if period in PERIODS else DEFAULT_PERIOD
    now = services.health.read_fleet().as_of
    rows = services.capacity.report(AttemptQuery(window=chosen))
    resting = [
        RestingHardware(
            what=row.tried.key.accelerator_type,
            model=row.tried.key.model,
            zone=row.tried.key.zone,
            project=row.tried.project,
            reason=row.reason,
            until=to_moment(until),
            left=format_duration(until - now),
        )
        for row in rows
        if (until := row.back_off_until)
    ]
    resting.sort(key=lambda cooldown: (cooldown.until.iso, cooldown.zone, cooldown.what))
    tried = [_build_tried_row(row.tried, now) for row in rows]
    return CapacitySummary(
        period=chosen,
        resting=tuple(resting[:SHOWN]),
        resting_left_out=max(0, len(resting) - SHOWN),
        tried=tuple(tried[:SHOWN]),
        tried_left_out=max(0, len(tried) - SHOWN),
        projects=len({row.tried.project for row in rows}) > 1,
        as_of=to_moment(now),
    )


def _build_tried_row(tried: AttemptCounts, now: int) -> TriedRow:
    key = tried.key
    refused = tried.stock_outs + tried.quota_refusals + tried.denied + tried.failed
    lived = "" if tried.seconds_lived is None else f" after {format_duration(tried.seconds_lived)}"
    return TriedRow(
        what=key.accelerator_type,
        model=key.model,
        zone=key.zone,
        project=tried.project,
        ready=tried.ready,
        attempts=tried.attempts,
        tone="up" if tried.ready else "trouble" if refused else "coming",
        verdict=f"{tried.ready:,} of {tried.attempts:,} came up",
        instead=describe_failures(tried),
        took="" if tried.seconds_to_ready is None else format_duration(tried.seconds_to_ready),
        preempted=f"{tried.preempted:,}{lived}" if tried.preempted else "",
        last=to_moment(tried.last_attempt_at),
        ago=format_duration(now - tried.last_attempt_at),
    )


def describe_failures(tried: AttemptCounts) -> str:
    """The results of the attempts that did not become READY, in words."""
    kinds = (
        (tried.stock_outs, "stockout"),
        (tried.quota_refusals, "over quota"),
        (tried.denied, "denied"),
        (tried.failed, "failed"),
    )
    known = tried.ready + sum(number for number, _ in kinds)
    rest = (max(0, tried.attempts - known), "open or other")
    return ", ".join(f"{number:,} {what}" for number, what in (*kinds, rest) if number)
