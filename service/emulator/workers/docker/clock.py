"""The clock of the stand-in for docker, which imports only the standard library."""

from __future__ import annotations

import time


def now() -> float:
    """Seconds since 1970 by this machine's clock; nothing else in the stand-in reads it."""
    return time.time()


def now_ns() -> int:
    """Nanoseconds since 1970, as docker stamps each line of a log."""
    return time.time_ns()
