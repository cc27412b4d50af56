"""Usage and what it costs: half-open seconds, integer nano-dollars, and one rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeGuard

from service.domain.clock import HOUR
from service.domain.metering.attribution import Attribution, pieces
from service.domain.money import half_even
from service.domain.nodes.slices import WHOLE
from service.domain.pricing.billing_rules import free_if_preempted_within
from service.domain.pricing.price_book import PriceBook, PriceStretch, Sku

CLOCK_TOLERANCE = 5
"""Seconds by which the cloud's clock and ours may differ, or a list be stale, without doubt."""


class Evidence(StrEnum):
    """How an end of usage is known."""

    OPERATION = "operation"
    """The cloud's own record of the operation that began or ended it: exact to the second."""

    AUDIT = "audit"
    """The cloud's audit log, which says when it took the node away: exact to the second."""

    OBSERVED = "observed"
    """A state change seen between two looks: true somewhere in between."""

    PURCHASE = "purchase"
    """What was bought: a reservation is paid for from its first second to its last."""

    UNSEEN = "unseen"
    """Nobody saw it, and nothing rules it out: charged as an upper bound, and wholly uncertain."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds [start, end) in which a node was billable, as far as is known.

    What is charged are the outer bounds: `start` and `end`. The truth lies within: it began no
    later than `start_hi` and ended no sooner than `end_lo`. `end` is None while the node runs.
    `slice` is the number of the slice, WHOLE where the node is not made of several. `free` says by
    which rule it costs nothing. `posted_until` is how far the ledger has come,
    `unpriced_seconds` how many of them it had to leave out because no price is known, `dirty` that
    the belief changed since. `vm` is the machine type of the user's own virtual machine that drives
    a legacy TPU Node, and `vm_model` how it is sold; both are empty where none was named.
    `version` is that of the stored row, 0 for an interval that was never stored: it guards each
    write against one that came between.
    """

    id: str
    node_id: str
    project: str
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
    vm: str = ""
    vm_model: str = ""
    version: int = field(default=0, compare=False)

    @property
    def units(self) -> int:
        """How many are priced: the chips, or the one virtual machine."""
        return 1 if self.sku.is_vm else self.chips

    @property
    def is_purchase(self) -> bool:
        """Whether it is a reservation, which nobody has to use for it to be paid."""
        return self.start_evidence is Evidence.PURCHASE

    @property
    def uncertain_seconds(self) -> int:
        """Seconds that are charged but may not have been used."""
        if self.end is None or self.end_lo is None:
            return self.start_hi - self.start
        return self.end - self.start - max(0, self.end_lo - self.start_hi)

    def is_open(self, now: int) -> bool:
        """Whether it goes on: nobody knows how long, or for as long as was bought."""
        return self.end is None or self.end > now

    def until(self, now: int) -> int:
        """Where it ends as of `now`; never before its start."""
        return max(self.start, now if self.end is None else min(self.end, max(now, self.start)))


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


FIRST_MINUTE = "preempted in its first minute"
"""In `Usage.free`: Google charges nothing for a TPU that it takes back so soon after its creation.
"""


class FirstMinuteWaiver(StrEnum):
    """Whether the rule of the first minute makes the usage of a placement free."""

    NONE = "none"
    POSSIBLE = "possible"
    """The preemption was seen too late to tell: all is charged, and wholly uncertain."""

    CERTAIN = "certain"


def waiver_of(lost_lo: int, lost_hi: int, created_at: int | None) -> FirstMinuteWaiver:
    """What the rule says of a node that was preempted in [lost_lo, lost_hi]. Nothing is waived
    where nobody knows when the node was created."""
    if created_at is None:
        return FirstMinuteWaiver.NONE
    free_within = free_if_preempted_within(lost_hi)
    if lost_hi - created_at < free_within:
        return FirstMinuteWaiver.CERTAIN
    return (
        FirstMinuteWaiver.POSSIBLE if lost_lo - created_at < free_within else FirstMinuteWaiver.NONE
    )


def waived(usage: Usage, waiver: FirstMinuteWaiver) -> Usage:
    """An interval that has ended, after the rule. Its end stays as it is known, so that better
    evidence can still be told from what contradicts it."""
    assert usage.end is not None
    match waiver:
        case FirstMinuteWaiver.CERTAIN:
            return replace(usage, free=FIRST_MINUTE, dirty=True)
        case FirstMinuteWaiver.POSSIBLE:
            return replace(usage, start_hi=usage.end)
        case FirstMinuteWaiver.NONE:
            return usage


def forgiven(usage: Usage, created_at: int | None) -> Usage:
    """The usage of a node whose preemption ended it, after the rule of the first minute."""
    if usage.end is None or usage.end_lo is None:
        return usage
    return waived(usage, waiver_of(usage.end_lo, usage.end, created_at))


