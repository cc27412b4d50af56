"""Money, time and states as text for tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from service.cli.terminal.render import clean_text
from service.domain.clock import DAY, HOUR, MINUTE, parse_rfc3339
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.money import parse_usd

UNPRICED = "unpriced"
NOTHING = "-"


def format_usd(amount: str | None) -> str:
    """`9.600000000` as $9.60. Below a dollar: two significant digits, as in $0.0042.

    At most nine places: amounts are whole nano-dollars.
    """
    if amount is None:
        return UNPRICED
    value = Decimal(amount)
    places = min(9, max(2, 1 - value.adjusted())) if 0 < abs(value) < 1 else 2
    return _format_dollars(value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN))


def format_rate(amount: str | None, *, exact: bool = False) -> str:
    """`4.623200000` as `$4.62 an hour`, for a sentence; exactly, `$4.6232 an hour`."""
    if amount is None:
        return "an unknown amount an hour"
    return f"{format_exact(amount) if exact else format_usd(amount)} an hour"


def format_parts(total: str, amounts: Sequence[str | None]) -> list[str]:
    """Parts of a total, to be shown next to the formatted total. All have the same places. Each is
    rounded down or up, so that the shown parts add up to the shown total.

    Amounts with another sum than the total are rounded one by one.
    """
    known = [parse_usd(amount) for amount in amounts if amount is not None]
    whole = parse_usd(total)
    if sum(known) != whole:
        return [format_usd(amount) for amount in amounts]
    places = places_for(whole)
    units = iter(in_units(known, unit_for(places)))
    return [
        UNPRICED if amount is None else _format_dollars(Decimal(next(units)).scaleb(-places))
        for amount in amounts
    ]


def format_exact(amount: str | None) -> str:
    """`0.537500000` as $0.5375: no trailing zeros after the cents."""
    if amount is None:
        return UNPRICED
    value = Decimal(amount)
    whole, _, places = f"{value:f}".partition(".")
    return _format_dollars(Decimal(f"{whole}.{places.rstrip('0').ljust(2, '0')}"))


def format_column(amounts: Sequence[str | None]) -> list[str]:
    """Exact amounts for a column. All have as many places as the longest of them needs."""
    texts = [format_exact(amount) for amount in amounts]
    most = max((len(text.partition(".")[2]) for text in texts), default=0)
    return [
        text if text == UNPRICED else text + "0" * (most - len(text.partition(".")[2]))
        for text in texts
    ]


def _format_dollars(value: Decimal) -> str:
    return f"{'-' if value < 0 else ''}${abs(value):,f}"


def format_age(seconds: int) -> str:
    """`192` as 3m12s: the two largest units."""
    seconds = max(0, seconds)
    if seconds < MINUTE:
        return f"{seconds}s"
    if seconds < HOUR:
        return f"{seconds // MINUTE}m{seconds % MINUTE:02d}s"
    if seconds < DAY:
        return f"{seconds // HOUR}h{seconds % HOUR // MINUTE:02d}m"
    return f"{seconds // DAY}d{seconds % DAY // HOUR:02d}h"


def format_span(seconds: int) -> str:
    """`7200` as 2h, `5400` as 1h30m."""
    return re.sub(r"(?<=[dhm])00[hms]$", "", format_age(seconds))


def format_time(text: str | None) -> str:
    """`2026-11-05T18:00:00Z` as `2026-11-05 18:00:00`. The heading of the column says UTC."""
    return NOTHING if text is None else text.replace("T", " ").removesuffix("Z")


def format_since(text: str | None, now: int) -> str:
    """Time from an RFC 3339 instant to `now`, as `3m12s`. `now` is in seconds."""
    return NOTHING if text is None else format_age(now - parse_rfc3339(text))


def format_term_state(record: Mapping[str, Any]) -> str:
    """State of a commitment or a reservation, with the time left until its start or its end."""
    now = parse_rfc3339(record["as_of"])
    match record["state"]:
        case "planned":
            return f"planned, begins in {format_age(parse_rfc3339(record['starts_at']) - now)}"
        case "running":
            return f"running, ends in {format_age(parse_rfc3339(record['ends_at']) - now)}"
        case other:
            return clean_text(str(other))


def chip_hours(chip_seconds: int) -> str:
    """Chip-seconds as chip-hours: two places, or four below one chip-hour."""
    value = Decimal(chip_seconds) / HOUR
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.4f}"


def format_count(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
