"""The covered part of each line of usage, in any window. Pure.

The ledger is unchanged: it has the cost without commitments. Amounts are integer nano-dollars,
quantities are chip-seconds. Each amount is `V(a, b) = R(b) - R(a)`, where R counts from the last
midnight or change of coverage, whichever is later. So adjacent windows, cut at any second, sum to
the whole window, and one day of usage is enough to compute the first second of a window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from service.domain.clock import DAY, HOUR, floor_to
from service.domain.commitments.allocation import (
    CoveredStretch,
    Rank,
    Shares,
    UsageSpan,
    allocate_usage,
)
from service.domain.commitments.commitment import Commitment, rate_of
from service.domain.metering.line_items import lines_of
from service.domain.metering.meter import Meter, Usage
from service.domain.money import half_even
from service.domain.pricing.price_book import ON_DEMAND, PriceBook
from service.domain.time_window import Window


@dataclass(frozen=True, slots=True)
class PricedCommitment:
    """A commitment with its rate in nano-dollars per chip-hour."""

    commitment: Commitment
    rate: int


class CoveredUsage(NamedTuple):
    """The usage that a commitment covers: its chip-seconds, its charge and its part of the fee.

    `avoided` is the charge without the commitment, `cost` is the part of the fee, in nano-dollars.
    """

    chip_seconds: int = 0
    avoided: int = 0
    cost: int = 0

    def plus(self, other: CoveredUsage) -> CoveredUsage:
        """The sum of both."""
        return CoveredUsage(self[0] + other[0], self[1] + other[1], self[2] + other[2])


NOTHING = CoveredUsage()


def total_of(parts: Iterable[CoveredUsage]) -> CoveredUsage:
    """The sum of all parts of the coverage of usage."""
    found = NOTHING
    for part in parts:
        found = found.plus(part)
    return found


def price_commitments(
    commitments: Iterable[Commitment], book: PriceBook
) -> tuple[tuple[PricedCommitment, ...], tuple[Commitment, ...]]:
    """The valid commitments with a known rate, which take part in coverage, and those without.

    Without a rate the cost of covered usage is unknown, so such a commitment covers nothing in any
    figure.
    """
    known, unknown = [], []
    for commitment in commitments:
        if commitment.withdrawn_at is None:
            rate = rate_of(commitment, book)
            if rate is None:
                unknown.append(commitment)
            else:
                known.append(PricedCommitment(commitment, rate))
    return tuple(known), tuple(unknown)


def required_since(start: int) -> int:
    """The instant since which usage must be known for the coverage from `start` on."""
    return floor_to(start, DAY)


class CoverageLine:
    """The on-demand usage of a node or of one of its slices, with its coverage."""

    def __init__(
        self, meter: Meter, stretches: Sequence[CoveredStretch], some: Sequence[PricedCommitment]
    ) -> None:
        """`some` are the priced commitments of its region and generation."""
        self.meter = meter
        self._stretches = stretches
        self._ends = [stretch.end for stretch in stretches]
        self._rates = {priced.commitment.id: priced.rate for priced in some}
        commitments = (priced.commitment for priced in some)
        self._served = tuple(
            _merge_windows(
                Window(commitment.start, commitment.end)
                for commitment in commitments
                if commitment.may_cover(meter.usage.project)
            )
        )

    def eligible_in(self, start: int, end: int) -> int:
        """Chip-seconds of [start, end) during the term of a commitment that may cover them."""
        return sum(
            self.meter.chip_seconds_in(max(start, window.start), min(end, window.end))
            for window in self._served
        )

    def covered_in(self, start: int, end: int) -> Mapping[str, CoveredUsage]:
        """The covered usage in [start, end), by commitment id."""
        found: defaultdict[str, CoveredUsage] = defaultdict(CoveredUsage)
        for number in range(bisect_right(self._ends, start), len(self._stretches)):
            stretch = self._stretches[number]
            if stretch.start >= end:
                break
            first, last = max(start, stretch.start), min(end, stretch.end)
            edges = [first, *range(floor_to(first, DAY) + DAY, last, DAY), last]
            for left, right in pairwise(edges):  # each part lies within one UTC day
                anchor = max(stretch.start, floor_to(left, DAY))
                for key, part in self._cover_part(stretch.shares, anchor, left, right):
                    found[key] = found[key].plus(part)
        return found

    def _cover_part(
        self, shares: Shares, anchor: int, start: int, end: int
    ) -> Iterator[tuple[str, CoveredUsage]]:
        """The covered usage in [start, end), by commitment id; amounts count from `anchor` on."""
        charged = [self.meter.charge_in(anchor, instant) for instant in (start, end)]
        chips, before = self.meter.usage.chips, [0, 0]
        together = 0
        for key, covering in shares:
            together += covering
            until = [half_even(amount * together, chips) for amount in charged]
            paid = [
                half_even(covering * self._rates[key] * (instant - anchor), HOUR)
                for instant in (start, end)
            ]
            avoided = (until[1] - before[1]) - (until[0] - before[0])
            yield key, CoveredUsage(covering * (end - start), avoided, paid[1] - paid[0])
            before = until


def _merge_windows(windows: Iterable[Window]) -> Iterator[Window]:
    """The same seconds in windows that do not overlap."""
    last: Window | None = None
    for window in sorted(windows, key=lambda window: (window.start, window.end)):
        if last is None or window.start > last.end:
            if last is not None:
                yield last
            last = window
        else:
            last = Window(last.start, max(last.end, window.end))
    if last is not None:
        yield last


def is_eligible(usage: Usage) -> bool:
    """Whether usage is eligible for coverage by commitments. It is on-demand capacity of a node."""
    return usage.sku.model == ON_DEMAND and not usage.is_purchase and not usage.sku.is_vm


def rank_of(usage: Usage) -> Rank:
    """The order of usage in its coverage among equal remainders: by node, slice and usage."""
    return usage.node_id, usage.slice, usage.id


def cover_usage(
    meters: Iterable[Meter], some: Sequence[PricedCommitment], since: int
) -> tuple[CoverageLine, ...]:
    """The coverage lines of all usage that commitments may cover.

    The meters are those of all usage with seconds from `since` on. Figures are right from the first
    midnight at or after `since` on.
    """
    of_pool: defaultdict[tuple[str, str], list[PricedCommitment]] = defaultdict(list)
    for each in some:
        commitment = each.commitment
        of_pool[commitment.region, commitment.generation].append(each)
    found = [
        meter
        for meter in meters
        if is_eligible(meter.usage)
        and (meter.usage.sku.region, meter.usage.sku.generation) in of_pool
    ]
    spans: list[UsageSpan] = []
    for meter in found:
        usage = meter.usage
        # Seconds without a price are in no figure.
        priced = (Window(cut.start, cut.end) for cut in meter.cuts if cut.price is not None)
        spans += [
            UsageSpan(
                rank_of(usage),
                usage.project,
                usage.sku.region,
                usage.sku.generation,
                usage.chips,
                max(since, window.start),
                window.end,
            )
            for window in _merge_windows(priced)
        ]
    served = allocate_usage(spans, (each.commitment for each in some))
    return tuple(
        CoverageLine(
            meter,
            served.get(rank_of(meter.usage), ()),
            of_pool[meter.usage.sku.region, meter.usage.sku.generation],
        )
        for meter in found
    )


def tpu_line(usage: Usage) -> Usage:
    """The line for the coverage of an interval: its TPU, not its machine."""
    return lines_of(usage)[0]
