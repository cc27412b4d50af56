"""Line items of usage: the TPU, the user's own virtual machine, and unused reservations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter, Usage
from service.domain.pricing.billing_rules import vm_is_charged_with_its_tpu
from service.domain.pricing.driver_vm import UserVm, sku_of
from service.domain.pricing.price_book import PriceBook, ReservedPrice

_NOBODY: Mapping[str, Sequence[Attribution]] = MappingProxyType({})


def lines_of(usage: Usage) -> tuple[Usage, ...]:
    """The line items of an interval: the TPU, then the machine that drives it.

    The machine has no free first minute: that rule applies to TPUs only.
    """
    if not usage.vm or not vm_is_charged_with_its_tpu(usage.start):
        return (usage,)
    tpu = replace(usage, vm="", vm_model="")
    vm = UserVm(usage.vm, ProvisioningModel(usage.vm_model))
    return tpu, replace(
        tpu, accelerator_type=usage.vm, chips=0, sku=sku_of(vm, usage.sku.region), free=""
    )


def make_meters(
    usages: Iterable[Usage],
    book: PriceBook,
    until: int,
    whose: Mapping[str, Sequence[Attribution]] = _NOBODY,
) -> Iterator[Meter]:
    """The meter of each line item of the usages; `whose` are the attributions by node.

    Reservations come last, each less the usage of its nodes. So all usage in them, in the seconds
    of interest, must be among the usages.
    """
    purchases: list[Usage] = []
    within: list[Meter] = []
    for usage in usages:
        if usage.is_purchase:
            purchases.append(usage)
            continue
        for line in lines_of(usage):
            meter = Meter(line, book, until, whose.get(usage.node_id, ()))
            if line.sku.pool and book.purchases:
                within.append(meter)
            yield meter
    for usage in purchases:
        yield UnusedReservation(usage, book, until, whose.get(usage.node_id, ()), within)


class UnusedReservation(Meter):
    """The cost of a reservation, less the charges of the nodes that ran in it.

    Both together are the whole price, to the nano-dollar, however time is divided. The cost is
    negative if nodes are charged for overlapping outer bounds.
    """

    def __init__(
        self,
        usage: Usage,
        book: PriceBook,
        until: int,
        attributions: Sequence[Attribution],
        within: Iterable[Meter],
    ) -> None:
        super().__init__(usage, book, until, attributions)
        self._used = [
            (meter, cut.start, cut.end)
            for meter in within
            for cut in meter.cuts
            if isinstance(cut.price, ReservedPrice) and cut.price.reservation_id == usage.node_id
        ]

    def charge_in(self, start: int, end: int) -> int:
        """Nano-dollars for the unused part of the reservation in [start, end)."""
        return super().charge_in(start, end) - sum(
            nanos for _, nanos, _ in self.used_parts(start, end)
        )

    def list_charge_in(self, start: int, end: int) -> int:
        """The same amount: unused capacity saves nothing."""
        return self.charge_in(start, end)

    def chip_seconds_in(self, start: int, end: int) -> int:
        """Chip-seconds of [start, end) that were reserved and not used."""
        return super().chip_seconds_in(start, end) - sum(
            chips for _, _, chips in self.used_parts(start, end)
        )

    def used_parts(self, start: int, end: int) -> Iterator[tuple[Meter, int, int]]:
        """The usage in the reservation in [start, end): (meter, nano-dollars, chip-seconds)."""
        for meter, first, last in self._used:
            left, right = max(start, first), min(end, last)
            if left < right:
                yield meter, meter.charge_in(left, right), meter.usage.chips * (right - left)

    def total_charge(self) -> int:
        """Nano-dollars for the whole interval."""
        return self.charge_in(self.usage.start, self.end)
