"""What running nodes cost: the parts of their price, their burn, and the growth of their cost since
it was posted. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.catalog.zones import region_of
from service.domain.metering.meter import charge_in, rate_paid
from service.domain.metering.usage import node_sku
from service.domain.nodes.node import NodeSpec
from service.domain.pricing import driver_vm
from service.domain.pricing.billing_rules import vm_is_charged_with_its_tpu
from service.domain.pricing.burn import BilledUnits, burn_of
from service.domain.pricing.price_book import PriceBook, PriceStretch, Sku, unpriced_in

_FOREVER = 2**62
"""An instant in UTC seconds after all others."""


@dataclass(frozen=True, slots=True)
class PriceParts:
    """Everything that the price of a node depends on. `chips` are those of one of its `slices`;
    `vm` is the SKU of the user's own virtual machine, None without one."""

    sku: Sku
    chips: int
    slices: int = 1
    vm: Sku | None = None

    def list_lines(self) -> tuple[BilledUnits, ...]:
        """Return what is billed while the whole node runs: the TPU, then the machine that drives
        it."""
        tpu = BilledUnits(self.sku, self.slices * self.chips)
        return (tpu,) if self.vm is None else (tpu, BilledUnits(self.vm, 1))


def price_parts_of(spec: NodeSpec, zone: str) -> PriceParts:
    """Return the parts of the price of a running node in a zone."""
    return PriceParts(
        node_sku(spec, zone, spec.hosts // spec.slices),
        spec.chips // spec.slices,
        spec.slices,
        None if spec.vm is None else driver_vm.sku_of(spec.vm, region_of(zone)),
    )


Growth = tuple[int, int]
"""Nano-dollars that are not posted yet, and seconds among them whose price is unknown."""


class RunningCost:
    """The cost of running nodes with the same parts of the price. Prices are read once, and serve
    all of these nodes: a list shows thousands."""

    def __init__(self, parts: PriceParts, book: PriceBook, now: int) -> None:
        self.burn = burn_of(parts.list_lines(), book, now)
        """Nano-dollars an hour of the whole node; None if a price is unknown."""
        self._now = now
        self._tpu = _RunningLine(BilledUnits(parts.sku, parts.chips), book, now)
        self._vm = None if parts.vm is None else _RunningLine(BilledUnits(parts.vm, 1), book, now)

    def growth_of(self, start: int, posted: int) -> Growth:
        """Return what an interval of usage that began at `start` and is posted until `posted` adds
        until now: what `Meter` charges for that part of it."""
        until = max(self._now, posted)
        grown = self._tpu.growth_of(start, posted, until)
        if self._vm is None or not vm_is_charged_with_its_tpu(start):
            return grown
        its = self._vm.growth_of(start, posted, until)
        return grown[0] + its[0], grown[1] + its[1]


class _RunningLine:
    """Some units at the price of now, which has been paid without a break since `_steady_since`."""

    def __init__(self, billed: BilledUnits, book: PriceBook, now: int) -> None:
        self._sku, self._units = billed.sku, billed.units
        self._book = book
        price = book.find_price(billed.sku, now)
        self._steady_since = _FOREVER if price is None else book.steady_since(billed.sku, now)
        self._steady = rate_paid((PriceStretch(self._steady_since, _FOREVER, price),))

    def growth_of(self, start: int, posted: int, until: int) -> Growth:
        if self._steady_since <= start:
            return charge_in(self._steady, self._units, start, posted, until), 0
        cuts = self._book.list_cuts(self._sku, start, until)
        nanos = charge_in(rate_paid(cuts), self._units, start, posted, until)
        return nanos, unpriced_in(cuts, posted, until)
