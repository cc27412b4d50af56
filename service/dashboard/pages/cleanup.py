"""The page of the cleanup: its mode, what holds it, its plan, and the history of ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.application.cleanup.cleanup import CleanupStatus, UnknownNode
from service.application.services import Services
from service.dashboard.actions.cleanup import list_cleanup_actions
from service.dashboard.actions.nodes import ActionLink
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_money,
    format_units,
    to_moment,
)
from service.dashboard.kit.links import node_address
from service.dashboard.kit.visible_text import escape_invisible
from service.dashboard.pages.attention import describe_rate
from service.dashboard.pages.nodes.idle import RAIL_REASONS, describe_expected
from service.domain.attention.waste import WasteSum
from service.domain.clock import parse_rfc3339
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.idle.cleanup import EndRecord
from service.domain.idle.plan import PlanEntry
from service.domain.idle.policy import Action
from service.domain.idle.signals.signal import describe_value, name_signal

SHOWN = 50
"""The most rows of each table; the command line lists all."""

SIGNALS = 12
"""The most signals of one end; `nodes idle` shows all."""

NO_PRICE = "price not known"

_MODES = {
    Action.OBSERVE: "Nodes are checked. Nobody is notified, and no node ends.",
    Action.NOTIFY: "People are notified of idle nodes. No node ends.",
    Action.STOP: "Idle nodes are stopped after a notice. No node is deleted.",
    Action.DELETE: "Idle nodes are stopped or deleted after a notice, by policy.",
}


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A pause or a rail that keeps the daemon from ending nodes; `until` is None where the end is
    unknown."""

    name: str
    reason: str
    since: Moment
    until: Moment | None


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """The cleanup of one project: whether the daemon may act, its checks, and what holds it."""

    name: str
    tone: str
    verdict: str
    checked: Moment | None
    ago: str
    upcoming: str
    holds: tuple[HoldRow, ...]


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A node that would end now. `due` is when the daemon does it by itself."""

    name: str
    href: str
    project: str
    action: str
    due: str
    due_at: Moment | None
    hourly: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A node whose end is due, and the rail that it waits for."""

    place: str
    name: str
    href: str
    reason: str
    since: Moment | None
    until: Moment | None


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """A node of which it is unknown whether it is idle."""

    name: str
    href: str
    lasts: str
    since: Moment
    hourly: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndRow:
    """A node that was ended, with the evidence in sentences. `signals_left_out` counts the signals
    that are not shown."""

    at: Moment
    name: str
    href: str
    action: str
    actor: str
    hourly: str
    reason: str
    evidence: tuple[str, ...]
    signals_left_out: int


@dataclass(frozen=True, slots=True)
class CleanupPage:
    """Everything on the page. The counts are of all rows, shown or not; `more_ended` says that
    there are older ends than those shown, `kept` counts the idle nodes that a keep holds, with
    their cost an hour; empty if there is none."""

    mode: str
    mode_means: str
    projects: tuple[ProjectRow, ...]
    plan: tuple[PlanRow, ...]
    planned: str
    saves: str
    plan_left_out: int
    kept: str
    waiting: tuple[WaitingRow, ...]
    waiting_left_out: int
    unknown: tuple[UnknownRow, ...]
    unknown_sum: str
    unknown_left_out: int
    ended: tuple[EndRow, ...]
    more_ended: bool
    actions: tuple[ActionLink, ...]
    as_of: Moment


def build_cleanup_page(services: Services) -> CleanupPage:
    """The page as of now. It changes nothing, and stores no plan."""
    service = services.cleanup
    now = service.current_time()
    plans, statuses = service.list_plans(), service.list_statuses()
    planned = sorted(
        ((plan.project, entry) for plan in plans for entry in plan.entries),
        key=lambda pair: (-(pair[1].hourly or 0), pair[1].name),
    )
    waiting = [
        WaitingRow(
            place=f"{waits.place:,}",
            name=status.names.get(waits.node_id, waits.node_id),
            href=node_address(waits.node_id),
            reason=RAIL_REASONS[waits.rail],
            since=None if waits.since is None else to_moment(waits.since),
            until=None if waits.until is None else to_moment(waits.until),
        )
        for status in statuses
        for waits in status.cleanup.waiting
    ]
    kept = WasteSum()
    for source in services.attention.read_waste().sources:
        if source.kept_until is not None and source.kept_until > now:
            kept = kept.with_source(source.hourly)
    unknown = service.list_unknown()
    plan_rates, saves = _format_rates([entry.hourly for _, entry in planned])
    unknown_rates, unknown_sum = _format_rates([node.hourly for node in unknown])
    ended = service.list_ended(SHOWN + 1)
    return CleanupPage(
        mode=service.mode.ceiling,
        mode_means=_MODES[service.mode.ceiling],
        projects=tuple(_build_project(status, now) for status in statuses),
        plan=tuple(
            _build_plan_row(project, entry, rate, now)
            for (project, entry), rate in zip(planned[:SHOWN], plan_rates, strict=False)
        ),
        planned=format_count(len(planned), "node"),
        saves=saves,
        plan_left_out=max(0, len(planned) - SHOWN),
        kept=f"{format_count(kept.number, 'idle node')} {describe_rate(kept)}"
        if kept.number
        else "",
        waiting=tuple(waiting[:SHOWN]),
        waiting_left_out=max(0, len(waiting) - SHOWN),
        unknown=tuple(
            _build_unknown_row(node, rate, now)
            for node, rate in zip(unknown[:SHOWN], unknown_rates, strict=False)
        ),
        unknown_sum=f"{format_count(len(unknown), 'node')}, {unknown_sum}",
        unknown_left_out=max(0, len(unknown) - SHOWN),
        ended=tuple(map(_build_end_row, ended[:SHOWN])),
        more_ended=len(ended) > SHOWN,
        actions=list_cleanup_actions(statuses),
        as_of=to_moment(now),
    )


