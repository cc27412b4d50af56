"""The wanted entries of the ledger for usage, and the entries that are still to be posted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from service.domain.clock import HOUR, floor_to
from service.domain.metering.meter import Meter
from service.domain.pricing.price_book import PriceStretch


class LedgerSlot(NamedTuple):
    """The key of the entries of a usage.

    The parts are an hour (its first second), the price that is paid, the attribution (by its
    `since`), and the on-demand list price in nano-dollars per chip-hour.
    """

    hour: int
    price_id: str
    since: int
    list_price: int | None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An immutable line of the ledger: an amount for part of a usage at one price.

    A later entry for the same slot (`number` 1 and up) is an adjustment of the first entry, whose
    id is in `corrects`. `amount` is nano-dollars, `price` is nano-dollars per chip-hour.
    `list_amount` is the on-demand cost at list price; None if that is unknown. `vm_seconds` are the
    seconds of the user's own virtual machine, which has no chips.
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
        """A deterministic key, so that the database refuses to post the same entry twice."""
        hour, price_id, since, list_price = self.slot
        return f"{self.usage_id}/{hour}/{price_id}/{since}/{list_price}/{self.number}"


@dataclass(frozen=True, slots=True)
class PostedSlot:
    """The sums of the posted entries of one slot; `first_id` is the id of the first entry."""

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
    """The entries that the ledger should have for [start, end), by slot."""
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
            amount=meter.charge_in(part.start, part.end),
            list_amount=None if part.listed is None else meter.list_charge_in(part.start, part.end),
            vm_seconds=part.end - part.start if meter.usage.sku.is_vm else 0,
        )
        before = wanted.get(slot)
        if before is not None:
            # The price of the slot was in force, was not, and is again. The period of the entry
            # includes the time between both parts, which another entry charges.
            is_listed = before.list_amount is not None and entry.list_amount is not None
            entry = replace(
                before,
                charge_end=entry.charge_end,
                chip_seconds=before.chip_seconds + entry.chip_seconds,
                amount=before.amount + entry.amount,
                list_amount=(before.list_amount or 0) + (entry.list_amount or 0)
                if is_listed
                else None,
                vm_seconds=before.vm_seconds + entry.vm_seconds,
            )
        wanted[slot] = entry
    return wanted


def subtract_used(
    wanted: Mapping[LedgerSlot, LedgerEntry], used: Mapping[tuple[int, str], tuple[int, int]]
) -> dict[LedgerSlot, LedgerEntry]:
    """The entries of a reservation, less the charges of the nodes that ran in it.

    `used` is (nano-dollars, chip-seconds) by hour and price. Both together are the whole price.
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
    """The priced parts of [start, end) for ledger entries, each with one hour, price and
    attribution."""
    for left, right, whose in meter.attributed_parts(start, end):
        for cut in meter.cuts:
            a, b = max(left, cut.start), min(right, cut.end)
            if cut.price is None or a >= b:
                continue
            listed = None if cut.listed is None else cut.listed.per_chip_hour
            edges = [a, *range(floor_to(a, HOUR) + HOUR, b, HOUR), b]
            for first, last in pairwise(edges):
                slot = LedgerSlot(floor_to(first, HOUR), cut.price.id, whose.since, listed)
                yield slot, replace(cut, start=first, end=last)


def entries_to_post(
    usage_id: str, wanted: Mapping[LedgerSlot, LedgerEntry], posted: Mapping[LedgerSlot, PostedSlot]
) -> Iterator[LedgerEntry]:
    """The entries that bring the ledger from its posted entries to the wanted ones.

    A second run yields nothing. After missed ticks, the next tick posts the same sum.
    """
    slots = sorted(
        wanted.keys() | posted.keys(),
        key=lambda slot: (slot.hour, slot.price_id, slot.since, slot.list_price or 0),
    )
    for slot in slots:
        want, have = wanted.get(slot), posted.get(slot)
        if want is not None and have is None:
            yield want
        elif have is not None:
            yield from _adjust_slot(usage_id, slot, want, have)


def _adjust_slot(
    usage_id: str, slot: LedgerSlot, want: LedgerEntry | None, have: PostedSlot
) -> Iterator[LedgerEntry]:
    """The adjustment that brings a slot to the wanted entry; nothing if it is there already."""
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
