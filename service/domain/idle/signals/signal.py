"""The signals of a worker's activity: readings, their tracks, and their values as text. Pure.

A reading is a value over a span of whole UTC seconds, [start, end). Readings come late and out of
order, and some are lost. Time without a reading is unknown, and never counts as rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """What a signal says. UNKNOWN always comes with a reason."""

    ACTIVE = "ACTIVE"
    QUIET = "QUIET"
    UNKNOWN = "UNKNOWN"


class Kind(StrEnum):
    """A signal of one worker. The first eight are series of Cloud Monitoring, the others come with
    the report of the supervisor."""

    DUTY_CYCLE = "duty_cycle"
    TENSORCORE = "tensorcore_utilization"
    TENSORCORE_IDLE = "tensorcore_idle_duration"
    ACTIVE_CHIPS = "active_chips"
    UTILIZED_CHIPS = "utilized_chips"
    CPU = "cpu"
    NETWORK = "network"
    SCHEDULED_CHIPS = "scheduled_chips"
    DEVICE = "device"
    REPORTED_CPU = "reported_cpu"
    REPORTED_NETWORK = "reported_network"


_NAMES: Mapping[str, str] = {
    Kind.TENSORCORE: "TensorCore utilization",
    Kind.TENSORCORE_IDLE: "TensorCore idle time",
    Kind.CPU: "CPU",
    Kind.REPORTED_CPU: "reported CPU",
}


def name_signal(signal: str) -> str:
    """The name of a signal in a sentence, as `duty cycle` for `duty_cycle`."""
    return _NAMES.get(signal, signal.replace("_", " "))


COUNTED = (
    Kind.DUTY_CYCLE,
    Kind.TENSORCORE,
    Kind.TENSORCORE_IDLE,
    Kind.ACTIVE_CHIPS,
    Kind.UTILIZED_CHIPS,
    Kind.CPU,
    Kind.NETWORK,
)
"""The metrics that count in a proof. A failed read of any of them freezes the course."""

MONITORED = (*COUNTED, Kind.SCHEDULED_CHIPS)
"""All metrics that are read; the metric that only informs is last."""

DEVICE_KINDS = (Kind.DUTY_CYCLE, Kind.TENSORCORE, Kind.TENSORCORE_IDLE, Kind.DEVICE)
"""Each of these signals alone proves that a device is quiet."""

CHIPS_KINDS = (Kind.ACTIVE_CHIPS, Kind.UTILIZED_CHIPS)
"""Active chips prove work. Zero active chips prove no quiet, as Google's count is not verified
(reference/jobs.md, last section). Scheduled chips are all chips of a VM: they are shown, and do not
count."""

CPU_KINDS = (Kind.CPU, Kind.REPORTED_CPU)
NETWORK_KINDS = (Kind.NETWORK, Kind.REPORTED_NETWORK)

REST_PERCENT, WORK_PERCENT = 2.0, 5.0
"""A chip becomes quiet at 2 % and active above 5 %; between these its level is unchanged."""

HOST_PERCENT = 10.0
"""The busiest core of a host is active above this percentage."""

HOST_BYTES = 1_000_000.0
"""The network of a host is active above this number of bytes a second."""


class Reading(NamedTuple):
    """One value of one worker over [start, end). The value is in percent, bytes a second, chips, or
    seconds since the last activity; of `device` 1 while a process holds it, and 0 otherwise.
    """

    worker: int
    kind: Kind
    start: int
    end: int
    value: float


Span = tuple[int, int]


class SignalTrack(NamedTuple):
    """The track of one signal of one worker.

    `at_rest` are the spans that readings show to be quiet, in order and apart, none before
    `broken_at`: the end of the newest reading that was not quiet. `end`, `value` and `level` are
    the newest reading's. `between_until` is the end of the newest reading that counts as rest only
    because the chip was quiet before it.
    """

    end: int
    value: float
    level: Level
    at_rest: tuple[Span, ...] = ()
    broken_at: int | None = None
    between_until: int | None = None

    def includes_reading(self, reading: Reading) -> bool:
        """Whether the track already includes a reading: the reading is quiet, and within a quiet
        span before the newest reading."""
        if reading.end >= self.end or reading.value > _AT_REST.get(reading.kind, -1.0):
            return False
        return any(first <= reading.start and reading.end <= last for first, last in self.at_rest)

    def seconds_at_rest(self, start: int, end: int) -> int:
        """Return the quiet seconds of [start, end)."""
        seconds = 0
        for first, last in self.at_rest:
            if last > start and first < end:
                seconds += min(end, last) - max(start, first)
        return seconds


def with_reading(before: SignalTrack | None, reading: Reading, oldest: int) -> SignalTrack:
    """Return the track of a signal after one more reading. Rest before `oldest` is dropped.

    The level of a late reading depends on the track before the reading. Late work may change the
    rest after it to work, until a reading that shows rest by itself.
    """
    if before is None:
        before = SignalTrack(reading.end, reading.value, Level.ACTIVE)
    is_newest = reading.end >= before.end
    if is_newest and (track := _extend_same_level(before, reading, oldest)) is not None:
        return track
    was_quiet = (
        before.level is Level.QUIET
        if is_newest
        else any(first <= reading.start for first, _ in before.at_rest)
    )
    level = level_of(reading, was_quiet=was_quiet)
    newest = (before.end, before.value, before.level)
    if is_newest:
        newest = (reading.end, reading.value, level)
    between, broken_at = before.between_until, before.broken_at
    if level is Level.QUIET:
        if reading.value > _AT_REST.get(reading.kind, reading.value):
            between = max(reading.end, between or 0)
        start = max(reading.start, oldest, broken_at or 0)
        at_rest = _join_span(before.at_rest, (start, reading.end), oldest)
        return SignalTrack(*newest, at_rest, broken_at, between)
    broken_at = max(reading.end, broken_at or 0)
    was_at_rest = any(first < broken_at for first, _ in before.at_rest)
    if was_at_rest and between is not None and between > broken_at:
        broken_at = between
        if newest[0] == between:
            newest = (*newest[:2], Level.ACTIVE)
    after = [(max(first, broken_at), last) for first, last in before.at_rest if last > broken_at]
    return SignalTrack(*newest, tuple(after), broken_at, between)


def _extend_same_level(before: SignalTrack, reading: Reading, oldest: int) -> SignalTrack | None:
    """The track if the newest reading has the same level as the readings before, as almost always
    in a fleet; None for other readings. A shortcut: without it the result is the same."""
    _, kind, start, end, value = reading
    if not before.at_rest:
        is_idle_counter = kind is Kind.TENSORCORE_IDLE
        if kind is Kind.SCHEDULED_CHIPS:
            level = Level.UNKNOWN
        elif value < end - start if is_idle_counter else value > _AT_WORK.get(kind, _NEVER):
            level = Level.ACTIVE
        else:
            return None
        worked_at = max(end, before.broken_at or 0)
        return SignalTrack(end, value, level, (), worked_at, before.between_until)
    first, last = before.at_rest[0]
    if len(before.at_rest) > 1 or value > _AT_REST.get(kind, -1.0):
        return None
    if not max(first, oldest, before.broken_at or 0) <= start <= last or not oldest < last <= end:
        return None
    return SignalTrack(
        end, value, Level.QUIET, ((first, end),), before.broken_at, before.between_until
    )


_AT_REST: Mapping[Kind, float] = {
    Kind.DUTY_CYCLE: REST_PERCENT,
    Kind.TENSORCORE: REST_PERCENT,
    Kind.ACTIVE_CHIPS: 0.0,
    Kind.UTILIZED_CHIPS: 0.0,
    Kind.CPU: HOST_PERCENT,
    Kind.REPORTED_CPU: HOST_PERCENT,
    Kind.NETWORK: HOST_BYTES,
    Kind.REPORTED_NETWORK: HOST_BYTES,
}
"""The highest value at which a signal is quiet."""
_AT_WORK = {
    **_AT_REST,
    Kind.DUTY_CYCLE: WORK_PERCENT,
    Kind.TENSORCORE: WORK_PERCENT,
}
"""The highest value at which a signal may still be quiet, if it was quiet before."""
_NEVER = math.inf


def level_of(reading: Reading, *, was_quiet: bool) -> Level:
    """Return the level that a signal shows by one reading. UNKNOWN for a device that a process
    holds, which may work or not, and for the scheduled chips of a VM."""
    if reading.kind is Kind.SCHEDULED_CHIPS:
        return Level.UNKNOWN
    if reading.kind is Kind.DEVICE:
        return Level.UNKNOWN if reading.value else Level.QUIET
    if reading.kind is Kind.TENSORCORE_IDLE:
        is_quiet = reading.value >= reading.end - reading.start
    elif reading.kind in (Kind.DUTY_CYCLE, Kind.TENSORCORE) and was_quiet:
        is_quiet = reading.value <= WORK_PERCENT
    else:
        is_quiet = reading.value <= _AT_REST[reading.kind]
    return Level.QUIET if is_quiet else Level.ACTIVE


def _join_span(spans: tuple[Span, ...], new: Span, oldest: int) -> tuple[Span, ...]:
    """The spans with another span, joined where they touch."""
    start, end = new
    if start >= end:
        return spans
    if len(spans) == 1 and spans[0][0] <= start <= spans[0][1] and spans[0][1] > oldest:
        return ((spans[0][0], max(spans[0][1], end)),)  # as almost always
    apart = []
    for first, last in spans:
        if last < start or first > end:
            if last > oldest:
                apart.append((max(first, oldest), last))
        else:
            start, end = min(first, start), max(last, end)
    return tuple(sorted([*apart, (start, end)]))


UNITS: Mapping[str, str] = {
    Kind.DUTY_CYCLE: "%",
    Kind.TENSORCORE: "%",
    Kind.CPU: "%",
    Kind.REPORTED_CPU: "%",
    Kind.TENSORCORE_IDLE: "s",
    Kind.ACTIVE_CHIPS: "chips",
    Kind.UTILIZED_CHIPS: "chips",
    Kind.SCHEDULED_CHIPS: "chips",
}


def describe_value(kind: str, value: float) -> str:
    """Return the value of a signal as text: `2.5 %`, `0.74 kB/s` or `63 s`. It is `held` or `free`
    for a device."""
    if kind == Kind.DEVICE:
        return "held" if value else "free"
    if kind in UNITS:
        return f"{value:.3g} {UNITS[kind]}" if value < 1_000 else f"{value:,.0f} {UNITS[kind]}"
    return f"{value / 1_000:,.3g} kB/s" if value < 1_000_000 else f"{value / 1e6:,.3g} MB/s"
