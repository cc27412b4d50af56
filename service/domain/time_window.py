"""Time windows of cost queries, and their calendar buckets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from service.domain.clock import DATE, DAY, HOUR, INSTANT, parse_instant
from service.domain.errors import Rejected

MAX_BUCKETS = 10_000

_EDGE = rf" *({DATE}|{INSTANT}) *"
WINDOW = rf"([1-9][0-9]{{0,3}}d|[1-9][0-9]{{0,4}}h|today|mtd|{_EDGE},{_EDGE})"
"""The regular expression of windows; Python and ECMA-262 read it alike."""

_OF_THE_SERVER = frozenset({"localtime", "posixrules", "Factory"})
"""Names whose zone depends on the machine: two replicas may differ."""

_FIRST, _LAST = -2_208_988_800, 221_845_392_000
"""The years 1900 and 9000: at the ends of the calendar, a day has no neighbour."""


class Granularity(StrEnum):
    """How long a bucket is; `all` is one bucket for the whole window."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    ALL = "all"


_SHORTEST = {
    Granularity.HOUR: HOUR,
    Granularity.DAY: DAY,
    Granularity.WEEK: 7 * DAY,
    Granularity.MONTH: 28 * DAY,
}


@dataclass(frozen=True, slots=True)
class Window:
    """The half-open seconds [start, end)."""

    start: int
    end: int


def zone_of(name: str) -> ZoneInfo:
    """The time zone of a window, by its IANA name. Raises Rejected if there is none.

    The machine's own zone, and zones that count leap seconds, are rejected too.
    """
    try:
        if name not in _OF_THE_SERVER and not name.startswith(("posix/", "right/")):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    raise Rejected(
        f"{name[:80]!r} is not a time zone; write an IANA name such as UTC or Europe/Berlin",
        field="tz",
    )


def parse_window(text: str, zone: ZoneInfo, now: int) -> Window:
    """The time window of a text such as `7d`, `24h`, `today`, `mtd` or `A,B`. `7d` is seven
    calendar days, today included, up to now; `mtd` is this month up to now; `A,B` are two RFC 3339
    instants or dates.

    Raises Rejected when it is none of these, ends before it starts, or is empty.
    """
    if re.fullmatch(WINDOW, text) is None:
        raise _no_window(text)
    today = datetime.fromtimestamp(now, zone).date()
    if text.endswith("d") and text != "mtd":
        return Window(midnight_of(today - timedelta(days=int(text[:-1]) - 1), zone), now)
    if text.endswith("h"):
        return Window(now - int(text[:-1]) * HOUR, now)
    if text == "today":
        return Window(midnight_of(today, zone), now)
    if text == "mtd":
        return Window(midnight_of(today.replace(day=1), zone), now)
    return _parse_edges(text, zone)


def _parse_edges(text: str, zone: ZoneInfo) -> Window:
    first, _, second = text.partition(",")
    try:
        window = Window(_parse_edge(first, zone), _parse_edge(second, zone))
    except (ValueError, OverflowError):
        raise _no_window(text) from None
    if window.end < window.start:
        raise Rejected(
            f"the window {text[:80]!r} ends before it starts; write the earlier time first",
            field="window",
        )
    if window.end == window.start:
        raise Rejected(
            f"the window {text[:80]!r} is empty: it ends where it starts. The end is exclusive;"
            " for one day write its date and the next date",
            field="window",
        )
    if window.start < _FIRST or window.end > _LAST:
        raise Rejected("a window lies between the years 1900 and 9000", field="window")
    return window


def _no_window(text: str) -> Rejected:
    return Rejected(
        f"{text[:80]!r} is not a window; write 7d, 24h, today, mtd, or two timestamps as in"
        " 2026-11-01T00:00:00Z,2026-12-01T00:00:00Z",
        field="window",
    )


def _parse_edge(text: str, zone: ZoneInfo) -> int:
    if re.fullmatch(DATE, text.strip()):
        return midnight_of(date.fromisoformat(text.strip()), zone)
    return parse_instant(text.strip())


def midnight_of(day: date, zone: ZoneInfo) -> int:
    """The first instant of a calendar day of a time window in its zone, in UTC seconds."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())


def window_before(window: Window, zone: ZoneInfo, *, whole_weeks: bool = False) -> Window:
    """The window as many calendar days earlier as it is long, at the same time of day. `mtd` on the
    fifth day of a month at noon is compared with five days that end at noon. With `whole_weeks`,
    the shift is a multiple of seven days."""
    days = max(1, -(-(window.end - window.start) // DAY))
    shift = timedelta(days=-(-days // 7) * 7 if whole_weeks else days)
    start, end = (
        int((datetime.fromtimestamp(edge, zone) - shift).timestamp())
        for edge in (window.start, window.end)
    )
    return Window(start, end)


def split_into_buckets(window: Window, step: Granularity, zone: ZoneInfo) -> Iterator[Window]:
    """The calendar hours, days, weeks or months of a time window, clipped to it. They are its
    buckets; a day may have 23 to 25 hours.

    Raises Rejected when there would be more than ten thousand.
    """
    length = window.end - window.start
    if step is not Granularity.ALL and length // _SHORTEST[step] > MAX_BUCKETS:
        raise Rejected(
            "the answer would have more than ten thousand buckets; use a longer step", field="step"
        )
    start = window.start
    while start < window.end:
        moment = datetime.fromtimestamp(start, zone)
        day, edge = moment.date(), window.end
        match step:
            case Granularity.ALL:
                pass
            case Granularity.HOUR:
                # The next full hour by the zone's own clock, which need not be a full hour of UTC.
                offset = moment.utcoffset() or timedelta()
                edge = start + HOUR - (start + int(offset.total_seconds())) % HOUR
            case Granularity.DAY:
                edge = _midnight_after(day + timedelta(days=1), start, zone)
            case Granularity.WEEK:
                edge = _midnight_after(day + timedelta(days=7 - day.weekday()), start, zone)
            case Granularity.MONTH:
                following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                edge = _midnight_after(following, start, zone)
        end = min(edge, window.end)
        yield Window(start, end)
        start = end


def _midnight_after(day: date, start: int, zone: ZoneInfo) -> int:
    """Midnight of the day, or of the one after it where the calendar skips it (Samoa, 2011)."""
    found = midnight_of(day, zone)
    while found <= start:
        day += timedelta(days=1)
        found = midnight_of(day, zone)
    return found


def split_by_parts(parts: Sequence[Window], start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(position, start, end) of each piece of [start, end) that lies in one of some time windows.

    The parts are in order and do not overlap. Other parts are not visited: there may be thousands.
    """
    first = bisect_right(parts, start, key=lambda part: part.end)
    for position in range(first, len(parts)):
        part = parts[position]
        if part.start >= end:
            return
        left, right = max(start, part.start), min(end, part.end)
        if left < right:
            yield position, left, right
