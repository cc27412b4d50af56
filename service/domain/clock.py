"""Time as a value: whole UTC seconds since 1970. The only module that reads the wall clock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""Returns the present instant in whole UTC seconds."""

MINUTE = 60
HOUR = 3_600
DAY = 86_400

END_OF_TIME = 4_102_444_800
"""2100-01-01T00:00:00Z: a later time is a typing error."""

DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
"""The regular expression of dates; Python and ECMA-262 read it alike."""

_HOUR = "([01][0-9]|2[0-3])"
INSTANT = rf"{DATE}[Tt]{_HOUR}(:[0-5][0-9]){{2}}(\.[0-9]+)?([Zz]|[+-]{_HOUR}:[0-5][0-9])"
"""The regular expression of instants: `date-time` of RFC 3339, with its offset."""


def wall_clock() -> int:
    """The present instant of the wall clock, in whole UTC seconds."""
    return int(time.time())


def precise_clock() -> float:
    """The present instant of the wall clock with its fraction, only to compare clocks."""
    return time.time()


def to_rfc3339(seconds: int) -> str:
    """The RFC 3339 text of an instant in UTC seconds: `1764000000` is `2025-11-24T16:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> int:
    """Whole UTC seconds of an RFC 3339 instant; parts of a second are cut off.

    Raises ValueError when the text is no instant, or has no offset and so is ambiguous.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone; write it as 2026-11-01T00:00:00Z")
    return int(moment.timestamp() // 1)


def parse_instant(text: str) -> int:
    """Whole UTC seconds of a caller's instant; parts of a second are cut off.

    Raises ValueError for all texts but `INSTANT`, also for other forms of ISO 8601 that Python
    reads: the OpenAPI document allows no others.
    """
    if re.fullmatch(INSTANT, text) is None:
        raise ValueError(f"{text!r} is not a timestamp (RFC 3339)")
    return parse_rfc3339(text.upper())


def parse_instant_or_date(text: str) -> int:
    """Whole UTC seconds of an RFC 3339 instant, or of the start of a date.

    Raises ValueError when the text is neither, or is not between 1970 and 2100.
    """
    is_date = re.fullmatch(DATE, text) is not None
    try:
        seconds = parse_instant(f"{text}T00:00:00Z" if is_date else text)
    except (ValueError, OverflowError):
        raise ValueError("write it as 2026-11-01T00:00:00Z, or as a date: 2026-11-01") from None
    if not 0 <= seconds < END_OF_TIME:
        raise ValueError("it must be between 1970 and 2100")
    return seconds


def floor_to(seconds: int, step: int) -> int:
    """The clock time in seconds, rounded down to a multiple of `step`."""
    return seconds - seconds % step
