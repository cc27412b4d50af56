"""One line of the ledger explained: the sum, the price, who is charged, how it is known. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.domain.clock import HOUR, rfc3339
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerSlot, parts_of
from service.domain.metering.line_items import lines_of
from service.domain.metering.meter import Evidence, Meter, Usage
from service.domain.metering.reservation import Reservation
from service.domain.money import dollars, half_even
from service.domain.pricing.price_book import VM_HOUR, Price, PriceBook
from service.domain.time_window import Window

NO_PRICE = "its price is unknown: the price book has none for it"


@dataclass(frozen=True, slots=True)
class LineCharge:
    """What a line charges: `seconds` are chip-seconds, or those of the one virtual machine where
    `is_vm`; `price` is nano-dollars for a chip, or the machine, and an hour; `amount` nano-dollars.
    """

    seconds: int
    price: int
    amount: int
    is_adjustment: bool
    is_vm: bool = False

    @property
    def product(self) -> str:
        """Its price for its seconds, as it ends each sum."""
        per = "an hour" if self.is_vm else "a chip-hour"
        return f"{dollars(self.price)} {per} / 3,600 = {dollars(self.amount)}"


def sum_of(charge: LineCharge, chips: int) -> str:
    """Chips x seconds x price, as it would be checked on paper."""
    quantity = _quantity(charge.seconds, chips, is_vm=charge.is_vm)
    whole = "only the whole interval is rounded, so that its lines sum to it exactly"
    return f"{quantity} x {charge.product}{_rounded(charge, whole)}"


def unpriced_sum_of(seconds: int, chips: int, *, is_vm: bool) -> str:
    """The same of what nobody knows the price of."""
    return f"{_quantity(seconds, chips, is_vm=is_vm)}, which is in no figure and not free"


def _quantity(seconds: int, chips: int, *, is_vm: bool) -> str:
    if is_vm:
        return f"1 VM x {seconds:,} s"
    if chips and seconds % chips == 0:
        return f"{chips:,} chips x {seconds // chips:,} s"
    return f"{seconds:,} chip-seconds"


def unused_sum_of(charge: LineCharge, chips: int, seconds: int) -> str:
    """The same of a line that says what nobody used of `chips` that were reserved for so long."""
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
        f" {charge.seconds:,} chip-seconds x {charge.product}{_rounded(charge, whole)}"
    )


def _rounded(charge: LineCharge, whole: str) -> str:
    alone = half_even(charge.seconds * charge.price, HOUR)
    if alone == charge.amount or charge.is_adjustment:
        return ""
    return f"; by itself it would round to {dollars(alone)}, but {whole}"


def stretches_of(
    slot: LedgerSlot,
    period: Window,
    usage: Usage,
    book: PriceBook,
    whose: Sequence[Attribution],
    *,
    is_vm: bool,
) -> tuple[Window, ...]:
    """The parts of the period of a line that are charged in it, as the book knows them now: those
    at its price, for those who are charged."""
    of_it = next((one for one in lines_of(usage) if one.sku.is_vm is is_vm), usage)
    then = replace(of_it, start=period.start, end=period.end, free="")
    found: list[Window] = []
    for other, cut in parts_of(Meter(then, book, period.end, whose), period.start, period.end):
        if other == slot and found and found[-1].end == cut.start:
            found[-1] = Window(found[-1].start, cut.end)
        elif other == slot:
            found.append(Window(cut.start, cut.end))
    return tuple(found)


def note_of(stretches: Sequence[Window]) -> str:
    """What a line is of that charges several stretches within its hour."""
    each = [
        f"from {rfc3339(one.start)} to {rfc3339(one.end)} ({one.end - one.start:,} s)"
        for one in stretches
    ]
    return (
        f"it is of {len(each)} stretches, {', '.join(each[:-1])} and {each[-1]}. Other lines"
        " of the ledger charge the time between them"
    )


def source_of(price: Price | None, price_id: str) -> str:
    """Where the price is known from."""
    if price is None:
        return f"the price {price_id} is no longer in the price book"
    unit = "hour" if price.unit == VM_HOUR else price.unit.replace("_", "-")
    return (
        f"{dollars(price.nanos)} per {unit} for {price.generation} {price.model} in {price.region},"
        f" in force from {rfc3339(price.effective_from)}: {price.source}"
    )


def vm_note_of(usage: Usage) -> str:
    """Why the user's own virtual machine is charged for just these seconds."""
    free = (
        f"; its TPU is free ({usage.free}), which is a rule about TPUs alone" if usage.free else ""
    )
    return (
        f"this VM drives {usage.accelerator_type}, and is charged for the time of its TPU."
        " Compute Engine bills the VM from its start to its stop, which this service cannot see"
        f"{free}"
    )


def reservation_note_of(one: Reservation) -> str:
    """In which reservation a node ran, and what that has to do with its price."""
    withdrawn = "" if one.withdrawn_at is None else f"; its record was withdrawn: {one.reason}"
    return (
        f"it ran in the reservation {one.name} ({one.id}), at its price; what no node uses of"
        f" it is charged under the reservation itself{withdrawn}"
    )


def evidence_of(usage: Usage) -> tuple[str, ...]:
    """How both ends of the interval are known."""
    if not usage.is_purchase:
        return beginning_of(usage), end_of(usage)
    assert usage.end is not None
    bought = (
        f"it was bought from {rfc3339(usage.start)} to {rfc3339(usage.end)}, and is paid for"
        " whether anything runs on it or not"
    )
    return (bought, f"its record was {usage.free}") if usage.free else (bought,)


def beginning_of(usage: Usage) -> str:
    """How the beginning of the interval is known."""
    match usage.start_evidence:
        case Evidence.OPERATION:
            return f"it began at {rfc3339(usage.start)}, by the cloud's record of the operation"
        case Evidence.UNSEEN:
            return (
                f"no poll saw it READY: it may have been READY from {rfc3339(usage.start)}"
                " on, and no record excludes it"
            )
        case _:
            return _between("it began", usage.start, usage.start_hi, usage.start_evidence)


def end_of(usage: Usage) -> str:
    """How the end of the interval is known."""
    if usage.end is None:
        return "it has not ended"
    if usage.end_evidence is Evidence.OPERATION:
        return f"it ended at {rfc3339(usage.end)}, by the cloud's record of the operation"
    if usage.end_evidence is Evidence.AUDIT:
        return f"it ended at {rfc3339(usage.end)}, by the cloud's audit log"
    lowest = usage.end if usage.end_lo is None else usage.end_lo
    return _between("it ended", lowest, usage.end, usage.end_evidence or Evidence.OBSERVED)


def charged_to(whose: Attribution) -> str:
    """Who is charged."""
    named = (("team", whose.team), ("owner", whose.owner), ("job", whose.job))
    charged = ", ".join(f"{what} {name}" for what, name in named if name)
    return f"it is charged to {charged or 'no team, owner or job'}"


def _between(what: str, first: int, last: int, evidence: Evidence) -> str:
    if first >= last:
        return f"{what} at {rfc3339(last)} ({evidence})"
    return (
        f"{what} between {rfc3339(first)} and {rfc3339(last)}, two polls {last - first:,} s"
        " apart; all of it is charged, and marked as uncertain"
    )
