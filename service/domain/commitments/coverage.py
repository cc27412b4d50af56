"""What of each line of usage is covered by commitments, in any window. Pure.

The ledger is unchanged: it says what usage costs without commitments. Amounts are integer
nano-dollars, quantities chip-seconds. `V(a, b) = R(b) - R(a)` for each amount, where R counts from
the last midnight or change of coverage, whichever is later: so adjacent windows, cut at any second,
sum to the whole window, and one day of usage is enough to work out the first second of a window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from service.domain.clock import DAY, HOUR, floor_to
from service.domain.commitments.allocation import CoveredStretch, Rank, Shares, UsageSpan, allocate
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
    """What a commitment covers of some usage: `chip_seconds`, what they were charged without it
    (`avoided`), and their part of the fee (`cost`)."""

    chip_seconds: int = 0
    avoided: int = 0
    cost: int = 0

    def plus(self, other: CoveredUsage) -> CoveredUsage:
        """Both together."""
        return CoveredUsage(self[0] + other[0], self[1] + other[1], self[2] + other[2])


NOTHING = CoveredUsage()


def total_of(parts: Iterable[CoveredUsage]) -> CoveredUsage:
    """All of these together."""
    found = NOTHING
    for part in parts:
        found = found.plus(part)
    return found


def priced(
    commitments: Iterable[Commitment], book: PriceBook
) -> tuple[tuple[PricedCommitment, ...], tuple[Commitment, ...]]:
    """The commitments that stand: those with a known rate, and the others. Without a rate nobody
    knows what covered usage costs, so a commitment without one covers nothing in any figure."""
    known, unknown = [], []
    for one in commitments:
        if one.withdrawn_at is None:
            rate = rate_of(one, book)
            if rate is None:
                unknown.append(one)
            else:
                known.append(PricedCommitment(one, rate))
    return tuple(known), tuple(unknown)


def since_of(start: int) -> int:
    """From when on usage has to be known for figures from `start` on."""
    return floor_to(start, DAY)


class CoverageLine:
    """The on-demand usage of a node, or of one of its slices, and what covers it."""

    def __init__(
        self, meter: Meter, stretches: Sequence[CoveredStretch], some: Sequence[PricedCommitment]
    ) -> None:
        """`some` are the priced commitments of its region and generation."""
        self.meter = meter
        self._stretches = stretches
        self._ends = [one.end for one in stretches]
        self._rates = {one.commitment.id: one.rate for one in some}
        self._served = tuple(
            _merged(
                Window(one.commitment.start, one.commitment.end)
                for one in some
                if one.commitment.serves(meter.usage.project)
            )
        )

    def eligible(self, start: int, end: int) -> int:
        """Chip-seconds of [start, end) in which a commitment that may cover them is in its term."""
        return sum(
            self.meter.chip_seconds(max(start, one.start), min(end, one.end))
            for one in self._served
        )

    def covered(self, start: int, end: int) -> Mapping[str, CoveredUsage]:
        """What is covered in [start, end), by commitment id."""
        found: defaultdict[str, CoveredUsage] = defaultdict(CoveredUsage)
        for number in range(bisect_right(self._ends, start), len(self._stretches)):
            stretch = self._stretches[number]
            if stretch.start >= end:
                break
            for anchor, left, right in _days(stretch, start, end):
                for key, part in self._part(stretch.shares, anchor, left, right):
                    found[key] = found[key].plus(part)
        return found

    def _part(
        self, shares: Shares, anchor: int, start: int, end: int
    ) -> Iterator[tuple[str, CoveredUsage]]:
        """What is covered in [start, end), by commitment; all of it counted from `anchor` on."""
        charged = [self.meter.charge(anchor, instant) for instant in (start, end)]
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


def _days(stretch: CoveredStretch, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a stretch in [start, end), each within one UTC day: (anchor, start, end)."""
    start, end = max(start, stretch.start), min(end, stretch.end)
    edges = [start, *range(floor_to(start, DAY) + DAY, end, DAY), end]
    for left, right in pairwise(edges):
        yield max(stretch.start, floor_to(left, DAY)), left, right


def _merged(windows: Iterable[Window]) -> Iterator[Window]:
    """The same seconds in windows that do not overlap."""
    last: Window | None = None
    for one in sorted(windows, key=lambda window: (window.start, window.end)):
        if last is None or one.start > last.end:
            if last is not None:
                yield last
            last = one
        else:
            last = Window(last.start, max(last.end, one.end))
    if last is not None:
        yield last


def is_eligible(usage: Usage) -> bool:
    """Whether a commitment may cover usage of that kind: on-demand capacity of a node."""
    return usage.sku.model == ON_DEMAND and not usage.is_purchase and not usage.sku.is_vm


def rank_of(usage: Usage) -> Rank:
    """The order of usage among equal remainders."""
    return usage.node_id, usage.slice, usage.id


def cover(
    meters: Iterable[Meter], some: Sequence[PricedCommitment], since: int
) -> tuple[CoverageLine, ...]:
    """The lines of the usage that commitments may cover. The meters are those of all usage with
    seconds from `since` on; figures are right from the first midnight after or at `since` on."""
    of_pool: defaultdict[tuple[str, str], list[PricedCommitment]] = defaultdict(list)
    for one in some:
        of_pool[one.commitment.region, one.commitment.generation].append(one)
    found = [
        meter
        for meter in meters
        if is_eligible(meter.usage)
        and (meter.usage.sku.region, meter.usage.sku.generation) in of_pool
    ]
    spans = (span for meter in found for span in _spans(meter, since))
    served = allocate(spans, (one.commitment for one in some))
    return tuple(
        CoverageLine(
            meter,
            served.get(rank_of(meter.usage), ()),
            of_pool[meter.usage.sku.region, meter.usage.sku.generation],
        )
        for meter in found
    )


def tpu_line(usage: Usage) -> Usage:
    """The line of an interval that a commitment may cover: the TPU's, not its machine's."""
    return lines_of(usage)[0]


def _spans(meter: Meter, since: int) -> Iterator[UsageSpan]:
    """The seconds with a known price: what has none is in no figure."""
    usage = meter.usage
    whole = (Window(cut.start, cut.end) for cut in meter.cuts if cut.price is not None)
    for one in _merged(whole):
        yield UsageSpan(
            rank_of(usage),
            usage.project,
            usage.sku.region,
            usage.sku.generation,
            usage.chips,
            max(since, one.start),
            one.end,
        )
