"""Explains a line of the ledger: the price list and the observations behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.clock import HOUR, floor_to
from service.domain.costs import explanation
from service.domain.costs.explanation import InWords, LineCharge
from service.domain.errors import NotFound
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerSlot
from service.domain.metering.meter import Usage
from service.domain.metering.reservation import Reservation
from service.domain.pricing.price_book import Price, PriceBook
from service.domain.time_window import Window
from service.store.ledger import PostedLine
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from service.store.usage_versions import UsageVersion


@dataclass(frozen=True, slots=True)
class Explanation(InWords):
    """A line, the interval that it is part of with every version of that interval, the price and
    who is charged. `reservation` is the reservation of the line: the line charges its used or its
    unused chips. `stretches` are the parts of the line's period that it charges, if there are
    several."""

    line: PostedLine
    usage: Usage
    beliefs: Sequence[UsageVersion]
    price: Price | None
    whose: Attribution
    reservation: Reservation | None
    stretches: tuple[Window, ...]
    sum: str
    source: str
    notes: tuple[str, ...]
    evidence: tuple[str, ...]
    charged: str


class ExplanationService:
    """Reads what a line is based on; nothing is stored for this purpose."""

    def __init__(self, units: Units, prices: PriceBookCache) -> None:
        self._units = units
        self._prices = prices

    def list_attributions(self, node_id: str) -> Sequence[Attribution]:
        """Who is charged for a node, or for the unused part of a reservation, from when on; raises
        NotFound."""
        with self._units.reading() as unit:
            _name_of(unit, node_id)
            return unit.attributions.list_by_node(node_id)

    def describe_missing_line(self, node_id: str, number: str) -> NotFound:
        """The NotFound to raise for an invalid line number. Raises NotFound itself if there is no
        such node or reservation."""
        with self._units.reading() as unit:
            return _missing_line_error(
                _name_of(unit, node_id), number[:80], unit.ledger.find_number_range(node_id)
            )

    def explain_line(self, node_id: str, number: int) -> Explanation:
        """The line of that number in the ledger of a node, or of a reservation. Raises NotFound."""
        with self._units.reading() as unit:
            name = _name_of(unit, node_id)
            found = unit.ledger.list_by_node(node_id, number - 1, 1)
            if not found or found[0].id != number:
                raise _missing_line_error(name, str(number), unit.ledger.find_number_range(node_id))
            line = found[0]
            usage = next(
                interval
                for interval in unit.usage.list_by_node(node_id)
                if interval.id == line.usage_id
            )
            bought = line.reservation_id
            reservation = None if bought is None else unit.reservations.get(bought)
            book = self._prices.get_book(unit)
            price = book.with_id(line.price_id)
            attributions = unit.attributions.list_by_node(node_id)
            stretches = _list_stretches(line, usage, book, attributions)
            whose = next(
                attribution for attribution in attributions if attribution.since == line.since
            )
            return Explanation(
                line=line,
                usage=usage,
                beliefs=unit.usage_versions.list_by_usage(usage.id),
                price=price,
                whose=whose,
                reservation=reservation,
                stretches=stretches,
                sum=_describe_sum(line, usage, stretches),
                source=explanation.source_of(price, line.price_id),
                notes=tuple(_list_notes(unit, line, usage, reservation, stretches)),
                evidence=explanation.evidence_of(usage),
                charged=explanation.charged_to(whose),
            )


def _name_of(unit: Unit, node_id: str) -> str:
    """The name of a node or of a reservation. Raises NotFound if the id is neither."""
    try:
        return unit.nodes.get(node_id).name
    except NotFound as no_node:
        try:
            return unit.reservations.get(node_id).name
        except NotFound:
            raise no_node from None


def _missing_line_error(name: str, number: str, numbers: tuple[int, int] | None) -> NotFound:
    """The error for an unknown line number. All lines of the ledger share one numbering."""
    text = f"the ledger of {name} has no line {number}"
    if numbers is None:
        return NotFound(f"{text}: nothing is posted to it")
    first, last = numbers
    theirs = (
        f"its lines are numbered from {first} to {last}"
        if first < last
        else f"its only line is {first}"
    )
    return NotFound(f"{text}; {theirs}", first_line=first, last_line=last)


def _is_adjustment(line: PostedLine) -> bool:
    return line.corrects_id is not None


def _list_stretches(
    line: PostedLine, usage: Usage, book: PriceBook, whose: Sequence[Attribution]
) -> tuple[Window, ...]:
    """The stretches of a line, if there are several. Empty for an adjustment, or if more became
    known since: the stretches would not add up."""
    if _is_adjustment(line):
        return ()
    slot = LedgerSlot(
        floor_to(line.charge_start, HOUR), line.price_id, line.since, line.list_price_nanos
    )
    period = Window(line.charge_start, line.charge_end)
    found = explanation.stretches_of(slot, period, usage, book, whose, is_vm=line.is_vm)
    charged = line.vm_seconds if line.is_vm else line.chip_seconds
    units = 1 if line.is_vm else usage.chips
    adds_up = (
        usage.is_purchase
        or units * sum(stretch.end - stretch.start for stretch in found) == charged
    )
    return found if len(found) > 1 and adds_up else ()


def _count_seconds(line: PostedLine, stretches: Sequence[Window]) -> int:
    whole = stretches or (Window(line.charge_start, line.charge_end),)
    return sum(stretch.end - stretch.start for stretch in whole)


def _describe_sum(line: PostedLine, usage: Usage, stretches: Sequence[Window]) -> str:
    seconds = line.vm_seconds if line.is_vm else line.chip_seconds
    charge = LineCharge(
        seconds, line.price_nanos, line.amount_nanos, _is_adjustment(line), line.is_vm
    )
    if not usage.is_purchase:
        return explanation.sum_of(charge, usage.chips)
    if charge.is_adjustment:  # its number of chips is what nodes used more, or less
        return explanation.sum_of(charge, 0)
    return explanation.unused_sum_of(charge, usage.chips, _count_seconds(line, stretches))


def _list_notes(
    unit: Unit,
    line: PostedLine,
    usage: Usage,
    bought: Reservation | None,
    stretches: Sequence[Window],
) -> Sequence[str]:
    notes = [explanation.note_of(stretches)] if stretches else []
    if _is_adjustment(line):
        of_what = "what nodes used of it, or of its record" if usage.is_purchase else "the interval"
        notes.append(f"it adjusts line {line.corrects_id}: more is known of {of_what}")
    elif usage.is_purchase:
        hour = floor_to(line.charge_start, HOUR)
        _, used = unit.ledger.sum_used(line.node_id, hour).get((hour, line.price_id), (0, 0))
        known = usage.chips * _count_seconds(line, stretches) - line.chip_seconds
        if used != known:  # more became known since the line was posted
            notes.append(
                f"nodes are now charged for {used:,} chip-seconds of it; later lines adjust this"
                " one"
            )
    if line.is_vm:
        notes.append(explanation.vm_note_of(usage))
    if bought is not None and not usage.is_purchase:
        notes.append(explanation.reservation_note_of(bought))
    return notes
