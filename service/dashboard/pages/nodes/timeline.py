"""The timeline on the page of a node: states, billed segments and events, with their dollars."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from service.application.jobs.jobs import OnNode
from service.application.nodes.cost import BilledSegment
from service.application.nodes.timeline import NodeTimeline
from service.application.services import Services
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_money,
    format_units,
    to_moment,
)
from service.dashboard.kit.links import job_address, node_address
from service.dashboard.kit.node_rows import NOT_KNOWN, tone_of
from service.dashboard.kit.time_bars import MOST_SPANS, TimeBars, TimeSpan, draw_lane, draw_ticks
from service.dashboard.kit.visible_text import escape_invisible, to_sentence
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.event import Event
from service.domain.metering.meter import Evidence
from service.domain.nodes.slices import WHOLE
from service.store.ledger import PostedLine

EVENTS_SHOWN = 40
"""Events on one page of the timeline."""

_KINDS: Mapping[str, str] = {
    "asked": "Request",
    "runtime": "Software",
    "reimaged": "Software",
    "placement": "Placement",
    "denied": "Refusal",
    "queue": "Queue",
    "state": "State",
    "adopted": "State",
    "idle": "Idle notice",
    "alarm": "Alarm",
    "held": "Held back",
    "budget": "Budget",
    "job": "Job",
    "evidence": "Evidence",
    "orphan": "Orphan",
    "failed": "Failure",
    "ended": "End",
}
_LOUD = frozenset({"alarm", "failed", "denied"})
_EXPLAINING = frozenset({"runtime", "placement", "evidence"})
LATEST = 8
"""Events of all nodes on the first page."""
_EVIDENCE: Mapping[Evidence, str] = {
    Evidence.OPERATION: "Google's record of the operation",
    Evidence.AUDIT: "Google's audit log",
    Evidence.OBSERVED: "polls",
    Evidence.PURCHASE: "the purchase",
    Evidence.UNSEEN: "no poll; an upper bound",
}
_JOB = re.compile(r"\bjob ([0-9a-f]{8}-[0-9a-f-]{27})\b")


@dataclass(frozen=True, slots=True)
class LatestEvent:
    """An event on the first page, with the name of its node and where that leads. The name is empty
    where no node is recorded, as for an orphan."""

    node: str
    href: str
    entry: TimelineEntry


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One entry. `amount` is empty unless the entry has a cost; `href` leads to its evidence, and
    `link` says what is there. `loud` is True for trouble. `times` counts equal events in a row,
    the first of them at `first`."""

    at: Moment | None
    kind: str
    text: str
    note: str = ""
    amount: str = ""
    href: str = ""
    link: str = ""
    loud: bool = False
    times: int = 1
    first: Moment | None = None


