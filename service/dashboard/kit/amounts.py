"""Exact amounts that stay readable: dollars and cents first, the further decimals apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.dashboard.kit.figures import exact_places, format_exact, format_units
from service.domain.costs.display_rounding import in_units, places_for, round_table, unit_for
from service.domain.money import format_hours, half_even


@dataclass(frozen=True, slots=True)
class ExactAmount:
    """`$1,234.56` and the digits that follow; together they are the amount, not rounded."""

    cents: str
    rest: str

    def __str__(self) -> str:
        return self.cents + self.rest


def amount_of(nanos: int, places: int | None = None) -> ExactAmount:
    """An amount with `places` decimals, or with as many as the amount needs."""
    whole, dot, decimals = format_exact(nanos, places).partition(".")
    return ExactAmount(f"{whole}{dot}{decimals[:2]}", decimals[2:])


@dataclass(frozen=True, slots=True)
class Rounded:
    """An amount to the cent, as the table around the amount rounds it, and to the last
    nano-dollar."""

    cents: str
    exact: str

    def __str__(self) -> str:
        return self.cents


Saving = tuple[Rounded, Rounded, Rounded]
"""Amount paid, amount at list price, and the difference."""


def savings_of(
    rows: Sequence[tuple[int, int]], known: Sequence[int] | None = None
) -> tuple[list[Saving], Saving]:
    """The saving of each row of (paid, at list price) in nano-dollars, and the saving of them all.
    The rounded amounts add up in the rows and in the columns; the sums equal those of other pages.
    `known` has the paid amounts as another table of the page rounds them, in the same units."""
    paid, listed = (sum(row[column] for row in rows) for column in (0, 1))
    places = places_for(paid or listed)
    unit = unit_for(places)
    if known is None:
        shown = round_table([[cost, at_list - cost] for cost, at_list in rows], unit)
    else:
        least = (listed - paid) // unit
        most = least if (listed - paid) % unit == 0 else least + 1
        whole = half_even(listed, unit) - sum(known)
        saved = in_units(
            [at_list - cost for cost, at_list in rows], unit, min(most, max(least, whole))
        )
        shown = [list(pair) for pair in zip(known, saved, strict=True)]
    decimals = exact_places(amount for row in (*rows, (paid, listed)) for amount in row)

    def to_saving(nanos: tuple[int, int], units: Sequence[int]) -> Saving:
        cost, at_list = nanos
        amounts = (cost, units[0]), (at_list, sum(units)), (at_list - cost, units[1])
        first, second, third = (
            Rounded(format_units(unit, places), format_exact(nano, decimals))
            for nano, unit in amounts
        )
        return first, second, third

    found = [to_saving(row, units) for row, units in zip(rows, shown, strict=True)]
    return found, to_saving(
        (paid, listed), [sum(column) for column in zip(*shown, strict=True)] or [0, 0]
    )


def places_of(*columns: Iterable[int]) -> int:
    """The fewest decimals with which no amount of a table is rounded."""
    return exact_places(amount for column in columns for amount in column)


_HUNDREDTH = 36
"""Chip-seconds in a hundredth of a chip-hour."""


def round_chip_hours(parts: Sequence[int]) -> tuple[list[Rounded], Rounded]:
    """The chip-hours of parts in chip-seconds, and of their sum, rounded to hundredths that add
    up."""
    units = in_units(parts, _HUNDREDTH)
    shown = [
        Rounded(format_units(unit, 2).replace("$", ""), format_chip_hours(part))
        for unit, part in zip((*units, sum(units)), (*parts, sum(parts)), strict=True)
    ]
    return shown[:-1], shown[-1]


def format_chip_hours(chip_seconds: int) -> str:
    """Chip-hours as the API writes them, without trailing zeros: `2,304` or `53.333333333`."""
    whole, _, decimals = format_hours(abs(chip_seconds)).partition(".")
    decimals = decimals.rstrip("0")
    sign = "\N{MINUS SIGN}" if chip_seconds < 0 else ""
    return f"{sign}{int(whole):,}" + (f".{decimals}" if decimals else "")
