"""Money, counts, durations and instants in words, as people are shown them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from service.domain.clock import DAY, HOUR, MINUTE, to_rfc3339
from service.domain.costs.display_rounding import places_for, unit_for
from service.domain.money import NANO_PLACES, NANOS, half_even

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant in UTC: for machines (`iso`), in full, its time of day, and its date."""

    iso: str
    full: str
    clock: str
    date: str


def to_moment(seconds: int) -> Moment:
    """An instant given in whole UTC seconds."""
    then = datetime.fromtimestamp(seconds, UTC)
    return Moment(
        iso=to_rfc3339(seconds),
        full=f"{then:%Y-%m-%d %H:%M:%S} UTC",
        clock=f"{then:%H:%M:%S} UTC",
        date=f"{then.day} {then:%b %Y}",
    )


def utc_date(seconds: int) -> date:
    """The UTC day of an instant."""
    return datetime.fromtimestamp(seconds, UTC).date()


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact with its name. `at` is set if the fact is an instant, `href` if the fact has a
    page."""

    name: str
    text: str
    at: Moment | None = None
    href: str = ""


def format_units(units: int, places: int) -> str:
    """An amount in units of a power of ten as dollars: `123456` with two places is `$1,234.56`."""
    whole, rest = divmod(abs(units), 10**places)
    decimals = f".{rest:0{places}d}" if places else ""
    return f"{MINUS if units < 0 else ''}${whole:,}{decimals}"


def format_money(nanos: int) -> str:
    """An amount in nano-dollars to the cent. A small amount has enough decimals to be true:
    `$0.0042`."""
    places = places_for(nanos)
    return format_units(half_even(nanos, unit_for(places)), places)


def format_difference(whole: int, part: int) -> str:
    """The difference of two amounts in nano-dollars after both are rounded: `$1.20` less `$0.80` is
    `$0.40`, whatever is below the cents."""
    places = places_for(part or whole)
    unit = unit_for(places)
    return format_units(half_even(whole, unit) - half_even(part, unit), places)


def format_remainder(whole: int, *parts: int) -> str:
    """The rest of an amount after its parts, all as `format_money` rounds them: what is shown adds
    up to the whole that is shown."""
    places = max(map(places_for, (whole, *parts)))
    shown = (
        half_even(nanos, unit_for(places_for(nanos))) * 10 ** (places - places_for(nanos))
        for nanos in (whole, *parts)
    )
    return format_units(next(shown) - sum(shown), places)


def exact_places(amounts: Iterable[int]) -> int:
    """The fewest decimals, at least two, with which none of the amounts is rounded."""
    needed = 2
    for nanos in amounts:
        decimals = f"{abs(nanos) % NANOS:0{NANO_PLACES}d}".rstrip("0")
        needed = max(needed, len(decimals))
    return needed


def format_exact(nanos: int, places: int | None = None) -> str:
    """An amount in nano-dollars with `places` decimals, or with as many as it needs not to be
    rounded."""
    shown = exact_places([nanos]) if places is None else places
    return format_units(half_even(nanos, unit_for(shown)), shown)


def format_count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 node`, `2,000 nodes`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_duration(seconds: int) -> str:
    """A duration in its two largest units: `4 d 2 h`, `3 h 20 min`, `45 s`."""
    if seconds < MINUTE:
        return f"{max(0, seconds)} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    if seconds < DAY:
        return _format_two_units(seconds, HOUR, "h", MINUTE, "min")
    return _format_two_units(seconds, DAY, "d", HOUR, "h")


def _format_two_units(
    seconds: int, large: int, large_name: str, small: int, small_name: str
) -> str:
    whole, rest = divmod(seconds, large)
    parts = rest // small
    return f"{whole} {large_name}" + (f" {parts} {small_name}" if parts else "")
