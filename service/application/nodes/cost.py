"""What one node cost so far, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.application.costs.accruals import Accrual, list_unposted
from service.domain.jobs.occupancy import Occupancy, list_occupancies
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import make_meters
from service.domain.metering.meter import Meter, Usage
from service.domain.metering.running import PriceParts, price_parts_of
from service.domain.nodes.legacy import not_included
from service.domain.nodes.node import Node
from service.domain.pricing.burn import burn_of
from service.domain.pricing.price_book import PriceBook, ReservedPrice


@dataclass(frozen=True, slots=True)
class CostLine:
    """The cost of one type: the TPU, or the user's own virtual machine.

    `quantity` is the priced part of it: chip-seconds, or seconds of the one machine.
    """

    what: str
    is_vm: bool
    cost: int
    list_cost: int | None
    seconds: int
    unpriced_seconds: int
    quantity: int = 0


@dataclass(frozen=True, slots=True)
class BilledSegment:
    """One interval of use of a node, or of its VM, and its cost.

    `usage` is the interval of that line, `end` its end as of the time of the figures. `cost` and
    `uncertainty` are in nano-dollars; `unpriced_seconds` are in neither.
    """

    usage: Usage
    end: int
    cost: int
    uncertainty: int
    unpriced_seconds: int


@dataclass(frozen=True, slots=True)
class BurnRate:
    """The current cost of one line: nano-dollars an hour for each chip, or for the one machine;
    None if no price is known."""

    what: str
    is_vm: bool
    units: int
    price: int | None


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What a node cost so far, in nano-dollars. `list_cost` is the same seconds at the on-demand
    price, None if that is unknown; `uncertainty` is the part of `cost` that may be wrong;
    `unpriced_seconds` were used at an unknown price, and are in no figure. `not_included` names
    other costs of the node that its owner pays elsewhere. `lines` add up to the figures; `rates`
    are what the lines cost once the node is READY, none once it has ended; `burn` is nano-dollars
    an hour of all of them, None if a price is unknown. `reservations` are the
    ids of those that it ran in, in order of use; `free` are the rules by which some of it cost
    nothing. `unposted` is the part that is not in the ledger yet; `occupancy` is what its seconds
    were spent on, empty if no job ever ran on it. `segments` are all its intervals, first to last;
    their costs add up to `cost`."""

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
    burn: int | None = 0
    reservations: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    unposted: tuple[Accrual, ...] = ()
    occupancy: tuple[Occupancy, ...] = ()
    segments: tuple[BilledSegment, ...] = ()


def cost_of(
    node: Node,
    intervals: Sequence[Usage],
    book: PriceBook,
    now: int,
    whose: Sequence[Attribution] = (),
) -> NodeCost:
    """The cost of all intervals of a node, to the second; `whose` are its attributions."""
    found = list(make_meters(intervals, book, now, {node.id: whose}))
    lines = tuple(_cost_lines(found))
    listed = [line.list_cost for line in lines]
    cuts = sorted((cut for meter in found for cut in meter.cuts), key=lambda cut: cut.start)
    parts = None if node.has_ended else price_parts_of(node.spec, node.zone)
    used = (cut.price.reservation_id for cut in cuts if isinstance(cut.price, ReservedPrice))
    return NodeCost(
        cost=sum(line.cost for line in lines),
        list_cost=None
        if None in listed
        else sum(amount for amount in listed if amount is not None),
        chip_seconds=sum(meter.chip_seconds_in(meter.usage.start, meter.end) for meter in found),
        uncertainty=sum(meter.total_uncertainty() for meter in found),
        estimated=any(u.end is None or u.uncertain_seconds for u in intervals),
        unpriced_seconds=sum(line.unpriced_seconds for line in lines),
        as_of=now,
        not_included=not_included(node),
        lines=lines,
        rates=() if parts is None else tuple(_iter_rates(node, parts, book, now)),
        burn=0 if parts is None else burn_of(parts.list_lines(), book, now),
        reservations=tuple(dict.fromkeys(used)),
        free=tuple(dict.fromkeys(usage.free for usage in intervals if usage.free)),
        unposted=list_unposted(found, {usage.id: usage for usage in intervals}),
        occupancy=list_occupancies(found, whose),
        segments=tuple(
            BilledSegment(
                meter.usage,
                meter.end,
                meter.total_charge(),
                meter.total_uncertainty(),
                meter.unpriced_seconds(),
            )
            for meter in sorted(found, key=lambda meter: meter.usage.start)
        ),
    )


def _iter_rates(node: Node, parts: PriceParts, book: PriceBook, now: int) -> Iterator[BurnRate]:
    for line in parts.list_lines():
        what = line.sku.generation if line.sku.is_vm else node.spec.accelerator_type
        price = book.find_price(line.sku, now)
        yield BurnRate(
            what,
            is_vm=line.sku.is_vm,
            units=line.units,
            price=None if price is None else price.per_chip_hour,
        )


def _cost_lines(found: Sequence[Meter]) -> Iterator[CostLine]:
    """The meters by type, in the order of first use."""
    by_type: dict[tuple[str, bool], list[Meter]] = {}
    for meter in found:
        key = meter.usage.accelerator_type, meter.usage.sku.is_vm
        by_type.setdefault(key, []).append(meter)
    for (what, is_vm), some in by_type.items():
        known = all(cut.listed is not None for meter in some for cut in meter.cuts)
        yield CostLine(
            what=what,
            is_vm=is_vm,
            cost=sum(meter.total_charge() for meter in some),
            list_cost=sum(meter.list_charge_in(meter.usage.start, meter.end) for meter in some)
            if known
            else None,
            seconds=sum(meter.end - meter.usage.start for meter in some),
            unpriced_seconds=sum(meter.unpriced_seconds() for meter in some),
            quantity=sum(
                meter.usage.units * meter.seconds_in(meter.usage.start, meter.end, priced=True)
                for meter in some
            ),
        )
