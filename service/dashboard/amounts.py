"""Amounts to the last nano-dollar that can still be read: cents first, what is below them apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.dashboard.figures import exact, exact_places
from service.domain.money import hours


@dataclass(frozen=True, slots=True)
class Amount:
    """`$1,234.56` and the digits that follow; together they are the amount, not rounded."""

    cents: str
    rest: str

    def __str__(self) -> str:
        return self.cents + self.rest


def amount_of(nanos: int, places: int | None = None) -> Amount:
    """An amount with that many decimals, or as many as it needs."""
    whole, dot, decimals = exact(nanos, places).partition(".")
    return Amount(f"{whole}{dot}{decimals[:2]}", decimals[2:])


def places_of(*columns: Iterable[int]) -> int:
    """Decimals with which no amount of a table is rounded."""
    return exact_places(amount for column in columns for amount in column)


def chip_hours(chip_seconds: int) -> str:
    """As the API says them, without the zeros at the end: `2,304` or `53.333333333`."""
    whole, _, decimals = hours(abs(chip_seconds)).partition(".")
    decimals = decimals.rstrip("0")
    sign = "\N{MINUS SIGN}" if chip_seconds < 0 else ""
    return f"{sign}{int(whole):,}" + (f".{decimals}" if decimals else "")
