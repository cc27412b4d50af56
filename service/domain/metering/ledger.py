"""What the ledger should say of usage, and the entries that bring it there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from service.domain.clock import HOUR, floor_to
from service.domain.metering.meter import Meter
from service.domain.pricing.price_book import PriceStretch


class LedgerSlot(NamedTuple):
    """What one entry of the ledger speaks of: an hour (its first second), the price paid in it, who
    is charged (the instant from which on it is they) and the on-demand list price, in nano-dollars
    per chip-hour."""

    hour: int
    price_id: str
    since: int
    list_price: int | None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An immutable line of the ledger: an amount for part of a usage at one price.

    A second entry for the same slot (`number` 1 and up) is an adjustment of the first, whose id it
    names in `corrects`. `amount` is nano-dollars, `price` nano-dollars per chip-hour; `list_amount`
    is what the same would have cost on demand at list price, None where that is not known.
    `vm_seconds` are those of the user's own virtual machine, which has no chips.
    """

    usage_id: str
    slot: LedgerSlot
    number: int
    charge_start: int
    charge_end: int
    chip_seconds: int
    price: int
    amount: int
    list_amount: int | None
    corrects: int | None = None
    vm_seconds: int = 0

    @property
    def key(self) -> str:
        """Deterministic, so that posting the same thing twice is refused by the database."""
        hour, price_id, since, list_price = self.slot
        return f"{self.usage_id}/{hour}/{price_id}/{since}/{list_price}/{self.number}"


@dataclass(frozen=True, slots=True)
class PostedSlot:
    """What the ledger says of one slot so far; `first_id` is its first entry."""

    count: int
    chip_seconds: int
    amount: int
    list_amount: int | None
    price: int
    charge_start: int
    charge_end: int
    first_id: int
    vm_seconds: int = 0


def desired_entries(meter: Meter, start: int, end: int) -> dict[LedgerSlot, LedgerEntry]:
    """What the ledger should say of [start, end), by slot."""
    wanted: dict[LedgerSlot, LedgerEntry] = {}
    for slot, part in parts_of(meter, start, end):
        assert part.price is not None
        entry = LedgerEntry(
            usage_id=meter.usage.id,
            slot=slot,
            number=0,
            charge_start=part.start,
            charge_end=part.end,
            chip_seconds=meter.usage.chips * (part.end - part.start),
            price=part.price.per_chip_hour,
            amount=meter.charge(part.start, part.end),
            list_amount=None if part.listed is None else meter.list_charge(part.start, part.end),
            vm_seconds=part.end - part.start if meter.usage.sku.is_vm else 0,
        )
        wanted[slot] = _together(wanted[slot], entry) if slot in wanted else entry
    return wanted


def unused(
    wanted: Mapping[LedgerSlot, LedgerEntry], used: Mapping[tuple[int, str], tuple[int, int]]
) -> dict[LedgerSlot, LedgerEntry]:
    """What is left of the entries of a reservation once what nodes are charged for it is taken off:
    `used` is (nano-dollars, chip-seconds) by hour and price. All of it together is the whole.
    """
    left: dict[LedgerSlot, LedgerEntry] = {}
    for slot, entry in wanted.items():
        amount, chip_seconds = used.get((slot.hour, slot.price_id), (0, 0))
        found = replace(
            entry,
            amount=entry.amount - amount,
            list_amount=entry.amount - amount,
            chip_seconds=entry.chip_seconds - chip_seconds,
        )
        if found.amount or found.chip_seconds:
            left[slot] = found
    return left


def parts_of(meter: Meter, start: int, end: int) -> Iterator[tuple[LedgerSlot, PriceStretch]]:
    """The priced parts of [start, end), each within one UTC hour, at one price, for one who is
    charged."""
    for left, right, whose in meter.pieces(start, end):
        for cut in meter.cuts:
            a, b = max(left, cut.start), min(right, cut.end)
            if cut.price is None or a >= b:
                continue
            listed = None if cut.listed is None else cut.listed.per_chip_hour
            for hour, first, last in _hours(a, b):
                slot = LedgerSlot(hour, cut.price.id, whose.since, listed)
                yield slot, replace(cut, start=first, end=last)


def _hours(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """[start, end) by UTC hours: (the hour's first second, start, end)."""
    edges = [start, *range(floor_to(start, HOUR) + HOUR, end, HOUR), end]
    for first, last in pairwise(edges):
        yield floor_to(first, HOUR), first, last


def _together(first: LedgerEntry, second: LedgerEntry) -> LedgerEntry:
    """One entry for two parts of a slot: a price that was in force, was not, and is again. Its
    period is that of both and of what lies between them, which is another entry's."""
    return replace(
        first,
        charge_end=second.charge_end,
        chip_seconds=first.chip_seconds + second.chip_seconds,
        amount=first.amount + second.amount,
        list_amount=_sum(first.list_amount, second.list_amount),
        vm_seconds=first.vm_seconds + second.vm_seconds,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def entries_to_post(
    usage_id: str, wanted: Mapping[LedgerSlot, LedgerEntry], posted: Mapping[LedgerSlot, PostedSlot]
) -> Iterator[LedgerEntry]:
    """The entries that bring the ledger from what it says to what it should say.

    Running twice yields nothing the second time; what ten missed ticks did not post, the eleventh
    does, to the same sum.
    """
    for slot in sorted(wanted.keys() | posted.keys(), key=_order):
        want, have = wanted.get(slot), posted.get(slot)
        if want is not None and have is None:
            yield want
        elif have is not None:
            yield from _adjustment(usage_id, slot, want, have)


def _order(slot: LedgerSlot) -> tuple[int, str, int, int]:
    return slot.hour, slot.price_id, slot.since, slot.list_price or 0


def _adjustment(
    usage_id: str, slot: LedgerSlot, want: LedgerEntry | None, have: PostedSlot
) -> Iterator[LedgerEntry]:
    amount = (want.amount if want else 0) - have.amount
    chip_seconds = (want.chip_seconds if want else 0) - have.chip_seconds
    vm_seconds = (want.vm_seconds if want else 0) - have.vm_seconds
    before = have.list_amount
    wanted = (want.list_amount if want else 0) if before is not None else None
    listed = None if wanted is None or before is None else wanted - before
    if amount == chip_seconds == vm_seconds == 0 and not listed:
        return
    yield LedgerEntry(
        usage_id=usage_id,
        slot=slot,
        number=have.count,
        charge_start=want.charge_start if want else have.charge_start,
        charge_end=want.charge_end if want else have.charge_end,
        chip_seconds=chip_seconds,
        price=have.price,
        amount=amount,
        list_amount=listed,
        corrects=have.first_id,
        vm_seconds=vm_seconds,
    )
