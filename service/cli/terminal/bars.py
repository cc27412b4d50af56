"""Bars of text for amounts. Pure, but for what the terminal can show."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from decimal import Decimal

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"


def draw_bars(amounts: Sequence[Decimal], width: int, *, has_blocks: bool) -> list[str]:
    """A bar for each amount; that of the largest has `width` characters.

    An amount above zero has a bar, however small it is. Zero and less have none. Blocks have eight
    steps a character; without them a bar is made of `#`.
    """
    largest = max(amounts, default=Decimal(0))
    steps = 8 if has_blocks else 1
    bars = []
    for amount in amounts:
        if amount <= 0:
            bars.append("")
            continue
        full, rest = divmod(max(1, round(amount / largest * width * steps)), steps)
        bars.append(_FULL * full + _EIGHTHS[rest].strip() if has_blocks else "#" * full)
    return bars


def can_show_blocks() -> bool:
    """Whether the terminal can show blocks. If not, bars are ASCII."""
    try:
        (_FULL + _EIGHTHS).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return os.environ.get("TERM") not in {"dumb", "linux"}
