"""Money, time and states in the words of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from service.domain.clock import DAY, HOUR, MINUTE, parse_rfc3339
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.money import parse_usd

UNPRICED = "unpriced"
NOTHING = "-"


def money(amount: str | None) -> str:
    """`9.600000000` as $9.60; below a dollar with two places that say something: $0.0042.

    A nano-dollar is the least that there is."""
    if amount is None:
        return UNPRICED
    value = Decimal(amount)
    places = min(9, max(2, 1 - value.adjusted())) if 0 < abs(value) < 1 else 2
    return _dollars(value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN))


def parts(total: str, amounts: Sequence[str | None]) -> list[str]:
    """What a total is the sum of, to be shown with `money(total)`: in the same places, and each
    the one below or above the truth, so that what is shown adds up.

    Amounts that come to something else are no parts of it, and each is told for itself.
    """
    known = [parse_usd(amount) for amount in amounts if amount is not None]
    whole = parse_usd(total)
    if sum(known) != whole:
        return [money(amount) for amount in amounts]
    places = places_for(whole)
    units = iter(in_units(known, unit_for(places)))
    return [UNPRICED if amount is None else _in_places(next(units), places) for amount in amounts]


def _in_places(units: int, places: int) -> str:
    """`1234` with two places as $12.34."""
    return _dollars(Decimal(units).scaleb(-places))


def exact(amount: str | None) -> str:
    """`0.537500000` as $0.5375: every place that is not 0, and at least the cents."""
    if amount is None:
        return UNPRICED
    value = Decimal(amount)
    whole, _, places = f"{value:f}".partition(".")
    return _dollars(Decimal(f"{whole}.{places.rstrip('0').ljust(2, '0')}"))


def column(amounts: Sequence[str | None]) -> list[str]:
    """Exact amounts, all with as many places as the one that needs the most."""
    texts = [exact(amount) for amount in amounts]
    most = max((len(text.partition(".")[2]) for text in texts), default=0)
    return [
        text if text == UNPRICED else text + "0" * (most - len(text.partition(".")[2]))
        for text in texts
    ]


def _dollars(value: Decimal) -> str:
    return f"{'-' if value < 0 else ''}${abs(value):,f}"


def age(seconds: int) -> str:
    """`192` as 3m12s: the two largest units."""
    seconds = max(0, seconds)
    if seconds < MINUTE:
        return f"{seconds}s"
    if seconds < HOUR:
        return f"{seconds // MINUTE}m{seconds % MINUTE:02d}s"
    if seconds < DAY:
        return f"{seconds // HOUR}h{seconds % HOUR // MINUTE:02d}m"
    return f"{seconds // DAY}d{seconds % DAY // HOUR:02d}h"


def span(seconds: int) -> str:
    """`7200` as 2h, `5400` as 1h30m."""
    return re.sub(r"(?<=[dhm])00[hms]$", "", age(seconds))


def moment(text: str | None) -> str:
    """An RFC 3339 instant as people read it; the tables say that it is UTC."""
    return NOTHING if text is None else text.replace("T", " ").removesuffix("Z")


def since(text: str | None, now: int) -> str:
    """How long ago an instant was."""
    return NOTHING if text is None else age(now - parse_rfc3339(text))


def chip_hours(chip_seconds: int) -> str:
    """Chip-seconds as chip-hours, with the places that say something."""
    value = Decimal(chip_seconds) / HOUR
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.4f}"


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
