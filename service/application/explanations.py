"""From a line of the ledger down to the price list and to what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain import explanation
from service.domain.attribution import Attribution
from service.domain.clock import HOUR, floor_to
from service.domain.errors import NotFound
from service.domain.explanation import Charge
from service.domain.metering import Usage
from service.domain.pricing import Price
from service.domain.reservation import Reservation
from service.store.beliefs import Belief
from service.store.ledger import Line
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units


@dataclass(frozen=True, slots=True)
class Explanation:
    """A line, the interval that it is part of with every version of what was believed of it, the
    price and who is charged; `reservation` is what was bought, and used here or by nobody.

    In words: the `sum`, the `source` of its price, `notes` on what is not plain in it, how both
    ends of the interval are known (`evidence`), and who is `charged`.
    """

    line: Line
    usage: Usage
    beliefs: Sequence[Belief]
    price: Price | None
    whose: Attribution
    reservation: Reservation | None
    sum: str
    source: str
    notes: tuple[str, ...]
    evidence: tuple[str, ...]
    charged: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it in words, the sum first."""
        return (self.sum, self.source, *self.notes, *self.evidence, self.charged)


class ExplanationService:
    """Reads what stands behind a line; nothing of it is kept for the purpose."""

    def __init__(self, units: Units, prices: PriceShelf) -> None:
        self._units = units
        self._prices = prices

    def whose(self, node_id: str) -> Sequence[Attribution]:
        """Who is charged for a node, or for what nobody uses of a reservation, from when on; raises
        NotFound."""
        with self._units.reading() as unit:
            _check_known(unit, node_id)
            return unit.attributions.of(node_id)

    def line(self, node_id: str, number: int) -> Explanation:
        """The line of that number in the ledger of a node, or of a reservation. Raises NotFound
        where there is none."""
        with self._units.reading() as unit:
            _check_known(unit, node_id)
            found = unit.ledger.of(node_id, number - 1, 1)
            if not found or found[0].id != number:
                raise NotFound(f"the ledger of {node_id[:80]} has no line {number}")
            line = found[0]
            usage = next(one for one in unit.usage.of(node_id) if one.id == line.usage_id)
            bought = line.reservation_id
            reservation = None if bought is None else unit.reservations.get(bought)
            price = self._prices.book(unit).with_id(line.price_id)
            attributions = unit.attributions.of(node_id)
            whose = next(one for one in attributions if one.since == line.since)
            return Explanation(
                line=line,
                usage=usage,
                beliefs=unit.beliefs.of(usage.id),
                price=price,
                whose=whose,
                reservation=reservation,
                sum=_sum(line, usage),
                source=explanation.source_of(price, line.price_id),
                notes=tuple(_notes(unit, line, usage, reservation)),
                evidence=explanation.evidence_of(usage),
                charged=explanation.charged_to(whose),
            )


def _check_known(unit: Unit, node_id: str) -> None:
    """Raise NotFound unless that is the id of a node, or of a reservation."""
    try:
        unit.nodes.get(node_id)
    except NotFound as no_node:
        try:
            unit.reservations.get(node_id)
        except NotFound:
            raise no_node from None


def _is_adjustment(line: Line) -> bool:
    return line.corrects_id is not None


def _sum(line: Line, usage: Usage) -> str:
    seconds = line.vm_seconds if line.is_vm else line.chip_seconds
    charge = Charge(seconds, line.price_nanos, line.amount_nanos, _is_adjustment(line), line.is_vm)
    if not usage.is_purchase:
        return explanation.sum_of(charge, usage.chips)
    if charge.is_adjustment:  # of as many chips as nodes used more of it, or less
        return explanation.sum_of(charge, 0)
    length = line.charge_end - line.charge_start
    return explanation.unused_sum_of(charge, usage.chips, length)


def _notes(unit: Unit, line: Line, usage: Usage, bought: Reservation | None) -> Sequence[str]:
    notes = []
    if _is_adjustment(line):
        of_what = "what nodes used of it, or of its record" if usage.is_purchase else "the interval"
        notes.append(f"it adjusts line {line.corrects_id}: more became known of {of_what}")
    elif usage.is_purchase and (since := _used_since(unit, line, usage)):
        notes.append(since)
    if line.is_vm:
        notes.append(explanation.vm_note_of(usage))
    if bought is not None and not usage.is_purchase:
        notes.append(explanation.reservation_note_of(bought))
    return notes


def _used_since(unit: Unit, line: Line, usage: Usage) -> str:
    """What became of what nodes were known to have used when the line was posted; empty where that
    is still so."""
    hour = floor_to(line.charge_start, HOUR)
    _, used = unit.ledger.used(line.node_id, hour).get((hour, line.price_id), (0, 0))
    known = usage.chips * (line.charge_end - line.charge_start) - line.chip_seconds
    if used == known:
        return ""
    return f"by now nodes are charged for {used:,} chip-seconds of it; later lines adjust this one"
