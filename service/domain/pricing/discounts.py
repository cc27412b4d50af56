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
"""The regular expression of a discount's percentage, with the same meaning in Python and ECMA-262:
more than 0, less than 100, at most four places."""
_PPM_PER_PERCENT = 10_000


@dataclass(frozen=True, slots=True)
class Discount:
    """`ppm` parts per million off the list price in the whole UTC seconds [from, until).

    `generation` is a TPU generation, empty for all of them, or a machine type. An empty `model`
    means any model; it is a series of prices, so `spot` is preemptible too. `effective_until` None
    is until further notice. A row never changes: a later row with the same id and an earlier end
    replaces it.
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
        """The percentage as text: `12.5`."""
        whole, rest = divmod(self.ppm, _PPM_PER_PERCENT)
        return f"{whole}.{rest:04d}".rstrip("0").rstrip(".")

    @property
    def what(self) -> str:
        """The product as text, as in `v5e spot`; `every TPU` without a generation and model."""
        if self.generation:
            return f"{self.generation} {self.model}".strip()
        return f"every {self.model} TPU" if self.model else "every TPU"

    @property
    def is_void(self) -> bool:
        """Whether the discount was ended before it began, so that it never applies."""
        return self.effective_until is not None and self.effective_until <= self.effective_from

    def covers_series(self, generation: str, model: str) -> bool:
        """Whether the discount is for this generation and this series of prices."""
        return self.generation in ("", generation) and self.model in ("", model)

    def is_in_force(self, instant: int) -> bool:
        """Whether the discount applies at this second."""
        return self.effective_from <= instant and (
            self.effective_until is None or instant < self.effective_until
        )

    def take_off(self, nanos: int) -> int:
        """Return the nano-dollars less the discount, half-even; at least 1."""
        return max(1, half_even(nanos * (MILLION - self.ppm), MILLION))


def parse_percent(text: str) -> int:
    """Parse the percentage of a discount, written as a decimal string, into parts per million.

    Raises ValueError for text that is no number, is not between 0 and 100, or has more than four
    places: a percentage that cannot be kept exactly is refused, not rounded.
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


def keep_latest(rows: Iterable[Discount]) -> tuple[Discount, ...]:
    """Return the valid discounts of rows in the order of their writing: of each id the last row."""
    return tuple({row.id: row for row in rows}.values())


def find_clash(new: Discount, others: Iterable[Discount]) -> Discount | None:
    """Return the first other discount that would apply to the same price at the same second. None
    without such a discount.

    At most one discount may apply to a price, also of a general and a special discount: from the
    figures nobody could tell which of them was applied.
    """
    for other in others:
        generations, models = {new.generation, other.generation}, {new.model, other.model}
        # A discount on any generation is on TPUs: a machine type has to be named.
        is_same_hardware = len(generations) == 1 or (
            "" in generations and not is_machine_type(new.generation or other.generation)
        )
        is_same_model = len(models) == 1 or "" in models
        is_same_time = (
            not (new.is_void or other.is_void)
            and _begins_before_the_end_of(new, other)
            and _begins_before_the_end_of(other, new)
        )
        if is_same_hardware and is_same_model and is_same_time:
            return other
    return None


def _begins_before_the_end_of(a: Discount, b: Discount) -> bool:
    return b.effective_until is None or a.effective_from < b.effective_until
