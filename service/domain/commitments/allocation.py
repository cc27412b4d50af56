"""Allocates usage to commitments in whole chips, at every second. Pure.

Google allocates hour by hour; this service allocates second by second, so that every window has one
answer. Of several commitments the earliest is served first. Each covers all matching usage in
proportion to its chips.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from service.domain.commitments.commitment import Commitment

Rank = tuple[str, int, str]
"""Node id, slice number and usage id: the order among equal remainders."""

Shares = tuple[tuple[str, int], ...]
"""Commitment ids with the chips that each covers, in the order of service."""


class UsageSpan(NamedTuple):
    """On-demand usage of one price region: `chips` in the whole seconds [start, end).

    Spans with the same `rank` do not overlap.
    """

    rank: Rank
    project: str
    region: str
    generation: str
    chips: int
    start: int
    end: int


class CoveredStretch(NamedTuple):
    """Seconds [start, end) of a span with constant `shares`."""

    start: int
    end: int
    shares: Shares


Served = Mapping[Rank, Sequence[CoveredStretch]]
"""The covered stretches of each usage, by time; the seconds between them are not covered."""


def allocate_usage(spans: Iterable[UsageSpan], commitments: Iterable[Commitment]) -> Served:
    """The allocation of all usage: its stretches that commitments cover; all given commitments
    count.

    Takes O(n log n) for n spans while the first commitment covers all usage or there is none: a
    change then touches only the span that changes. Otherwise each change touches all running spans.
    """
    pools: dict[tuple[str, str], tuple[list[UsageSpan], list[Commitment]]] = defaultdict(
        lambda: ([], [])
    )
    for commitment in commitments:
        pools[commitment.region, commitment.generation][1].append(commitment)
    for span in spans:
        if (span.region, span.generation) in pools and span.start < span.end:
            pools[span.region, span.generation][0].append(span)
    served: dict[Rank, list[CoveredStretch]] = {}
    for its_spans, its_commitments in pools.values():
        served |= _Sweep().find_stretches(its_spans, its_commitments)
    return served


class _Sweep:
    """The state between two changes of one pool: the running spans, and the shares of each."""

    def __init__(self) -> None:
        self._running: dict[Rank, UsageSpan] = {}
        self._in_order: list[UsageSpan] = []
        """The running spans, ordered by rank."""
        self._chips: Counter[str] = Counter()
        """Running chips by project."""
        self._committed: list[Commitment] = []
        self._open: dict[Rank, Shares] = {}
        self._since: dict[Rank, int] = {}
        """The present shares of each covered span, and since when."""
        self._alone: str | None = None
        """The commitment that covers all running spans.

        Empty if there is no commitment; None if coverage is partial or by several.
        """
        self._found: defaultdict[Rank, list[CoveredStretch]] = defaultdict(list)

    def find_stretches(
        self, spans: Iterable[UsageSpan], commitments: Iterable[Commitment]
    ) -> Mapping[Rank, list[CoveredStretch]]:
        """The covered stretches of all spans, by visiting each instant with a change."""
        ends: defaultdict[int, list[UsageSpan | Commitment]] = defaultdict(list)
        starts: defaultdict[int, list[UsageSpan | Commitment]] = defaultdict(list)
        every: list[UsageSpan | Commitment] = [*spans, *commitments]
        for item in every:
            starts[item.start].append(item)
            ends[item.end].append(item)
        for instant in sorted(starts.keys() | ends.keys()):
            changed = self._apply_changes(ends.get(instant, ()), starts.get(instant, ()))
            self._update_stretches(instant, changed)
        return self._found

    def _apply_changes(
        self, ended: Iterable[UsageSpan | Commitment], begun: Iterable[UsageSpan | Commitment]
    ) -> set[Rank]:
        """Apply ends and starts; returns the ranks of the spans among them."""
        changed: set[Rank] = set()
        for item in ended:
            if isinstance(item, UsageSpan):
                del self._running[item.rank]
                del self._in_order[bisect_left(self._in_order, item)]
                self._chips[item.project] -= item.chips
                changed.add(item.rank)
            else:
                self._committed.remove(item)
        for item in begun:
            if isinstance(item, UsageSpan):
                self._running[item.rank] = item
                insort(self._in_order, item)
                self._chips[item.project] += item.chips
                changed.add(item.rank)
            else:
                self._committed.append(item)
        self._committed.sort(key=lambda commitment: (commitment.start, commitment.id))
        return changed

    def _update_stretches(self, instant: int, changed: set[Rank]) -> None:
        """Open and close the stretches whose shares change at this instant."""
        alone: str | None = ""
        if self._committed:
            first, total = self._committed[0], self._chips.total()
            within = total if not first.project else self._chips[first.project]
            alone = first.id if within == total <= first.chips else None
        everywhere = alone is None or alone != self._alone
        self._alone = alone
        shares: Mapping[Rank, Shares] = {}
        if alone is None:
            shares = shares_of(self._in_order, self._committed)
        elif alone:
            ranks = self._running if everywhere else changed
            here = (self._running[rank] for rank in ranks if rank in self._running)
            shares = {span.rank: ((alone, span.chips),) for span in here}
        before = self._open
        others = [rank for rank, now in shares.items() if before.get(rank) != now]
        others += [
            rank for rank in (before.copy() if everywhere else changed) if rank not in shares
        ]
        for rank in others:
            if rank in before:
                stretch = CoveredStretch(self._since[rank], instant, before.pop(rank))
                self._found[rank].append(stretch)
            if rank in shares:
                before[rank], self._since[rank] = shares[rank], instant


def shares_of(spans: Sequence[UsageSpan], committed: Iterable[Commitment]) -> Mapping[Rank, Shares]:
    """The allocation of chips to the spans that run at one instant, by rank, without uncovered
    spans.

    Spans and commitments come in their order.
    """
    left = [span.chips for span in spans]
    found: list[Shares] = [()] * len(spans)
    for commitment in committed:
        wanted = [
            chips if commitment.may_cover(span.project) else 0
            for span, chips in zip(spans, left, strict=True)
        ]
        for number, chips in enumerate(divide_proportionally(commitment.chips, wanted)):
            if chips:
                left[number] -= chips
                found[number] += ((commitment.id, chips),)
    return {span.rank: shares for span, shares in zip(spans, found, strict=True) if shares}


def divide_proportionally(chips: int, wanted: Sequence[int]) -> Sequence[int]:
    """The allocation of `chips` in proportion to `wanted`, in whole chips.

    The result sums to `chips`, or to all that is wanted if that is less. The largest remainders are
    rounded up; of equal remainders the first.
    """
    total = sum(wanted)
    if total <= chips:
        return wanted
    found = [chips * want // total for want in wanted]
    rests = [chips * want % total for want in wanted]
    by_rest = sorted(range(len(wanted)), key=rests.__getitem__, reverse=True)  # stable
    for number in by_rest[: chips - sum(found)]:
        found[number] += 1
    return found
