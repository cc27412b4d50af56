"""The weekly cycle of spot capacity: low during American working hours, high otherwise."""

from __future__ import annotations

import math

HOUR = 3600
DAY = 24 * HOUR
PEAK_HOUR = 20
"""In UTC: afternoon on the American East Coast, and late morning on the West Coast."""
WEEKEND_SHARE = 0.3
# The first of January 1970 was a Thursday.
THURSDAY = 3


def demand_at(at: float) -> float:
    """Return the demand for spot capacity, from 0 (none) to 1 (the weekly peak)."""
    hour = at % DAY / HOUR
    day = (math.floor(at / DAY) + THURSDAY) % 7
    height = WEEKEND_SHARE if day >= 5 else 1.0
    return height * (1 + math.cos(2 * math.pi * (hour - PEAK_HOUR) / 24)) / 2


def left_for_spot(chips: int, depth: float, at: float) -> int:
    """Return the chips of a capacity that others leave; at the peak they use the share `depth`."""
    return math.floor(chips * (1 - depth * demand_at(at)))
