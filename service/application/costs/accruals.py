"""What a node has used and its ledger does not say yet, explained like a line of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from service.domain.costs import explanation
from service.domain.costs.explanation import LineCharge
from service.domain.costs.sentences import InWords
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter, Usage
from service.domain.pricing.price_book import Price, PriceStretch


@dataclass(frozen=True, slots=True)
class Accrual(InWords):
    """The seconds [start, end) at one price, for one who is charged, of one interval.

    `what` is an accelerator type, or the machine type of the user's own VM. `quantity` is
    chip-seconds, or seconds of that machine; `amount` is nano-dollars, None where no price is
    known, as `price` is then.
    """

    what: str
    is_vm: bool
    start: int
    end: int
    units: int
    price: Price | None
    amount: int | None
    sum: str
    source: str
    notes: tuple[str, ...]
    evidence: tuple[str, ...]
    charged: str

    @property
    def quantity(self) -> int:
        """Chip-seconds, or the seconds of the one machine."""
        return self.units * (self.end - self.start)


def unposted(meters: Iterable[Meter], whole: Mapping[str, Usage]) -> tuple[Accrual, ...]:
    """Every stretch of these that is not in the ledger, first to last; `whole` are the intervals
    that they are lines of, by id. What is free has none."""
    found = (one for meter in meters for one in _of(meter, whole[meter.usage.id]))
    return tuple(sorted(found, key=lambda one: (one.start, one.is_vm)))


def _of(meter: Meter, usage: Usage) -> Iterator[Accrual]:
    for left, right, whose in meter.pieces(usage.posted_until, meter.end):
        for cut in meter.cuts:
            start, end = max(left, cut.start), min(right, cut.end)
            if start < end:
                yield _stretch(meter, usage, PriceStretch(start, end, cut.price), whose)


def _stretch(meter: Meter, usage: Usage, part: PriceStretch, whose: Attribution) -> Accrual:
    line = meter.usage
    is_vm, units = line.sku.is_vm, line.units
    amount = None if part.price is None else meter.charge(part.start, part.end)
    return Accrual(
        what=line.accelerator_type,
        is_vm=is_vm,
        start=part.start,
        end=part.end,
        units=units,
        price=part.price,
        amount=amount,
        sum=_sum(part, units, amount, is_vm=is_vm),
        source=explanation.NO_PRICE
        if part.price is None
        else explanation.source_of(part.price, part.price.id),
        notes=(explanation.vm_note_of(usage),) if is_vm else (),
        evidence=explanation.evidence_of(usage),
        charged=explanation.charged_to(whose),
    )


def _sum(part: PriceStretch, units: int, amount: int | None, *, is_vm: bool) -> str:
    seconds = units * (part.end - part.start)
    if part.price is None or amount is None:
        return explanation.unpriced_sum_of(seconds, units, is_vm=is_vm)
    charge = LineCharge(seconds, part.price.per_chip_hour, amount, is_adjustment=False, is_vm=is_vm)
    return explanation.sum_of(charge, units)
