"""From a line of the ledger down to the price list and to what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.attribution import Attribution
from service.domain.errors import NotFound
from service.domain.explanation import Charge, beginning_of, end_of, source_of, sum_of
from service.domain.metering import Usage
from service.domain.pricing import Price
from service.store.beliefs import Belief
from service.store.ledger import Line
from service.store.pricebook import PriceShelf
from service.store.unit import Units


@dataclass(frozen=True, slots=True)
class Explanation:
    """A line, the interval that it is part of with every version of what was believed of it, the
    price and who is charged; `sentences` say it in words, the sum first."""

    line: Line
    usage: Usage
    beliefs: Sequence[Belief]
    price: Price | None
    whose: Attribution
    sentences: tuple[str, ...]


class ExplanationService:
    """Reads what stands behind a line; nothing of it is kept for the purpose."""

    def __init__(self, units: Units, prices: PriceShelf) -> None:
        self._units = units
        self._prices = prices

    def whose(self, node_id: str) -> Sequence[Attribution]:
        """Who is charged for a node, from when on; raises NotFound."""
        with self._units.reading() as unit:
            unit.nodes.get(node_id)
            return unit.attributions.of(node_id)

    def line(self, node_id: str, number: int) -> Explanation:
        """The line of that number in the node's ledger. Raises NotFound where there is none."""
        with self._units.reading() as unit:
            unit.nodes.get(node_id)
            found = unit.ledger.of(node_id, number - 1, 1)
            if not found or found[0].id != number:
                raise NotFound(f"the ledger of node {node_id} has no line {number}")
            line = found[0]
            usage = next(one for one in unit.usage.of(node_id) if one.id == line.usage_id)
            beliefs = unit.beliefs.of(usage.id)
            whose = unit.attributions.of(node_id)
            price = self._prices.book(unit).with_id(line.price_id)
        attribution = next(one for one in whose if one.since == line.since)
        return Explanation(
            line, usage, beliefs, price, attribution, tuple(_told(line, usage, price, attribution))
        )


def _told(line: Line, usage: Usage, price: Price | None, whose: Attribution) -> Sequence[str]:
    adjusts = line.kind == "adjustment"
    charge = Charge(
        line.charge_start,
        line.charge_end,
        line.chip_seconds,
        line.price_nanos,
        line.amount_nanos,
        adjusts,
    )
    sentences = [sum_of(charge, usage.chips), source_of(price, line.price_id)]
    if adjusts:
        sentences.append(f"it adjusts line {line.corrects_id}: more became known of the interval")
    sentences += [beginning_of(usage), end_of(usage)]
    named = (("team", whose.team), ("owner", whose.owner), ("job", whose.job))
    charged = ", ".join(f"{what} {name}" for what, name in named if name)
    sentences.append(f"it is charged to {charged or 'nobody by name'}")
    return sentences