def waived_with(
    last: Usage | None, waiver: FirstMinuteWaiver, intervals: Iterable[Usage]
) -> Iterator[Usage]:
    """The intervals of a placement besides its `last`, as far as the waiver changes them: the rule
    is about the node, so it waives all of its intervals or none."""
    for usage in intervals:
        if (last is None or usage.id != last.id) and usage.end is not None and not usage.free:
            after = waived(usage, waiver)
            if after != usage:
                yield after


class Figures(NamedTuple):
    """Nano-dollars as paid and at list price, chip-seconds, and seconds without a known price."""

    cost: int
    list_cost: int
    chip_seconds: int
    unpriced_seconds: int


class Meter:
    """The exact cost of one usage: F, its cumulative cost since the start, and R, its one rounding.

    `charge(a, b) = R(F(b)) - R(F(a))`: whatever way time is cut, the parts sum to the whole.
    """

    def __init__(
        self,
        usage: Usage,
        book: PriceBook,
        until: int,
        attributions: Sequence[Attribution] = (),
    ) -> None:
        self.usage = usage
        self.until = until
        self.end = usage.until(until)
        self._attributions = attributions or (Attribution(usage.node_id),)
        cuts: tuple[PriceStretch, ...] = ()
        if not usage.free:
            cuts = book.cuts(usage.sku, usage.start, self.end)
        if usage.is_purchase:  # what nobody used has saved nothing
            cuts = tuple(replace(cut, listed=cut.price) for cut in cuts)
        self.cuts = cuts
        self._figures: dict[tuple[int, int], Figures] = {}

    def charge(self, start: int, end: int) -> int:
        """Nano-dollars for the part of the usage that lies in [start, end)."""
        return self._rounded(end, _paid) - self._rounded(start, _paid)

    def list_charge(self, start: int, end: int) -> int:
        """Nano-dollars for the same on demand at list price; at what is paid where none is known,
        so that nothing is called saved that may not be."""
        return self._rounded(end, _listed) - self._rounded(start, _listed)

    def figures(self, start: int, end: int) -> Figures:
        """All figures of [start, end) at once, worked out the first time only."""
        found = self._figures.get((start, end))
        if found is None:
            found = self._figures[start, end] = Figures(
                self.charge(start, end),
                self.list_charge(start, end),
                self.chip_seconds(start, end),
                self.seconds(start, end, priced=False),
            )
        return found

    def total(self) -> int:
        """Nano-dollars for all of it."""
        return self._rounded(self.end, _paid)

    def seconds(self, start: int, end: int, *, priced: bool) -> int:
        """Seconds of [start, end) for which a price is known, or is not."""
        return sum(
            max(0, min(end, cut.end) - max(start, cut.start))
            for cut in self.cuts
            if (cut.price is not None) is priced
        )

    def chip_seconds(self, start: int, end: int) -> int:
        """Chip-seconds of [start, end) for which a price is known."""
        return self.usage.chips * self.seconds(start, end, priced=True)

    def unpriced_seconds(self) -> int:
        """Seconds for which no price is known. They are not free: they are not known."""
        return self.seconds(self.usage.start, self.end, priced=False)

    def uncertainty(self) -> int:
        """Nano-dollars that are charged for seconds which may not have been used."""
        return self.uncertainty_in(self.usage.start, self.end)

    def uncertainty_in(self, start: int, end: int) -> int:
        """The part of that which lies in [start, end)."""
        usage = self.usage
        start, end = max(start, usage.start), min(end, self.end)
        if start >= end:
            return 0
        sure_from = min(max(usage.start_hi, start), end)
        sure_until = min(max(self.end if usage.end_lo is None else usage.end_lo, start), end)
        return self.charge(start, end) - max(0, self.charge(sure_from, max(sure_from, sure_until)))

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, Attribution]]:
        """The parts of [start, end) that lie in the usage, by who is charged for them."""
        return pieces(self._attributions, max(start, self.usage.start), min(end, self.end))

    def _rounded(self, until: int, rate: Callable[[PriceStretch], int]) -> int:
        total = 0
        for cut in self.cuts:
            seconds = min(until, cut.end) - cut.start
            if seconds > 0:
                total += seconds * rate(cut)
        return half_even(total * self.usage.units, HOUR)


def _paid(cut: PriceStretch) -> int:
    """Nano-dollars per chip-hour; what has no price is in no figure."""
    return 0 if cut.price is None else cut.price.per_chip_hour


def _listed(cut: PriceStretch) -> int:
    if cut.price is None or cut.listed is None:
        return _paid(cut)
    return cut.listed.per_chip_hour
