"""Usage and what it costs: half-open seconds, integer nano-dollars, and one rounding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TypeGuard

from service.domain.clock import HOUR, floor_to
from service.domain.money import half_even
from service.domain.node import NodeState
from service.domain.pricing import Cut, PriceBook, Sku

FREE_IF_PREEMPTED_WITHIN = 60
"""Seconds after its creation in which a preempted TPU costs nothing: "You are not charged for TPUs
if they are preempted in the first minute after you create them" (Cloud TPU documentation,
preemptible TPUs)."""


WHOLE = -1
"""In place of the number of a slice: the usage is of the node as a whole."""

CLOCK_TOLERANCE = 5
"""Seconds by which the cloud's clock and ours may differ, or a list be stale, without doubt."""


class Evidence(StrEnum):
    """How an end of usage is known."""

    OPERATION = "operation"
    """The cloud's own record of the operation that began or ended it: exact to the second."""

    OBSERVED = "observed"
    """A state change seen between two looks: true somewhere in between."""

    UNSEEN = "unseen"
    """Nobody saw it, and nothing rules it out: charged as an upper bound, and wholly uncertain."""


def is_billable(state: str) -> bool:
    """Whether seconds in that state cost money: READY alone (Cloud TPU pricing page)."""
    return state == NodeState.READY


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds [start, end) in which a node was billable, as far as is known.

    What is charged are the outer bounds: `start` and `end`. The truth lies within: it began no
    later than `start_hi` and ended no sooner than `end_lo`. `end` is None while the node runs.
    `slice` is the number of the slice, WHOLE where the node is not made of several. `free` says by
    which rule it costs nothing. `posted_until` is how far the ledger has come,
    `unpriced_seconds` how many of them it had to leave out because no price is known, `dirty` that
    the belief changed since. Who is charged is copied here, so that renaming a team
    does not rename the past.
    """

    id: str
    node_id: str
    project: str
    owner: str
    team: str
    zone: str
    accelerator_type: str
    chips: int
    sku: Sku
    start: int
    start_hi: int
    start_evidence: Evidence
    end: int | None = None
    end_lo: int | None = None
    end_evidence: Evidence | None = None
    free: str = ""
    posted_until: int = 0
    unpriced_seconds: int = 0
    dirty: bool = False
    slice: int = WHOLE

    @property
    def uncertain_seconds(self) -> int:
        """Seconds that are charged but may not have been used."""
        if self.end is None or self.end_lo is None:
            return self.start_hi - self.start
        return self.end - self.start - max(0, self.end_lo - self.start_hi)

    def until(self, now: int) -> int:
        """Where it ends as of `now`; never before its start."""
        return max(self.start, now if self.end is None else min(self.end, max(now, self.start)))


@dataclass(frozen=True, slots=True)
class Entry:
    """An immutable line of the ledger: an amount for part of a usage at one price.

    Its slot is the hour and the price that it speaks of; a second entry for the same slot (`number`
    1 and up) is an adjustment of the first. `amount` is nano-dollars, `price` nano-dollars per
    chip-hour.
    """

    usage_id: str
    hour: int
    price_id: str
    number: int
    charge_start: int
    charge_end: int
    chip_seconds: int
    price: int
    amount: int

    @property
    def key(self) -> str:
        """Deterministic, so that posting the same thing twice is refused by the database."""
        return f"{self.usage_id}/{self.hour}/{self.price_id}/{self.number}"


@dataclass(frozen=True, slots=True)
class Posted:
    """What the ledger says of one slot so far."""

    count: int
    chip_seconds: int
    amount: int
    price: int
    charge_start: int
    charge_end: int


Slot = tuple[int, str]
"""An hour (its first second) and the id of a price."""


def begin(
    seen_before: int, first_ready: int, operation_ended: int | None
) -> tuple[int, int, Evidence]:
    """(start, start_hi, evidence) of usage whose READY was first seen at `first_ready`.

    The operation's end is the instant itself, unless READY was seen before it was over: operations
    have been seen to stay open long after the node was up. One that was over before the node was
    last seen down speaks of an earlier time.
    """
    if _lies_in(operation_ended, seen_before, first_ready):
        return operation_ended, operation_ended, Evidence.OPERATION
    return min(seen_before, first_ready), first_ready, Evidence.OBSERVED


def finish(
    last_ready: int, first_gone: int, operation_created: int | None
) -> tuple[int, int, Evidence]:
    """(end_lo, end, evidence) of usage last seen READY at `last_ready`, not so at `first_gone`.

    The operation that ended it (delete, stop) did so when it was accepted.
    """
    if _lies_in(operation_created, last_ready, first_gone):
        return operation_created, operation_created, Evidence.OPERATION
    return min(last_ready, first_gone), first_gone, Evidence.OBSERVED


def _lies_in(instant: int | None, earliest: int, latest: int) -> TypeGuard[int]:
    return instant is not None and earliest - CLOCK_TOLERANCE <= instant <= latest + CLOCK_TOLERANCE


def closed(usage: Usage, end_lo: int, end: int, evidence: Evidence) -> Usage:
    """The usage with its end; an end before the start leaves nothing to charge."""
    end = max(end, usage.start)
    end_lo = min(max(end_lo, usage.start), end)
    return replace(usage, end=end, end_lo=end_lo, end_evidence=evidence, dirty=True)


def forgiven(usage: Usage, created_at: int | None) -> Usage:
    """The usage of a node that was preempted: free when that was within its first minute.

    Where it may have been, but was seen too late to tell, all of it is charged and uncertain.
    """
    if created_at is None or usage.end is None or usage.end_lo is None:
        return usage
    if usage.end - created_at < FREE_IF_PREEMPTED_WITHIN:
        return replace(usage, free="preempted in its first minute", dirty=True)
    if usage.end_lo - created_at < FREE_IF_PREEMPTED_WITHIN:
        return replace(usage, start_hi=usage.end, end_lo=usage.end)
    return usage


class Meter:
    """The exact cost of one usage: F, its cumulative cost since the start, and R, its one rounding.

    `charge(a, b) = R(F(b)) - R(F(a))`: whatever way time is cut, the parts sum to the whole.
    """

    def __init__(self, usage: Usage, book: PriceBook, until: int) -> None:
        self.usage = usage
        self.end = usage.until(until)
        cuts: tuple[Cut, ...] = ()
        if not usage.free:
            cuts = book.cuts(usage.sku, usage.start, self.end)
        self.cuts = cuts

    def charge(self, start: int, end: int) -> int:
        """Nano-dollars for the part of the usage that lies in [start, end)."""
        return self._rounded(end) - self._rounded(start)

    def total(self) -> int:
        """Nano-dollars for all of it."""
        return self._rounded(self.end)

    def seconds(self, start: int, end: int, *, priced: bool) -> int:
        """Seconds of [start, end) for which a price is known, or is not."""
        return sum(
            max(0, min(end, cut.end) - max(start, cut.start))
            for cut in self.cuts
            if (cut.price is not None) is priced
        )

    def unpriced_seconds(self) -> int:
        """Seconds for which no price is known. They are not free: they are not known."""
        return self.seconds(self.usage.start, self.end, priced=False)

    def uncertainty(self) -> int:
        """Nano-dollars that are charged for seconds which may not have been used."""
        usage = self.usage
        sure_until = self.end if usage.end_lo is None else usage.end_lo
        return self.total() - max(0, self.charge(usage.start_hi, sure_until))

    def slots(self, start: int, end: int) -> Iterator[tuple[int, Cut]]:
        """The priced parts of [start, end), each within one UTC hour and at one price."""
        for cut in self.cuts:
            left, right = max(start, cut.start), min(end, cut.end)
            if cut.price is None or left >= right:
                continue
            edges = [left, *range(floor_to(left, HOUR) + HOUR, right, HOUR), right]
            for a, b in pairwise(edges):
                yield floor_to(a, HOUR), Cut(a, b, cut.price)

    def _rounded(self, until: int) -> int:
        total = 0
        for cut in self.cuts:
            seconds = min(until, cut.end) - cut.start
            if seconds > 0 and cut.price is not None:
                total += self.usage.chips * seconds * cut.price.per_chip_hour
        return half_even(total, HOUR)


def desired_entries(meter: Meter, start: int, end: int) -> dict[Slot, Entry]:
    """What the ledger should say of [start, end), by slot."""
    wanted: dict[Slot, Entry] = {}
    for hour, part in meter.slots(start, end):
        assert part.price is not None
        wanted[hour, part.price.id] = Entry(
            usage_id=meter.usage.id,
            hour=hour,
            price_id=part.price.id,
            number=0,
            charge_start=part.start,
            charge_end=part.end,
            chip_seconds=meter.usage.chips * (part.end - part.start),
            price=part.price.per_chip_hour,
            amount=meter.charge(part.start, part.end),
        )
    return wanted


def entries_to_post(
    usage_id: str, wanted: Mapping[Slot, Entry], posted: Mapping[Slot, Posted]
) -> Iterator[Entry]:
    """The entries that bring the ledger from what it says to what it should say.

    Running twice yields nothing the second time; what ten missed ticks did not post, the eleventh
    does, to the same sum.
    """
    for slot in sorted(wanted.keys() | posted.keys()):
        want, have = wanted.get(slot), posted.get(slot)
        if want is not None and have is None:
            yield want
        elif have is not None:
            yield from _adjustment(usage_id, slot, want, have)


def _adjustment(usage_id: str, slot: Slot, want: Entry | None, have: Posted) -> Iterator[Entry]:
    amount = (want.amount if want else 0) - have.amount
    chip_seconds = (want.chip_seconds if want else 0) - have.chip_seconds
    if amount == 0 and chip_seconds == 0:
        return
    yield Entry(
        usage_id=usage_id,
        hour=slot[0],
        price_id=slot[1],
        number=have.count,
        charge_start=want.charge_start if want else have.charge_start,
        charge_end=want.charge_end if want else have.charge_end,
        chip_seconds=chip_seconds,
        price=have.price,
        amount=amount,
    )
