"""The page of capacity: results of recent attempts by zone and type, and hardware in a cooldown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.application.placement.capacity import AttemptQuery, CapacityRow
from service.application.services import Services
from service.dashboard.kit.figures import Moment, format_duration, to_moment, utc_date
from service.store.capacity import AttemptCounts

PERIODS: Mapping[str, str] = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
DEFAULT_PERIOD = "7d"
SHOWN = 200
"""The most rows of each table; the command line lists all."""

MOST_TYPES, MOST_ZONES = 8, 24
"""The most columns and rows of the heat map: those with the most attempts."""


@dataclass(frozen=True, slots=True)
class HeatCooldown:
    """The end of the cooldown of one provisioning model in a cell of the heat map. `text` is the
    end without the date if the end is today."""

    model: str
    until: Moment
    text: str


@dataclass(frozen=True, slots=True)
class HeatCell:
    """All attempts at one type in one zone. `shade` is `all`, `some` or `no`: how many of them
    became READY; empty while none has ended."""

    shade: str
    tone: str
    verdict: str
    instead: str
    cooldowns: tuple[HeatCooldown, ...]


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One zone of the heat map: a cell for each type, None if nothing was tried."""

    zone: str
    cells: tuple[HeatCell | None, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Zones by types, each by name; and how many of either are left out."""

    types: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    types_left_out: int
    zones_left_out: int


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
    heat: HeatMap
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
        heat=build_heat_map(rows, now),
        resting=tuple(resting[:SHOWN]),
        resting_left_out=max(0, len(resting) - SHOWN),
        tried=tuple(tried[:SHOWN]),
        tried_left_out=max(0, len(tried) - SHOWN),
        projects=len({row.tried.project for row in rows}) > 1,
        as_of=to_moment(now),
    )


def build_heat_map(rows: Sequence[CapacityRow], now: int) -> HeatMap:
    """The attempts of all provisioning models and projects, by zone and type."""
    by_cell: dict[tuple[str, str], list[CapacityRow]] = defaultdict(list)
    for row in rows:
        by_cell[row.tried.key.zone, row.tried.key.accelerator_type].append(row)
    zones = _count_by((row.tried.key.zone, row.tried.attempts) for row in rows)
    types = _count_by((row.tried.key.accelerator_type, row.tried.attempts) for row in rows)
    shown = sorted(types[:MOST_TYPES])
    return HeatMap(
        types=tuple(shown),
        rows=tuple(
            HeatRow(
                zone,
                tuple(
                    _build_heat_cell(some, now) if (some := by_cell.get((zone, what))) else None
                    for what in shown
                ),
            )
            for zone in sorted(zones[:MOST_ZONES])
        ),
        types_left_out=max(0, len(types) - MOST_TYPES),
        zones_left_out=max(0, len(zones) - MOST_ZONES),
    )


def _count_by(pairs: Iterable[tuple[str, int]]) -> list[str]:
    """The names, those with the most attempts first."""
    sums: dict[str, int] = defaultdict(int)
    for name, attempts in pairs:
        sums[name] += attempts
    return sorted(sums, key=lambda name: (-sums[name], name))


def _build_heat_cell(rows: Sequence[CapacityRow], now: int) -> HeatCell:
    attempts = sum(row.tried.attempts for row in rows)
    ready = sum(row.tried.ready for row in rows)
    refused = sum(count_refused(row.tried) for row in rows)
    shade, tone = "", "coming"
    if ready:
        shade, tone = ("some", "going") if refused else ("all", "up")
    elif refused:
        shade, tone = "no", "trouble"
    cooldowns = []
    for row in rows:
        if until := row.back_off_until:
            end = to_moment(until)
            text = end.clock if utc_date(until) == utc_date(now) else end.full
            cooldowns.append(HeatCooldown(row.tried.key.model, end, text))
    return HeatCell(
        shade=shade,
        tone=tone,
        verdict=f"{ready:,} of {attempts:,} READY",
        instead=_describe_sums([row.tried for row in rows]),
        cooldowns=tuple(cooldowns),
    )


def count_refused(tried: AttemptCounts) -> int:
    """The attempts that ended without READY."""
    return tried.stock_outs + tried.quota_refusals + tried.denied + tried.failed


def _build_tried_row(tried: AttemptCounts, now: int) -> TriedRow:
    key = tried.key
    refused = count_refused(tried)
    lived = "" if tried.seconds_lived is None else f" after {format_duration(tried.seconds_lived)}"
    return TriedRow(
        what=key.accelerator_type,
        model=key.model,
        zone=key.zone,
        project=tried.project,
        ready=tried.ready,
        attempts=tried.attempts,
        tone="up" if tried.ready else "trouble" if refused else "coming",
        verdict=f"{tried.ready:,} of {tried.attempts:,} READY",
        instead=describe_failures(tried),
        took="" if tried.seconds_to_ready is None else format_duration(tried.seconds_to_ready),
        preempted=f"{tried.preempted:,}{lived}" if tried.preempted else "",
        last=to_moment(tried.last_attempt_at),
        ago=format_duration(now - tried.last_attempt_at),
    )


def describe_failures(tried: AttemptCounts) -> str:
    """The results of the attempts that did not become READY, in words."""
    return _describe_sums([tried])


def _describe_sums(some: Sequence[AttemptCounts]) -> str:
    stock_outs = sum(tried.stock_outs for tried in some)
    kinds = (
        (stock_outs, "stockout" if stock_outs == 1 else "stockouts"),
        (sum(tried.quota_refusals for tried in some), "over quota"),
        (sum(tried.denied for tried in some), "denied"),
        (sum(tried.failed for tried in some), "failed"),
    )
    known = sum(tried.ready for tried in some) + sum(number for number, _ in kinds)
    rest = (max(0, sum(tried.attempts for tried in some) - known), "without a result")
    return ", ".join(f"{number:,} {what}" for number, what in (*kinds, rest) if number)
