"""Time as the emulator sees it: seconds since 1970, read from a callable that can be replaced."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

Clock = Callable[[], float]
FIRST_MOMENT = -62_135_596_800.0
LAST_MOMENT = 253_402_300_799.0
"""The end of year 9999, beyond which no timestamp goes."""


def wall_clock() -> float:
    """Read this machine's clock. No other function of the emulator does."""
    return time.time()


def to_timestamp(at: float) -> Timestamp:
    """Convert unix seconds; microseconds are truncated, so the whole second is `floor(at)`."""
    return Timestamp(seconds=math.floor(at), nanos=int((at % 1) * 1_000_000) * 1000)


def is_moment(given: Timestamp) -> bool:
    """Whether a timestamp is valid: from year 1 to year 9999."""
    seconds, nanos = int(given.seconds), int(given.nanos)
    return FIRST_MOMENT <= seconds <= LAST_MOMENT and 0 <= nanos < 1_000_000_000


def parse_time(text: str) -> float:
    """Return the unix seconds of a text: unix seconds or RFC 3339 with an offset.

    Raises ValueError.
    """
    try:
        moment = float(text)
    except ValueError:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            raise ValueError(f"{text!r} has no offset from UTC") from None
        moment = when.astimezone(UTC).timestamp()
    if not math.isfinite(moment):
        raise ValueError(f"{text!r} is not a moment")
    return moment
