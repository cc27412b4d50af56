"""Usage of a node that its ledger does not hold yet, explained like a line of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.domain.costs import explanation
from service.domain.costs.explanation import InWords, LineCharge
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter, Usage
from service.domain.pricing.price_book import Price, PriceStretch


@dataclass(frozen=True, slots=True)
class Accrual(InWords):
    """The seconds [start, end) of one interval at one price, charged to one payer.

    `what` is an accelerator type, or the machine type of the user's own VM. `quantity` is
    chip-seconds, or seconds of that machine; `amount` is nano-dollars. `amount` and `price` are
    None if no price is known.
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


def list_unposted(meters: Iterable[Meter], whole: Mapping[str, Usage]) -> tuple[Accrual, ...]:
    """Every stretch of the meters that is not in the ledger, first to last. `whole` maps ids to the
    intervals whose lines the meters measure. Free usage has no stretches."""
    found = []
    for meter in meters:
        usage = whole[meter.usage.id]
        for left, right, whose in meter.attributed_parts(usage.posted_until, meter.end):
            for cut in meter.cuts:
                start, end = max(left, cut.start), min(right, cut.end)
                if start < end:
                    part = PriceStretch(start, end, cut.price)
                    found.append(_to_accrual(meter, usage, part, whose))
    return tuple(sorted(found, key=lambda accrual: (accrual.start, accrual.is_vm)))


def _to_accrual(meter: Meter, usage: Usage, part: PriceStretch, whose: Attribution) -> Accrual:
    line = meter.usage
    is_vm, units, price = line.sku.is_vm, line.units, part.price
    seconds = units * (part.end - part.start)
    amount: int | None = None
    if price is None:
        text = explanation.unpriced_sum_of(seconds, units, is_vm=is_vm)
        source = explanation.NO_PRICE
    else:
        amount = meter.charge_in(part.start, part.end)
        charge = LineCharge(seconds, price.per_chip_hour, amount, is_adjustment=False, is_vm=is_vm)
        text = explanation.sum_of(charge, units)
        source = explanation.source_of(price, price.id)
    return Accrual(
        what=line.accelerator_type,
        is_vm=is_vm,
        start=part.start,
        end=part.end,
        units=units,
        price=price,
        amount=amount,
        sum=text,
        source=source,
        notes=(explanation.vm_note_of(usage),) if is_vm else (),
        evidence=explanation.evidence_of(usage),
        charged=explanation.charged_to(whose),
    )
