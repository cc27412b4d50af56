"""What one node cost so far, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.domain.legacy import not_included
from service.domain.lines import meters
from service.domain.metering import Meter, Usage
from service.domain.node import Node
from service.domain.pricing import PriceBook


@dataclass(frozen=True, slots=True)
class CostLine:
    """What one thing came to, by its type: the TPU, or the user's own virtual machine."""

    what: str
    is_vm: bool
    cost: int
    list_cost: int | None
    seconds: int
    unpriced_seconds: int


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What a node cost so far, in nano-dollars. `list_cost` is the same seconds at the on-demand
    price, None where that is not known; `uncertainty` how much of `cost` may not be true;
    `unpriced_seconds` were used at a price nobody knows, and are in no figure; `not_included` says
    what else the node costs its owner, elsewhere. `lines` are what the figures are the sums of."""

    cost: int
    list_cost: int | None
    chip_seconds: int
    uncertainty: int
    estimated: bool
    unpriced_seconds: int
    as_of: int
    not_included: tuple[str, ...] = ()
    lines: tuple[CostLine, ...] = ()


def cost_of(node: Node, intervals: Sequence[Usage], book: PriceBook, now: int) -> NodeCost:
    """All that its intervals come to, to the second."""
    found = list(meters(intervals, book, now))
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
    )


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
        )
