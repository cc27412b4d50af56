"""Explains one line of the ledger: the sum, the price, who is charged, the evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.domain.clock import HOUR, to_rfc3339
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerSlot, parts_of
from service.domain.metering.line_items import lines_of
from service.domain.metering.meter import Evidence, Meter, Usage
from service.domain.metering.reservation import Reservation
from service.domain.money import format_dollars, half_even
from service.domain.pricing.price_book import VM_HOUR, Price, PriceBook
from service.domain.time_window import Window

NO_PRICE = "its price is unknown: the price book has none for it"


class InWords:
    """The sentences of an explanation.

    These are the `sum`, the `source` of its price, `notes`, the `evidence` for both ends of the
    interval, and who is `charged`.
    """

    __slots__ = ()

    sum: str
    source: str
    notes: tuple[str, ...]
    evidence: tuple[str, ...]
    charged: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, the sum first."""
        return (self.sum, self.source, *self.notes, *self.evidence, self.charged)


@dataclass(frozen=True, slots=True)
class LineCharge:
    """The charge of a line.

    `seconds` are chip-seconds, `price` is nano-dollars per chip-hour, `amount` is nano-dollars.
    With `is_vm` they are the seconds of one virtual machine, and nano-dollars per hour.
    """

    seconds: int
    price: int
    amount: int
    is_adjustment: bool
    is_vm: bool = False

    @property
    def product(self) -> str:
        """The price and the amount, as the end of a sum."""
        per = "an hour" if self.is_vm else "a chip-hour"
        return f"{format_dollars(self.price)} {per} / 3,600 = {format_dollars(self.amount)}"


def sum_of(charge: LineCharge, chips: int) -> str:
    """The explanation of an amount by the sum `chips x seconds x price = amount`. A reader can
    check the amount."""
    quantity = _format_quantity(charge.seconds, chips, is_vm=charge.is_vm)
    whole = "only the whole interval is rounded, so that its lines sum to it exactly"
    return f"{quantity} x {charge.product}{_explain_rounding(charge, whole)}"


def unpriced_sum_of(seconds: int, chips: int, *, is_vm: bool) -> str:
    """The explanation of a line without a known price: its quantity."""
    return f"{_format_quantity(seconds, chips, is_vm=is_vm)}, which is in no figure and not free"


def _format_quantity(seconds: int, chips: int, *, is_vm: bool) -> str:
    if is_vm:
        return f"1 VM x {seconds:,} s"
    if chips and seconds % chips == 0:
        return f"{chips:,} chips x {seconds // chips:,} s"
    return f"{seconds:,} chip-seconds"


def unused_sum_of(charge: LineCharge, chips: int, seconds: int) -> str:
    """The explanation of a line for the unused part of `chips` that were reserved for `seconds`."""
    reserved = chips * seconds
    used = reserved - charge.seconds
    if not used:
        of_which = "of which no node used any"
    elif used <= reserved:
        of_which = f"of which nodes used {used:,}, so that {charge.seconds:,} were not used"
    else:
        of_which = (
            f"of which nodes are charged for {used:,}: {-charge.seconds:,} more than there are, as"
            " it is not known to the second where one ended and the next began"
        )
    whole = (
        "only the whole reservation is rounded, so that it and what its nodes are charged for sum"
        " to it exactly"
    )
    return (
        f"{chips:,} chips x {seconds:,} s = {reserved:,} chip-seconds reserved, {of_which}:"
        f" {charge.seconds:,} chip-seconds x {charge.product}{_explain_rounding(charge, whole)}"
    )


def _explain_rounding(charge: LineCharge, whole: str) -> str:
    alone = half_even(charge.seconds * charge.price, HOUR)
    if alone == charge.amount or charge.is_adjustment:
        return ""
    return f"; by itself it would round to {format_dollars(alone)}, but {whole}"


def stretches_of(
    slot: LedgerSlot,
    period: Window,
    usage: Usage,
    book: PriceBook,
    whose: Sequence[Attribution],
    *,
    is_vm: bool,
) -> tuple[Window, ...]:
    """The stretches that a line charges within its period, for its explanation by the present price
    book.

    These are the parts with the price and the attribution of the line's slot.
    """
    of_it = next((line for line in lines_of(usage) if line.sku.is_vm is is_vm), usage)
    then = replace(of_it, start=period.start, end=period.end, free="")
    found: list[Window] = []
    for other, cut in parts_of(Meter(then, book, period.end, whose), period.start, period.end):
        if other == slot and found and found[-1].end == cut.start:
            found[-1] = Window(found[-1].start, cut.end)
        elif other == slot:
            found.append(Window(cut.start, cut.end))
    return tuple(found)


