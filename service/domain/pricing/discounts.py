"""Negotiated discounts: a share off the list price of some chips, from one instant to another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Inexact, localcontext

from service.domain.ids import is_machine_type
from service.domain.money import decimal_of, half_even

MILLION = 1_000_000

_BELOW_ONE = r"0\.([1-9][0-9]{0,3}|0[1-9][0-9]{0,2}|00[1-9][0-9]?|000[1-9])"
PERCENT = rf"([1-9][0-9]?(\.[0-9]{{1,4}})?|{_BELOW_ONE})"
"""What a percentage of a discount looks like, as a regular expression that Python and ECMA-262 read
alike: more than 0, less than 100, at most four places."""
_PPM_PER_PERCENT = 10_000


@dataclass(frozen=True, slots=True)
class Discount:
    """`ppm` parts per million off the list price in the whole UTC seconds [from, until).

    `generation` is one of TPUs, empty for any of those, or a machine type. An empty `model` means
    any; it is a series of prices, so `spot` is preemptible too. `effective_until` None is until
    further notice. What is changed is never the row but its end: a later row with the same id and
    an earlier end takes the place of it.
    """

    id: str
    generation: str
    model: str
    ppm: int
    effective_from: int
    effective_until: int | None
    source: str
    recorded_at: int = 0

    @property
    def percent(self) -> str:
        """As people write it: `12.5`."""
        whole, rest = divmod(self.ppm, _PPM_PER_PERCENT)
        return f"{whole}.{rest:04d}".rstrip("0").rstrip(".")

    @property
    def what(self) -> str:
        """What it is for, as in `v5e spot`; `every TPU` where nothing was said."""
        return f"{self.generation} {self.model}".strip() if self.generation else _every(self.model)

    @property
    def is_void(self) -> bool:
        """Whether it was ended before it began: it takes nothing off, ever."""
        return self.effective_until is not None and self.effective_until <= self.effective_from

    def covers(self, generation: str, model: str) -> bool:
        """Whether it is for that generation and that series of prices."""
        return self.generation in ("", generation) and self.model in ("", model)

    def is_in_force(self, instant: int) -> bool:
        """Whether it takes something off at that second."""
        return self.effective_from <= instant and (
            self.effective_until is None or instant < self.effective_until
        )

    def off(self, nanos: int) -> int:
        """What is left of that many nano-dollars, half-even to one; never nothing at all."""
        return max(1, half_even(nanos * (MILLION - self.ppm), MILLION))


def _every(model: str) -> str:
    return f"every {model} TPU" if model else "every TPU"


def parse_percent(text: str) -> int:
    """Parts per million of a percentage written as a decimal string.

    Raises ValueError when it is no number, is not between 0 and 100, or has more than four places:
    a share that cannot be kept exactly is refused, not rounded.
    """
    try:
        percent = decimal_of(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a percentage; write it as 12.5") from None
    if not percent.is_finite() or not 0 < percent < 100:
        raise ValueError(f"a discount is more than 0 and less than 100 percent, not {text}")
    with localcontext() as context:
        context.traps[Inexact] = True
        try:
            ppm = percent * _PPM_PER_PERCENT
            whole = ppm.to_integral_exact()
        except Inexact:
            raise ValueError(f"{text!r} has more than four decimal places") from None
    if re.fullmatch(PERCENT, text) is None:
        raise ValueError(f"{text!r} is not a plain number; write it as 12.5")
    return int(whole)


def standing(rows: Iterable[Discount]) -> tuple[Discount, ...]:
    """What rows in the order in which they were written come to: of each id the last."""
    return tuple({row.id: row for row in rows}.values())


def clash(new: Discount, others: Iterable[Discount]) -> Discount | None:
    """The first of the others that would apply to the same price at the same second.

    Two discounts never do, also not a general and a special one: which of them was meant, or
    whether both, nobody could tell from the figures.
    """
    return next((one for one in others if _same_prices(new, one) and _same_time(new, one)), None)


def _same_prices(a: Discount, b: Discount) -> bool:
    return _same_hardware(a.generation, b.generation) and (
        a.model == b.model or "" in (a.model, b.model)
    )


def _same_hardware(a: str, b: str) -> bool:
    """Any generation is any of TPUs: a machine has to be named."""
    return a == b or ("" in (a, b) and not is_machine_type(a or b))


def _same_time(a: Discount, b: Discount) -> bool:
    if a.is_void or b.is_void:
        return False
    return _begins_before_the_end_of(a, b) and _begins_before_the_end_of(b, a)


def _begins_before_the_end_of(a: Discount, b: Discount) -> bool:
    return b.effective_until is None or a.effective_from < b.effective_until