@dataclass(frozen=True, slots=True)
class StateTotal:
    """A state with the whole time in it; `tone` is the sign that goes with the state."""

    state: str
    tone: str
    time: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline as shown, newest first. `coming` are future entries. `here` is the cost of the
    segments on this page and `elsewhere` that of the others, empty if there are none; together they
    are `total`, the cost of the node as shown. `newer` and `older` lead to other pages."""

    bars: TimeBars
    states: tuple[StateTotal, ...]
    coming: tuple[TimelineEntry, ...]
    entries: tuple[TimelineEntry, ...]
    segments: int
    here: str
    elsewhere: str
    total: str
    newer: str
    older: str
    left: int


def build_timeline(
    history: NodeTimeline, jobs: Sequence[OnNode], coming: Iterable[TimelineEntry]
) -> Timeline:
    """The timeline of one page of events."""
    page, cost = history.events, history.cost
    home = node_address(history.node.id)
    places = places_for(cost.cost)
    units = in_units([segment.cost for segment in cost.segments], unit_for(places))
    shown = [page.covers(segment.usage.start) for segment in cost.segments]
    dated = list(_list_event_entries(page.events))
    # Corrections that were posted at once are one entry.
    posted: dict[int, list[PostedLine]] = defaultdict(list)
    for line in history.lines:
        if line.corrects_id is not None and page.covers(line.posted_at):
            posted[line.posted_at].append(line)
    for at, lines in posted.items():
        change = format_money(sum(line.amount_nanos for line in lines))
        text = f"{format_count(len(lines), 'line')} of the ledger corrected by {change}"
        entry = TimelineEntry(
            at=to_moment(at),
            kind="Correction",
            text=f"{text}. The segments include this.",
            note="the ledger",
            href=f"{home}/ledger/{lines[0].id}",
            link=f"Evidence: line {lines[0].id}",
        )
        dated.append((at, entry))
    dated += [
        (segment.usage.start, _build_segment(segment, format_units(unit, places), history))
        for segment, unit, is_here in zip(cost.segments, units, shown, strict=True)
        if is_here
    ]
    here = sum(unit for unit, is_here in zip(units, shown, strict=True) if is_here)
    is_first, left = page.until is None, page.older
    return Timeline(
        bars=_draw_bars(history, jobs),
        states=tuple(_sum_states(history)),
        coming=tuple(coming) if is_first else (),
        entries=tuple(entry for _, entry in sorted(dated, key=lambda dated_entry: -dated_entry[0])),
        segments=sum(shown),
        here=format_units(here, places),
        elsewhere="" if all(shown) else format_units(sum(units) - here, places),
        total=NOT_KNOWN if cost.unpriced_seconds and not cost.cost else format_money(cost.cost),
        newer="" if is_first else f"{home}#timeline-heading",
        older=f"{home}?before={page.next_before}#timeline-heading" if left else "",
        left=left,
    )


def build_latest_entries(services: Services) -> tuple[LatestEvent, ...]:
    """The latest events of all nodes, newest first. What only explains a request is left out."""
    found = services.nodes.list_latest_events(sorted(_KINDS.keys() - _EXPLAINING), LATEST)
    return tuple(
        LatestEvent(
            node=escape_invisible(name),
            href=node_address(event.node_id) if name else "/orphans",
            entry=_to_entry(event),
        )
        for name, event in found
    )


def _list_event_entries(
    events: Sequence[tuple[int, Event]],
) -> Iterator[tuple[int, TimelineEntry]]:
    """The entries of events, newest first. Equal events in a row are one entry."""
    last: Event | None = None
    entry: TimelineEntry | None = None
    for _, event in events:
        is_same = last is not None and (last.kind, last.message, last.actor) == (
            event.kind,
            event.message,
            event.actor,
        )
        if is_same and entry is not None:
            entry = replace(entry, times=entry.times + 1, first=to_moment(event.at))
            continue
        if entry is not None and last is not None:
            yield last.at, entry
        last, entry = event, _to_entry(event)
    if entry is not None and last is not None:
        yield last.at, entry


def _to_entry(event: Event) -> TimelineEntry:
    job = _JOB.search(event.message)
    return TimelineEntry(
        at=to_moment(event.at),
        kind=_KINDS.get(event.kind, "Event"),
        text=escape_invisible(to_sentence(event.message)),
        note=escape_invisible(event.actor),
        href=job_address(job[1]) if job else "",
        link="Job" if job else "",
        loud=event.kind in _LOUD,
    )


def _build_segment(segment: BilledSegment, amount: str, history: NodeTimeline) -> TimelineEntry:
    """A billed segment in words, with a link to a line of the ledger that explains it."""
    usage, seconds = segment.usage, segment.end - segment.usage.start
    what = f"{format_count(usage.chips, 'chip')} of {usage.accelerator_type}"
    if usage.sku.is_vm:
        what = f"VM {usage.accelerator_type}"
    part = "" if usage.slice == WHOLE else f"Slice {usage.slice}, "
    is_running = usage.end is None
    text = f"{part}{what}: {format_count(seconds, 'second')}"
    text += ", still running" if is_running else f", {format_duration(seconds)}"
    if usage.free:
        text += f"; free ({usage.free.replace('_', ' ')})"
    elif segment.unpriced_seconds:
        text += f"; no price is known for {format_duration(segment.unpriced_seconds)}"
    began = f"begin known by {_EVIDENCE[usage.start_evidence]}"
    ended = "" if usage.end_evidence is None else f", end by {_EVIDENCE[usage.end_evidence]}"
    until = "" if usage.end is None else f"until {to_moment(usage.end).full}; "
    unsure = f", up to {format_money(segment.uncertainty)} uncertain" if segment.uncertainty else ""
    # The newest line of the interval that adjusts no other line; none before the first.
    line = next(
        (
            line
            for line in reversed(history.lines)
            if (line.usage_id, line.is_vm) == (usage.id, usage.sku.is_vm)
            and line.corrects_id is None
        ),
        None,
    )
    home = f"{node_address(history.node.id)}/ledger"
    is_unknown = segment.unpriced_seconds and not segment.cost
    return TimelineEntry(
        at=to_moment(usage.start),
        kind="Billed",
        text=to_sentence(text),
        note=f"{until}{began}{ended}{unsure}.",
        amount=NOT_KNOWN if is_unknown else amount,
        href=home if line is None else f"{home}/{line.id}",
        link="Ledger, not yet posted" if line is None else f"Evidence: line {line.id}",
    )


def _sum_states(history: NodeTimeline) -> Iterator[StateTotal]:
    """Each state with its time, in the order of first appearance."""
    seconds: dict[str, int] = defaultdict(int)
    for run in history.states:
        seconds[run.state] += run.end - run.start
    for state, total in seconds.items():
        yield StateTotal(escape_invisible(state), tone_of(state), format_duration(total))


def _draw_bars(history: NodeTimeline, jobs: Sequence[OnNode]) -> TimeBars:
    """The life of the node: its states, its billed segments, and its jobs."""
    node, now = history.node, history.cost.as_of
    start = node.created_at
    end = max(start + 1, now if node.ended_at is None else node.ended_at)
    # Words for ten thousand runs would take a second.
    longest = sorted(history.states, key=lambda run: run.start - run.end)[:MOST_SPANS]
    hidden = len(history.states) - len(longest)
    states = [
        TimeSpan(
            run.start,
            run.end,
            tone_of(run.state),
            escape_invisible(run.state),
            f"{escape_invisible(run.state)} for {format_duration(run.end - run.start)}"
            f" from {to_moment(run.start).full}",
        )
        for run in longest
    ]
    billed = [
        TimeSpan(
            segment.usage.start,
            segment.end,
            "billed",
            "billed",
            f"billed for {format_duration(segment.end - segment.usage.start)}"
            f" from {to_moment(segment.usage.start).full}",
        )
        for segment in history.cost.segments
        if not segment.usage.sku.is_vm
    ]
    lanes = [
        draw_lane("State", states, start, end, hidden),
        draw_lane("Billed", billed, start, end),
    ]
    runs = []
    for found in jobs:
        name = escape_invisible(found.job.spec.run_name) or found.job.id[-8:]
        for attempt in found.attempts:
            until = end if attempt.released_at is None else attempt.released_at
            time = format_duration(until - attempt.claimed_at)
            hint = f"job {name}, attempt {attempt.number}, {time}"
            runs.append(TimeSpan(attempt.claimed_at, until, "job", name, hint))
    if runs:
        lanes.append(draw_lane("Jobs", runs, start, end))
    words = "; ".join(f"{total.state} {total.time}" for total in _sum_states(history))
    return TimeBars(
        title=f"Life of the node, {to_moment(start).full} to {to_moment(end).full}",
        words=f"{words}. The list below has the same in words.",
        lanes=tuple(lanes),
        ticks=draw_ticks(start, end),
    )