def note_of(stretches: Sequence[Window]) -> str:
    """The explanation of a line that charges several stretches within its hour."""
    each = [
        f"from {to_rfc3339(stretch.start)} to {to_rfc3339(stretch.end)}"
        f" ({stretch.end - stretch.start:,} s)"
        for stretch in stretches
    ]
    return (
        f"it is of {len(each)} stretches, {', '.join(each[:-1])} and {each[-1]}. Other lines"
        " of the ledger charge the time between them"
    )


def source_of(price: Price | None, price_id: str) -> str:
    """The explanation of a line's price, with its source and the time since which it is in
    force."""
    if price is None:
        return f"the price {price_id} is no longer in the price book"
    unit = "hour" if price.unit == VM_HOUR else price.unit.replace("_", "-")
    return (
        f"{format_dollars(price.nanos)} per {unit} for {price.generation} {price.model} in"
        f" {price.region}, in force from {to_rfc3339(price.effective_from)}: {price.source}"
    )


def vm_note_of(usage: Usage) -> str:
    """The explanation of a line for the user's own virtual machine: why it has exactly these
    seconds."""
    free = (
        f"; its TPU is free ({usage.free}), which is a rule about TPUs alone" if usage.free else ""
    )
    return (
        f"this VM drives {usage.accelerator_type}, and is charged for the time of its TPU."
        " Compute Engine bills the VM from its start to its stop, which this service cannot see"
        f"{free}"
    )


def reservation_note_of(reservation: Reservation) -> str:
    """The explanation of the price of a line by the reservation that its node ran in."""
    withdrawn = (
        ""
        if reservation.withdrawn_at is None
        else f"; its record was withdrawn: {reservation.reason}"
    )
    return (
        f"it ran in the reservation {reservation.name} ({reservation.id}), at its price; what no"
        f" node uses of it is charged under the reservation itself{withdrawn}"
    )


def evidence_of(usage: Usage) -> tuple[str, ...]:
    """The explanation of a line by the evidence for both ends of its interval."""
    if not usage.is_purchase:
        return beginning_of(usage), end_of(usage)
    assert usage.end is not None
    bought = (
        f"it was bought from {to_rfc3339(usage.start)} to {to_rfc3339(usage.end)}, and is paid for"
        " whether anything runs on it or not"
    )
    return (bought, f"its record was {usage.free}") if usage.free else (bought,)


def beginning_of(usage: Usage) -> str:
    """The explanation of the evidence for the start of a line's interval."""
    match usage.start_evidence:
        case Evidence.OPERATION:
            return f"it began at {to_rfc3339(usage.start)}, by the cloud's record of the operation"
        case Evidence.UNSEEN:
            return (
                f"no poll saw it READY: it may have been READY from {to_rfc3339(usage.start)}"
                " on, and no record excludes it"
            )
        case _:
            return _describe_bounds("it began", usage.start, usage.start_hi, usage.start_evidence)


def end_of(usage: Usage) -> str:
    """The explanation of the evidence for the end of a line's interval."""
    if usage.end is None:
        return "it has not ended"
    if usage.end_evidence is Evidence.OPERATION:
        return f"it ended at {to_rfc3339(usage.end)}, by the cloud's record of the operation"
    if usage.end_evidence is Evidence.AUDIT:
        return f"it ended at {to_rfc3339(usage.end)}, by the cloud's audit log"
    lowest = usage.end if usage.end_lo is None else usage.end_lo
    return _describe_bounds("it ended", lowest, usage.end, usage.end_evidence or Evidence.OBSERVED)


def charged_to(whose: Attribution) -> str:
    """The explanation of a line by its payer: the team, owner and job that are charged."""
    named = (("team", whose.team), ("owner", whose.owner), ("job", whose.job))
    charged = ", ".join(f"{what} {name}" for what, name in named if name)
    return f"it is charged to {charged or 'no team, owner or job'}"


def _describe_bounds(what: str, first: int, last: int, evidence: Evidence) -> str:
    if first >= last:
        return f"{what} at {to_rfc3339(last)} ({evidence})"
    return (
        f"{what} between {to_rfc3339(first)} and {to_rfc3339(last)}, two polls {last - first:,} s"
        " apart; all of it is charged, and marked as uncertain"
    )
