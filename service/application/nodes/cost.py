"""What one node cost so far, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.application.costs.accruals import Accrual, unposted
from service.domain.catalog.zones import region_of
from service.domain.jobs.occupancy import Occupancy, occupancy
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import meters
from service.domain.metering.meter import Meter, Usage
from service.domain.metering.usage import pool_for
from service.domain.nodes.legacy import not_included
from service.domain.nodes.node import Node
from service.domain.pricing.driver_vm import sku_of
from service.domain.pricing.price_book import Price, PriceBook, ReservedPrice, Sku


@dataclass(frozen=True, slots=True)
class CostLine:
    """What one thing came to, by its type: the TPU, or the user's own virtual machine.

    `quantity` is what was priced of it: chip-seconds, or seconds of the one machine.
    """

    what: str
    is_vm: bool
    cost: int
    list_cost: int | None
    seconds: int
    unpriced_seconds: int
    quantity: int = 0


@dataclass(frozen=True, slots=True)
class BurnRate:
    """What one line of it costs now: nano-dollars an hour for each chip, or for the one machine;
    None where no price is known."""

    what: str
    is_vm: bool
    units: int
    price: int | None


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What a node cost so far, in nano-dollars. `list_cost` is the same seconds at the on-demand
    price, None where that is not known; `uncertainty` how much of `cost` may not be true;
    `unpriced_seconds` were used with unknown price, and are in no figure; `not_included` says
    what else the node costs its owner, elsewhere. `lines` are what the figures are the sums of,
    `rates` what its lines cost once it is READY; none once it has ended. `reservations` are the
    ids of those that it ran in, in the order in which it did; `free` says by which rules some of
    it cost nothing. `unposted` is what of it is not in the ledger yet, `occupancy` what its seconds
    were spent on; empty where no job ever ran on it."""

    cost: int
    list_cost: int | None
    chip_seconds: int
    uncertainty: int
    estimated: bool
    unpriced_seconds: int
    as_of: int
    not_included: tuple[str, ...] = ()
    lines: tuple[CostLine, ...] = ()
    rates: tuple[BurnRate, ...] = ()
    reservations: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    unposted: tuple[Accrual, ...] = ()
    occupancy: tuple[Occupancy, ...] = ()


def cost_of(
    node: Node,
    intervals: Sequence[Usage],
    book: PriceBook,
    now: int,
    whose: Sequence[Attribution] = (),
) -> NodeCost:
    """All that its intervals come to, to the second; `whose` the node is, from when on."""
    found = list(meters(intervals, book, now, {node.id: whose}))
    lines = tuple(_cost_lines(found))
    listed = [one.list_cost for one in lines]
    return NodeCost(
        cost=sum(one.cost for one in lines),
        list_cost=None if None in listed else sum(one for one in listed if one is not None),
        chip_seconds=sum(one.chip_seconds(one.usage.start, one.end) for one in found),
        uncertainty=sum(one.uncertainty() for one in found),
        estimated=any(u.end is None or u.uncertain_seconds for u in intervals),
        unpriced_seconds=sum(one.unpriced_seconds for one in lines),
        as_of=now,
        not_included=not_included(node),
        lines=lines,
        rates=() if node.ended else tuple(_rates(node, book, now)),
        reservations=tuple(dict.fromkeys(_reservations(found))),
        free=tuple(dict.fromkeys(usage.free for usage in intervals if usage.free)),
        unposted=unposted(found, {usage.id: usage for usage in intervals}),
        occupancy=occupancy(found, whose),
    )


def _reservations(found: Sequence[Meter]) -> Iterator[str]:
    cuts = sorted((cut for meter in found for cut in meter.cuts), key=lambda cut: cut.start)
    for cut in cuts:
        if isinstance(cut.price, ReservedPrice):
            yield cut.price.reservation_id


def _rates(node: Node, book: PriceBook, now: int) -> Iterator[BurnRate]:
    spec, region = node.spec, region_of(node.zone)
    single, pool = spec.hosts == spec.slices, pool_for(spec, node.zone)
    tpu = Sku(spec.generation, spec.provisioning_model, region, single, pool)
    price = _paid(book.at(tpu, now))
    yield BurnRate(spec.accelerator_type, is_vm=False, units=spec.chips, price=price)
    if spec.vm is not None:
        price = _paid(book.at(sku_of(spec.vm, region), now))
        yield BurnRate(spec.vm.machine_type, is_vm=True, units=1, price=price)


def _paid(price: Price | None) -> int | None:
    return None if price is None else price.per_chip_hour


def _cost_lines(found: Sequence[Meter]) -> Iterator[CostLine]:
    """The meters by what they are of, in the order in which that was first used."""
    by_type: dict[tuple[str, bool], list[Meter]] = {}
    for meter in found:
        key = meter.usage.accelerator_type, meter.usage.sku.is_vm
        by_type.setdefault(key, []).append(meter)
    for (what, is_vm), some in by_type.items():
        known = all(cut.listed is not None for meter in some for cut in meter.cuts)
        yield CostLine(
            what=what,
            is_vm=is_vm,
            cost=sum(one.total() for one in some),
            list_cost=sum(one.list_charge(one.usage.start, one.end) for one in some)
            if known
            else None,
            seconds=sum(one.end - one.usage.start for one in some),
            unpriced_seconds=sum(one.unpriced_seconds() for one in some),
            quantity=sum(
                one.usage.units * one.seconds(one.usage.start, one.end, priced=True) for one in some
            ),
        )
