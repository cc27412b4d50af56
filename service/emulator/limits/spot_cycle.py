"""The week of spot capacity: scarce while America works, plenty at night and at the weekend."""

from __future__ import annotations

import math

HOUR = 3600
DAY = 24 * HOUR
PEAK_HOUR = 20
"""In UTC: the afternoon of the East coast and the morning of the West."""
WEEKEND_SHARE = 0.3
# The first of January 1970 was a Thursday.
THURSDAY = 3


def busy(at: float) -> float:
    """Say how sought-after spot capacity is at a moment, from 0 (nobody) to 1 (the weekly peak)."""
    hour = at % DAY / HOUR
    day = (math.floor(at / DAY) + THURSDAY) % 7
    height = WEEKEND_SHARE if day >= 5 else 1.0
    return height * (1 + math.cos(2 * math.pi * (hour - PEAK_HOUR) / 24)) / 2


def left_for_spot(chips: int, depth: float, at: float) -> int:
    """Say how much of a capacity others leave; at the peak they take the share `depth` of it."""
    return math.floor(chips * (1 - depth * busy(at)))