def _format_rates(rates: Sequence[int | None]) -> tuple[list[str], str]:
    """Each rate, as in `$12.00/h`, and the sum that the shown rates add up to. The sum says how
    many rates are not in it because their price is not known."""
    known = [rate or 0 for rate in rates]
    places = places_for(sum(known))
    units = in_units(known, unit_for(places))
    shown = [
        NO_PRICE if rate is None else f"{format_units(unit, places)}/h"
        for rate, unit in zip(rates, units, strict=True)
    ]
    total, unpriced = f"{format_units(sum(units), places)}/h", rates.count(None)
    return shown, f"{total}, and {unpriced:,} at an unknown price" if unpriced else total


def _build_project(status: CleanupStatus, now: int) -> ProjectRow:
    cleanup, upcoming = status.cleanup, status.next_tick_at
    holds = []
    if cleanup.paused_at is not None:
        by = f" (by {cleanup.paused_by})" if cleanup.paused_by else ""
        reason = escape_invisible(f"{cleanup.pause_reason}{by}")
        holds.append(HoldRow("pause", reason, to_moment(cleanup.paused_at), None))
    holds += [
        HoldRow(
            held.rail,
            escape_invisible(held.reason),
            to_moment(held.since),
            None if held.until is None else to_moment(held.until),
        )
        for held in cleanup.holds
        if held.rail != "pause"
    ]
    tone, verdict = "up", "the daemon checks nodes"
    if holds:
        tone, verdict = "trouble", f"held by {', '.join(hold.name for hold in holds)}"
    elif upcoming is None:
        tone, verdict = "trouble", "no daemon is running"
    next_check = ""
    if upcoming is not None:
        left = upcoming - now
        next_check = f"in {format_duration(left)}" if left > 0 else "now"
    return ProjectRow(
        name=cleanup.project,
        tone=tone,
        verdict=verdict,
        checked=to_moment(cleanup.ticked_at) if cleanup.ticked_at else None,
        ago=format_duration(now - cleanup.ticked_at) if cleanup.ticked_at else "",
        upcoming=next_check,
        holds=tuple(holds),
    )


def _build_plan_row(project: str, entry: PlanEntry, rate: str, now: int) -> PlanRow:
    due = "never: a person has to apply the plan"
    expected = entry.expected
    if expected is not None:
        due = describe_expected(expected, now, "the next check")
    return PlanRow(
        name=entry.name,
        href=node_address(entry.node_id),
        project=project,
        action=entry.action,
        due=due,
        due_at=None if expected is None or expected.at is None else to_moment(expected.at),
        hourly=rate,
        reason=escape_invisible(entry.reason),
    )


def _build_unknown_row(node: UnknownNode, rate: str, now: int) -> UnknownRow:
    resting = node.resting
    return UnknownRow(
        name=resting.name,
        href=node_address(resting.node_id),
        lasts=format_duration(now - resting.since),
        since=to_moment(resting.since),
        hourly=rate,
        reason="" if resting.verdict is None else escape_invisible(resting.verdict.reason),
    )


def _build_end_row(ended: EndRecord) -> EndRow:
    """The row of an ended node, with the policy and the signals of the last check before its end, a
    sentence each."""
    evidence: list[str] = []
    policy = ended.evidence.get("policy")
    if isinstance(policy, dict):
        evidence.append(
            f"Policy {policy['source']}: idle for {format_duration(policy['idle_after_seconds'])},"
            f" then {format_duration(policy['grace_seconds'])} of grace, then {policy['action']}"
        )
    listed = ended.evidence.get("signals")
    signals: Sequence[Mapping[str, Any]] = listed if isinstance(listed, list) else ()
    for signal in signals[:SIGNALS]:
        who = "node" if signal["worker"] is None else f"worker {signal['worker']}"
        parts = [f"{who}, {name_signal(signal['signal'])}: {signal['level']}"]
        if signal["value"] is not None:
            parts.append(describe_value(signal["signal"], signal["value"]))
        if signal["at"] is not None:
            parts.append(f"read at {to_moment(parse_rfc3339(signal['at'])).full}")
        if signal["reason"]:
            parts.append(signal["reason"])
        evidence.append(", ".join(parts))
    return EndRow(
        at=to_moment(ended.at),
        name=ended.name,
        href=node_address(ended.node_id),
        action=ended.action,
        actor=escape_invisible(ended.actor),
        hourly=NO_PRICE if ended.hourly is None else f"{format_money(ended.hourly)}/h",
        reason=escape_invisible(ended.reason),
        evidence=tuple(map(escape_invisible, evidence)),
        signals_left_out=max(0, len(signals) - SIGNALS),
    )
