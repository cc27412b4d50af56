"""Money: integer nano-dollars. Only this module rounds, parses and formats amounts."""

from __future__ import annotations

from decimal import Decimal, DecimalException, Inexact, localcontext

NANOS = 1_000_000_000
"""Nano-dollars in a dollar."""

NANO_PLACES = 9
"""Decimal places of a nano-dollar."""

MAX_NANOS = 2**63 - 1
"""The maximum of a signed 64-bit column: about 9.2 billion dollars."""


def half_even(numerator: int, denominator: int) -> int:
    """The rounding of money: `numerator / denominator` to the nearest integer, ties to even,
    without a float."""
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    if twice > denominator or (twice == denominator and quotient % 2):
        return quotient + 1
    return quotient


def format_usd(nanos: int) -> str:
    """An amount of money in nano-dollars as a decimal string with nine places. `12015600000` is
    `12.015600000`."""
    if nanos < 0:
        return "-" + format_usd(-nanos)
    whole, rest = divmod(nanos, NANOS)
    return f"{whole}.{rest:09d}"


def format_dollars(nanos: int) -> str:
    """An amount of money for a sentence, `$1,843.20`: without trailing zeros, at least two
    places."""
    whole, _, places = format_usd(abs(nanos)).partition(".")
    return f"{'-' if nanos < 0 else ''}${int(whole):,}.{places.rstrip('0'):0<2}"


def format_cents(nanos: int) -> str:
    """A sum of money for a sentence, rounded to the cent. A sum below a dollar keeps all its
    places, because rounding could hide it."""
    cent = NANOS // 100
    return format_dollars(nanos if abs(nanos) < NANOS else half_even(nanos, cent) * cent)


def format_hours(seconds: int) -> str:
    """Seconds or chip-seconds as hours, written like money as a decimal string with nine places."""
    return format_usd(half_even(seconds * NANOS, 3_600))


def decimal_of(text: str) -> Decimal:
    """The exact number in a text.

    Raises ValueError if it is none, also for forms that only Python reads: with underscores, or in
    the digits of another script.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{text[:40]!r} is not a number")
    try:
        return Decimal(text)
    except DecimalException:
        raise ValueError(f"{text[:40]!r} is not a number") from None


def parse_usd(text: str) -> int:
    """Nano-dollars of an amount of money, written as a decimal string.

    Raises ValueError when the text is no finite number or needs more than nine places: an inexact
    amount is refused, not rounded.
    """
    try:
        amount = decimal_of(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an amount of money") from None
    if not amount.is_finite():
        raise ValueError(f"{text!r} is not a finite amount of money")
    with localcontext() as context:
        context.traps[Inexact] = True  # a product of more than 28 digits would be rounded silently
        try:
            nanos = amount * NANOS
        except Inexact:
            raise ValueError(f"{text!r} is no amount that can be kept exactly") from None
    if nanos != nanos.to_integral_value():
        raise ValueError(f"{text!r} has more than nine decimal places")
    if abs(nanos) > MAX_NANOS:
        raise ValueError(f"{text!r} is more than an amount can hold")
    return int(nanos)
