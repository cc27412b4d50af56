"""What a test of the store begins with: rows that are already there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.controllers.recording.posting import post_usage
from service.domain.metering.ledger import LedgerEntry, LedgerSlot
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import PriceBook
from service.store.node_list import NodeFilter
from service.store.pricebook import PriceBookCache
from service.store.prices import Prices
from service.store.unit import Units
from tests import factories
from tests.hands import NOON


def stored(units: Units, **changes: Any) -> Node:
    """A node that is in the database."""
    node = factories.node(**changes)
    with units() as unit:
        unit.nodes.add(node)
    return node


def ran(units: Units, node: Node, **changes: Any) -> Usage:
    """Usage of that node, in the database."""
    usage = factories.usage(node_id=node.id, zone=node.zone, chips=node.spec.chips, **changes)
    with units() as unit:
        return unit.usage.save(usage)


def metered(units: Units, usage: Usage, book: PriceBook, now: int) -> Usage:
    """The same usage, with everything in the ledger that should be there by now."""
    with units() as unit:
        return post_usage(unit, usage, book, now)


def slot(hour: int = NOON, price_id: str = "test/0") -> LedgerSlot:
    """An hour at 1.20 dollars per chip-hour, on demand."""
    return LedgerSlot(hour, price_id, 0, 1_200_000_000)


def entry(usage: Usage, hour: int = NOON, price_id: str = "test/0", **changes: Any) -> LedgerEntry:
    """A line of the ledger for a whole hour of that usage."""
    values: dict[str, Any] = {
        "usage_id": usage.id,
        "slot": slot(hour, price_id),
        "number": 0,
        "charge_start": hour,
        "charge_end": hour + 3_600,
        "chip_seconds": usage.chips * 3_600,
        "price": 1_200_000_000,
        "amount": 9_600_000_000,
        "list_amount": 9_600_000_000,
    }
    return LedgerEntry(**(values | changes))


def posted(units: Units, usage: Usage, entries: Sequence[LedgerEntry]) -> None:
    """These lines in the ledger, and in the rollup."""
    with units() as unit:
        whose = {
            attribution.since: attribution
            for attribution in unit.attributions.list_by_node(usage.node_id)
        }
        unit.ledger.post(entries, usage, whose, NOON)
        unit.costs.add(entries, usage, whose)


class GivenPrices(PriceBookCache):
    """Always the same price book; 1.20 dollars per chip-hour if none is given."""

    def __init__(self, book: PriceBook | None = None) -> None:
        super().__init__()
        self.last = factories.book() if book is None else book

    def get_book_at(self, count: int, prices: Prices) -> PriceBook:
        """That book, whatever prices there are."""
        return self.last


ALL = NodeFilter()
