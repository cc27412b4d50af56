"""The signals of a node, as its page shows them: small charts, and the newest state of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from service.application.cleanup.activity import RecentActivity
from service.application.cleanup.cleanup import IdleNode
from service.dashboard.kit.figures import (
    Moment,
    format_duration,
    to_moment,
)
from service.dashboard.kit.time_bars import (
    TimeBars,
    TimeSpan,
    TimeTick,
    draw_lane,
    draw_ticks,
    format_position,
)
from service.dashboard.kit.visible_text import escape_invisible, to_sentence
from service.domain.clock import HOUR
from service.domain.idle.explain import SignalState
from service.domain.idle.rollup import SLOT_SECONDS
from service.domain.idle.signals.activity import Activity
from service.domain.idle.signals.signal import (
    CPU_KINDS,
    DEVICE_KINDS,
    HOST_BYTES,
    HOST_PERCENT,
    NETWORK_KINDS,
    WORK_PERCENT,
    Kind,
    Level,
    SignalTrack,
    describe_value,
    name_signal,
)

WINDOW = 6 * HOUR
"""The time that the charts show."""

CHART_HEIGHT = 36
WORKERS_SHOWN = 8
"""The most workers with lanes of their own."""

ROWS_SHOWN = 40
"""The most signals in the table; quiet signals are left out first."""

_PERCENT = (Kind.DUTY_CYCLE, Kind.TENSORCORE, Kind.CPU, Kind.REPORTED_CPU)
_CHARTED = (
    *(Kind.DUTY_CYCLE, Kind.TENSORCORE, Kind.ACTIVE_CHIPS, Kind.UTILIZED_CHIPS),
    *(*CPU_KINDS, *NETWORK_KINDS),
)
_LEVELS: Mapping[Level, tuple[str, str]] = {
    Level.ACTIVE: ("active", "up"),
    Level.QUIET: ("quiet", "still"),
    Level.UNKNOWN: ("unknown", "unknown"),
}
_LOOKS: Mapping[Activity, tuple[str, str]] = {
    Activity.BUSY: ("active", "work"),
    Activity.STARTING: ("active", "work"),
    Activity.IDLE: ("quiet", "rest"),
    Activity.UNKNOWN: ("unknown", "unknown"),
}


@dataclass(frozen=True, slots=True)
class SlotBar:
    """Slots in a row with the same value. `height` is None for slots without a value; `hours` is
    the time from the first to the last slot, `value` the value as text."""

    x: str
    width: str
    y: float
    height: float | None
    hours: str
    value: str

    @property
    def hint(self) -> str:
        """The text for the bar under the pointer or with the focus."""
        return f"{self.hours}: {self.value}"


@dataclass(frozen=True, slots=True)
class SignalChart:
    """A signal over the window: the highest value of all workers in each slot. `threshold` is the
    height above which a value shows work."""

    name: str
    words: str
    bars: tuple[SlotBar, ...]
    threshold: float


@dataclass(frozen=True, slots=True)
class SignalRow:
    """The newest state of one signal. `worker` is empty for a signal of the whole node."""

    worker: str
    name: str
    level: str
    tone: str
    reason: str
    value: str
    age: str
    cover: str
    busy: str


@dataclass(frozen=True, slots=True)
class SignalsShown:
    """The signals of a node. `rest` says which signals the table leaves out; `ticks` are those of
    every chart."""

    bars: TimeBars
    charts: tuple[SignalChart, ...]
    ticks: tuple[TimeTick, ...]
    workers: TimeBars | None
    rows: tuple[SignalRow, ...]
    rest: str
    read: Moment | None


def build_signals(found: IdleNode, recent: RecentActivity, now: int) -> SignalsShown | None:
    """The signals of a node; None if no check has covered its current incarnation."""
    watched = found.watched
    if watched is None or watched.course.incarnation != found.node.attempt:
        return None
    start, end = recent.start, recent.end
    ticks = draw_ticks(start, end)
    # The activity of the whole node as bands, with the time of each in words.
    spans, at = list[TimeSpan](), start
    seconds: Counter[str] = Counter()
    for activity, slots in groupby(recent.slots):
        until = at + SLOT_SECONDS * len(list(slots))
        label, look = _LOOKS[activity]
        hint = f"{label} from {to_moment(at).full} for {format_duration(until - at)}"
        spans.append(TimeSpan(at, until, look, label, hint))
        seconds[label] += until - at
        at = until
    whole = format_duration(end - start)
    times = ", ".join(f"{label} {format_duration(number)}" for label, number in seconds.items())
    bars = TimeBars(
        title=f"Activity in {whole} up to {to_moment(end).full}",
        words=f"Of {whole}: {times}.",
        lanes=(draw_lane("Activity", spans, start, end),),
        ticks=ticks,
    )

    rows = sorted(
        found.signals, key=lambda signal: (signal.level is Level.QUIET, signal.worker or 0)
    )
    left = Counter(row.level for row in rows[ROWS_SHOWN:])
    said = [f"{number:,} {_LEVELS[level][0]}" for level, number in left.items()]
    return SignalsShown(
        bars=bars,
        charts=tuple(
            _draw_chart(kind, recent.values[kind], start, found.node.spec.chips)
            for kind in _CHARTED
            if kind in recent.values
        ),
        ticks=ticks,
        workers=_draw_workers(watched.signals.tracks, start, end, ticks),
        rows=tuple(_build_row(row, now) for row in rows[:ROWS_SHOWN]),
        rest=f"Further signals: {', '.join(said)}." if said else "",
        read=to_moment(watched.judged_at) if watched.judged_at else None,
    )


def _title_of(signal: str) -> str:
    name = name_signal(signal)
    return name[0].upper() + name[1:]


def _draw_chart(kind: Kind, values: Sequence[float | None], start: int, chips: int) -> SignalChart:
    known = [value for value in values if value is not None]
    top = max((100.0 if kind in _PERCENT else float(chips)), 1.0)
    threshold = WORK_PERCENT if kind in DEVICE_KINDS else HOST_PERCENT
    if kind in NETWORK_KINDS:
        top, threshold = max(2 * HOST_BYTES, *known), HOST_BYTES
    elif kind not in _PERCENT:
        threshold = 0.0
    bars, number = list[SlotBar](), 0
    for text, some in groupby(
        values, lambda value: "no value" if value is None else describe_value(kind, value)
    ):
        run = list(some)
        height = None
        if run[0] is not None:
            height = round(max(1.0, min(run[0], top) * CHART_HEIGHT / top), 2)
        first, last = (start + n * SLOT_SECONDS for n in (number, number + len(run)))
        bars.append(
            SlotBar(
                x=format_position(number, len(values)),
                width=format_position(len(run), len(values)),
                y=0.0 if height is None else round(CHART_HEIGHT - height, 2),
                height=height,
                hours=f"{to_moment(first).clock[:5]} to {to_moment(last).clock[:5]}",
                value=text,
            )
        )
        number += len(run)
    highest = max(range(len(values)), key=lambda n: -1.0 if values[n] is None else values[n] or 0.0)
    at = to_moment(start + highest * SLOT_SECONDS).clock[:5]
    words = f"highest {describe_value(kind, max(known))} at {at}"
    words += f", newest {describe_value(kind, known[-1])}"
    missing = len(values) - len(known)
    if missing:
        lacking, whole = (format_duration(n * SLOT_SECONDS) for n in (missing, len(values)))
        words += f"; {lacking} of {whole} without a value"
    return SignalChart(
        _title_of(kind), words, tuple(bars), round(CHART_HEIGHT * (1 - threshold / top), 2)
    )


def _draw_workers(
    tracks: Mapping[tuple[int, Kind], SignalTrack],
    start: int,
    end: int,
    ticks: tuple[TimeTick, ...],
) -> TimeBars | None:
    """For each worker and signal, when it is proved to be quiet, and its newest work."""
    lanes = []
    workers = sorted({worker for worker, _ in tracks})
    kinds = (*DEVICE_KINDS, *CPU_KINDS, *NETWORK_KINDS)
    pairs = [
        (worker, kind)
        for worker in workers[:WORKERS_SHOWN]
        for kind in kinds
        if (worker, kind) in tracks
    ]
    for worker, kind in pairs:
        track = tracks[worker, kind]
        known = [(first, last, "rest", "quiet") for first, last in track.at_rest]
        if track.broken_at is not None and kind is not Kind.DEVICE:
            known.insert(0, (track.broken_at - SLOT_SECONDS, track.broken_at, "work", "active"))
        spans, at = list[TimeSpan](), start
        for first, last, look, label in sorted(known):
            if first > at:
                spans.append(TimeSpan(at, first, "unknown", "unknown", "unknown"))
            if last > at:
                hint = f"{label} from {to_moment(first).full} to {to_moment(last).full}"
                spans.append(TimeSpan(max(first, at), last, look, label, hint))
            at = max(at, last)
        if at < end:
            spans.append(TimeSpan(at, end, "unknown", "unknown", "unknown"))
        lanes.append(draw_lane(f"{worker}: {_title_of(kind)}", spans, start, end))
    if not lanes:
        return None
    more = len(workers) - WORKERS_SHOWN
    shown = f" The first {WORKERS_SHOWN} of {len(workers):,} workers." if more > 0 else ""
    return TimeBars(
        title="Rest by worker and signal",
        words=f"Rest that readings prove, and the newest work. All other time is unknown.{shown}",
        lanes=tuple(lanes),
        ticks=ticks,
    )


def _build_row(signal: SignalState, now: int) -> SignalRow:
    level, tone = _LEVELS[signal.level]

    def ago(at: int | None) -> str:
        return "" if at is None else f"{format_duration(now - at)} ago"

    return SignalRow(
        worker="" if signal.worker is None else str(signal.worker),
        name=_title_of(signal.signal),
        level=level,
        tone=tone,
        reason=escape_invisible(to_sentence(signal.reason)),
        value="" if signal.value is None else describe_value(signal.signal, signal.value),
        age=ago(signal.at),
        cover=f"{signal.coverage} %",
        busy=ago(signal.last_active_at),
    )
