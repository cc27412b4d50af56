"""Usage and its cost: half-open seconds, integer nano-dollars, and one rounding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from service.domain.clock import HOUR
from service.domain.metering.attribution import Attribution, split_by_attribution
from service.domain.money import half_even
from service.domain.nodes.slices import WHOLE
from service.domain.pricing.price_book import PriceBook, PriceStretch, Sku, seconds_in, unpriced_in

CLOCK_TOLERANCE = 5
"""Seconds by which the cloud's clock and ours may differ, or by which a list may be stale."""


class Evidence(StrEnum):
    """How an end of usage is known."""

    OPERATION = "operation"
    """The cloud's own record of the operation that began or ended the usage: exact to a second."""

    AUDIT = "audit"
    """The cloud's audit log, which says when it took the node back: exact to the second."""

    OBSERVED = "observed"
    """A state change between two polls, at an unknown instant between them."""

    PURCHASE = "purchase"
    """A purchase: a reservation is paid for from its first second to its last."""

    UNSEEN = "unseen"
    """No poll saw the usage, and nothing rules it out: an upper bound, and wholly uncertain."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds [start, end) in which a node was billable, as far as is known.

    The outer bounds `start` and `end` are charged. The usage began at `start_hi` at the latest, and
    ended at `end_lo` at the earliest. `end` is None while the node runs. `slice` is the number of
    the slice; WHOLE for a node of one slice. `free` names the rule that makes the usage free.
    `posted_until` is the end of the part that is in the ledger; `unpriced_seconds` of it are
    missing there because no price is known. `dirty` says that the usage changed since it was
    posted. `vm` is the machine type of the user's own virtual machine that drives a legacy TPU
    Node, `vm_model` its provisioning model; both are empty if none was named. `version` is that of
    the stored row, 0 for an interval that was never stored; it detects concurrent writes.
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
        """The number of priced units: the chips, or one virtual machine."""
        return 1 if self.sku.is_vm else self.chips

    @property
    def is_purchase(self) -> bool:
        """Whether it is a reservation, which is paid even if it is not used."""
        return self.start_evidence is Evidence.PURCHASE

    @property
    def uncertain_seconds(self) -> int:
        """Charged seconds that may not have been used."""
        if self.end is None or self.end_lo is None:
            return self.start_hi - self.start
        return self.end - self.start - max(0, self.end_lo - self.start_hi)

    def is_open(self, now: int) -> bool:
        """Whether it continues after `now`: until an unknown end, or until a purchased end."""
        return self.end is None or self.end > now

    def end_as_of(self, now: int) -> int:
        """The end as of `now`; never before the start."""
        return max(self.start, now if self.end is None else min(self.end, max(now, self.start)))


RatedStretch = tuple[int, int, int]
"""Seconds [start, end) at one rate in nano-dollars an hour for each unit."""


def rate_paid(cuts: Iterable[PriceStretch]) -> tuple[RatedStretch, ...]:
    """The stretches for a meter at the paid price; without a known price, at 0."""
    return tuple((cut.start, cut.end, _paid_rate(cut)) for cut in cuts)


def charge_in(
    stretches: Iterable[RatedStretch], units: int, start: int, after: int, until: int
) -> int:
    """Nano-dollars that a meter charges for `units` units in [after, until): R(F(until)) -
    R(F(after)). The usage began at `start`. F is the cost since the start, R rounds it to the
    nano-dollar.

    This is the one rule by which usage is charged, in the ledger and in every list.
    """
    total = before = 0
    for first, end, rate in stretches:
        # Comparisons and no min or max: a list of nodes calls this for each, and took 6 % longer.
        begin = first if first > start else start  # noqa: FURB136 - see above
        if until > begin:
            total += rate * ((until if until < end else end) - begin)  # noqa: FURB136 - see above
        if after > begin:
            before += rate * ((after if after < end else end) - begin)  # noqa: FURB136 - see above
    return half_even(total * units, HOUR) - half_even(before * units, HOUR)


class Figures(NamedTuple):
    """Nano-dollars as paid and at list price, chip-seconds, and seconds without a known price."""

    cost: int
    list_cost: int
    chip_seconds: int
    unpriced_seconds: int


class Meter:
    """The exact cost of one usage: F is its cumulative cost since the start, R the one rounding.

    `charge(a, b) = R(F(b)) - R(F(a))`: however time is divided, the parts sum to the whole.
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
        self.end = usage.end_as_of(until)
        self._attributions = attributions or (Attribution(usage.node_id),)
        cuts: tuple[PriceStretch, ...] = ()
        if not usage.free:
            cuts = book.list_cuts(usage.sku, usage.start, self.end)
        if usage.is_purchase:  # unused capacity saves nothing
            cuts = tuple(replace(cut, listed=cut.price) for cut in cuts)
        self.cuts = cuts
        self._paid = rate_paid(cuts)
        self._is_priced = all(cut.price is not None for cut in cuts)
        self._is_at_list = all(cut.listed is None or cut.listed is cut.price for cut in cuts)
        self._figures: dict[tuple[int, int], Figures] = {}

    def charge_in(self, start: int, end: int) -> int:
        """Nano-dollars for the part of the usage in [start, end)."""
        return charge_in(self._paid, self.usage.units, self.usage.start, start, end)

    def list_charge_in(self, start: int, end: int) -> int:
        """Nano-dollars for the same part on demand at list price.

        If no list price is known, the paid price counts, so that no uncertain saving is shown.
        """
        if self._is_at_list:
            return self.charge_in(start, end)
        listed = tuple(
            (
                cut.start,
                cut.end,
                _paid_rate(cut)
                if cut.price is None or cut.listed is None
                else cut.listed.per_chip_hour,
            )
            for cut in self.cuts
        )
        return charge_in(listed, self.usage.units, self.usage.start, start, end)

    def figures_in(self, start: int, end: int) -> Figures:
        """All figures of [start, end), computed once."""
        found = self._figures.get((start, end))
        if found is None:
            found = self._figures[start, end] = Figures(
                self.charge_in(start, end),
                self.list_charge_in(start, end),
                self.chip_seconds_in(start, end),
                self.seconds_in(start, end, priced=False),
            )
        return found

    def total_charge(self) -> int:
        """Nano-dollars for the whole interval."""
        return charge_in(self._paid, self.usage.units, self.usage.start, self.usage.start, self.end)

    def seconds_in(self, start: int, end: int, *, priced: bool) -> int:
        """Seconds of [start, end) with a known price, or without one."""
        if self._is_priced:  # nearly always, and lists of many nodes ask for it
            if not priced or not self.cuts:
                return 0
            return max(0, min(end, self.cuts[-1].end) - max(start, self.cuts[0].start))
        if not priced:
            return unpriced_in(self.cuts, start, end)
        return seconds_in((cut for cut in self.cuts if cut.price is not None), start, end)

    def chip_seconds_in(self, start: int, end: int) -> int:
        """Chip-seconds of [start, end) with a known price."""
        return self.usage.chips * self.seconds_in(start, end, priced=True)

    def unpriced_seconds(self) -> int:
        """Seconds without a known price. Their cost is unknown, not zero."""
        return unpriced_in(self.cuts, self.usage.start, self.end)

    def total_uncertainty(self) -> int:
        """Nano-dollars for charged seconds that may not have been used."""
        return self.uncertainty_in(self.usage.start, self.end)

    def uncertainty_in(self, start: int, end: int) -> int:
        """The part of the uncertainty in [start, end)."""
        usage = self.usage
        start, end = max(start, usage.start), min(end, self.end)
        if start >= end:
            return 0
        sure_from = min(max(usage.start_hi, start), end)
        sure_until = min(max(self.end if usage.end_lo is None else usage.end_lo, start), end)
        return self.charge_in(start, end) - max(
            0, self.charge_in(sure_from, max(sure_from, sure_until))
        )

    @cached_property
    def tail(self) -> Figures:
        """The figures of what is not posted yet. Many reports of one instant share them."""
        return self.figures_in(min(self.usage.posted_until, self.end), self.end)

    def attributed_parts(self, start: int, end: int) -> Iterator[tuple[int, int, Attribution]]:
        """The parts of [start, end) within the usage, each with its attribution."""
        return split_by_attribution(
            self._attributions, max(start, self.usage.start), min(end, self.end)
        )


def _paid_rate(cut: PriceStretch) -> int:
    """Nano-dollars per chip-hour; 0 without a known price."""
    return 0 if cut.price is None else cut.price.per_chip_hour
