"""The page of where hardware was to be had lately, and of what is left alone until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.application.placement.capacity import AttemptQuery, CapacityRow
from service.application.services import Services
from service.dashboard.kit.figures import Moment, duration, moment
from service.store.capacity import AttemptCounts

PERIODS: Mapping[str, str] = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
DEFAULT_PERIOD = "7d"
SHOWN = 200
"""Rows of each table; the command line lists all."""


@dataclass(frozen=True, slots=True)
class RestingHardware:
    """Hardware that is left alone, until when, and why."""

    what: str
    model: str
    zone: str
    project: str
    reason: str
    until: Moment
    left: str


@dataclass(frozen=True, slots=True)
class TriedRow:
    """What became of the attempts at one kind of hardware in one zone; `tone` is the sign for
    whether any came up."""

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
    """Everything on the page; `projects` says whether there is more than one to tell apart."""

    period: str
    resting: tuple[RestingHardware, ...]
    resting_left_out: int
    tried: tuple[TriedRow, ...]
    tried_left_out: int
    projects: bool
    as_of: Moment


def capacity_of(services: Services, period: str) -> CapacitySummary:
    """The page as of now; a period that makes no sense counts as not said.

    What is left alone does not depend on the period: a refusal counts for a day at most, and no
    period that can be asked for is shorter.
    """
    chosen = period if period in PERIODS else DEFAULT_PERIOD
    now = services.health.fleet().as_of
    rows = services.capacity.report(AttemptQuery(window=chosen))
    resting = [_resting(row, until, now) for row in rows if (until := row.back_off_until)]
    resting.sort(key=lambda one: (one.until.iso, one.zone, one.what))
    tried = [_tried(row.tried, now) for row in rows]
    return CapacitySummary(
        period=chosen,
        resting=tuple(resting[:SHOWN]),
        resting_left_out=max(0, len(resting) - SHOWN),
        tried=tuple(tried[:SHOWN]),
        tried_left_out=max(0, len(tried) - SHOWN),
        projects=len({row.tried.project for row in rows}) > 1,
        as_of=moment(now),
    )


def _resting(row: CapacityRow, until: int, now: int) -> RestingHardware:
    key = row.tried.key
    return RestingHardware(
        what=key.accelerator_type,
        model=key.model,
        zone=key.zone,
        project=row.tried.project,
        reason=row.reason,
        until=moment(until),
        left=duration(until - now),
    )


def _tried(tried: AttemptCounts, now: int) -> TriedRow:
    key = tried.key
    return TriedRow(
        what=key.accelerator_type,
        model=key.model,
        zone=key.zone,
        project=tried.project,
        ready=tried.ready,
        attempts=tried.attempts,
        tone=_tone(tried),
        verdict=f"{tried.ready:,} of {tried.attempts:,} came up",
        instead=instead_of(tried),
        took="" if tried.seconds_to_ready is None else duration(tried.seconds_to_ready),
        preempted=_preempted(tried),
        last=moment(tried.last_attempt_at),
        ago=duration(now - tried.last_attempt_at),
    )


def instead_of(tried: AttemptCounts) -> str:
    """What became of those that did not come up, in words."""
    kinds = (
        (tried.stock_outs, "stockout"),
        (tried.quota_refusals, "over quota"),
        (tried.denied, "denied"),
        (tried.failed, "failed"),
    )
    known = tried.ready + sum(number for number, _ in kinds)
    rest = (max(0, tried.attempts - known), "open or other")
    return ", ".join(f"{number:,} {what}" for number, what in (*kinds, rest) if number)


def _tone(tried: AttemptCounts) -> str:
    if tried.ready:
        return "up"
    refused = tried.stock_outs + tried.quota_refusals + tried.denied + tried.failed
    return "trouble" if refused else "coming"


def _preempted(tried: AttemptCounts) -> str:
    if not tried.preempted:
        return ""
    after = "" if tried.seconds_lived is None else f" after {duration(tried.seconds_lived)}"
    return f"{tried.preempted:,}{after}"
