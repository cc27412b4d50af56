"""Which usage is covered by which commitment, in whole chips, at every second. Pure.

Google serves a commitment hour by hour from all matching usage; here it is served second by second,
so that every window has one answer. Of several commitments the earliest is served first, and each
from all matching usage in proportion to its chips.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from service.domain.commitments.commitment import Commitment

Rank = tuple[str, int, str]
"""Node id, number of the slice, and id of the usage: the order among equal remainders."""

Shares = tuple[tuple[str, int], ...]
"""Commitment ids with the chips that each covers, in the order in which they are served."""


class UsageSpan(NamedTuple):
    """On-demand usage of one price region: `chips` in the whole seconds [start, end). No two spans
    of one `rank` overlap."""

    rank: Rank
    project: str
    region: str
    generation: str
    chips: int
    start: int
    end: int


class CoveredStretch(NamedTuple):
    """Seconds [start, end) of a span in which `shares` cover it, and nothing changes."""

    start: int
    end: int
    shares: Shares


Served = Mapping[Rank, Sequence[CoveredStretch]]
"""What is covered of each usage, by time; nothing where there is no stretch."""


def allocate(spans: Iterable[UsageSpan], commitments: Iterable[Commitment]) -> Served:
    """Cover the usage by the commitments, which all count.

    Costs O(n log n) for n spans while the first commitment covers all usage or there is none, since
    a change touches only the span that changes. Otherwise each change touches all spans that run.
    """
    pools: dict[tuple[str, str], tuple[list[UsageSpan], list[Commitment]]] = defaultdict(
        lambda: ([], [])
    )
    for one in commitments:
        pools[one.region, one.generation][1].append(one)
    for span in spans:
        if (span.region, span.generation) in pools and span.start < span.end:
            pools[span.region, span.generation][0].append(span)
    served: dict[Rank, list[CoveredStretch]] = {}
    for its_spans, its_commitments in pools.values():
        served |= _Sweep().over(its_spans, its_commitments)
    return served


class _Sweep:
    """The state between two changes of one pool: which spans run, and what covers each."""

    def __init__(self) -> None:
        self._running: dict[Rank, UsageSpan] = {}
        self._in_order: list[UsageSpan] = []
        """The same by rank."""
        self._chips: Counter[str] = Counter()
        """Chips that run, by project."""
        self._committed: list[Commitment] = []
        self._open: dict[Rank, Shares] = {}
        self._since: dict[Rank, int] = {}
        """What covers each span now, and since when."""
        self._alone: str | None = None
        """The commitment that covers everything; empty where nothing is covered, None where
        neither holds."""
        self._found: defaultdict[Rank, list[CoveredStretch]] = defaultdict(list)

    def over(
        self, spans: Iterable[UsageSpan], commitments: Iterable[Commitment]
    ) -> Mapping[Rank, list[CoveredStretch]]:
        """Go through all instants at which something changes."""
        ends: defaultdict[int, list[UsageSpan | Commitment]] = defaultdict(list)
        starts: defaultdict[int, list[UsageSpan | Commitment]] = defaultdict(list)
        every: list[UsageSpan | Commitment] = [*spans, *commitments]
        for one in every:
            starts[one.start].append(one)
            ends[one.end].append(one)
        for instant in sorted(starts.keys() | ends.keys()):
            changed = self._change(ends.get(instant, ()), starts.get(instant, ()))
            self._settle(instant, changed)
        return self._found

    def _change(
        self, ended: Iterable[UsageSpan | Commitment], begun: Iterable[UsageSpan | Commitment]
    ) -> set[Rank]:
        """Take in what ends and what begins; answers the usage that did."""
        changed: set[Rank] = set()
        for one in ended:
            if isinstance(one, UsageSpan):
                del self._running[one.rank]
                del self._in_order[bisect_left(self._in_order, one)]
                self._chips[one.project] -= one.chips
                changed.add(one.rank)
            else:
                self._committed.remove(one)
        for one in begun:
            if isinstance(one, UsageSpan):
                self._running[one.rank] = one
                insort(self._in_order, one)
                self._chips[one.project] += one.chips
                changed.add(one.rank)
            else:
                self._committed.append(one)
        self._committed.sort(key=lambda one: (one.start, one.id))
        return changed

    def _settle(self, instant: int, changed: set[Rank]) -> None:
        """Open and close stretches where the shares are others from this instant on."""
        alone = self._covers_alone()
        everywhere = alone is None or alone != self._alone
        self._alone = alone
        shares = self._shares(alone, self._running if everywhere else changed)
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

    def _covers_alone(self) -> str | None:
        if not self._committed:
            return ""
        first = self._committed[0]
        total = self._chips.total()
        within = total if not first.project else self._chips[first.project]
        return first.id if within == total <= first.chips else None

    def _shares(self, alone: str | None, changed: Iterable[Rank]) -> Mapping[Rank, Shares]:
        if alone is None:
            return shares_of(self._in_order, self._committed)
        if not alone:
            return {}
        here = (self._running[rank] for rank in changed if rank in self._running)
        return {span.rank: ((alone, span.chips),) for span in here}


def shares_of(spans: Sequence[UsageSpan], committed: Iterable[Commitment]) -> Mapping[Rank, Shares]:
    """What covers the spans that run at one instant, by rank; both are in their order. Nothing is
    said of a span that is not covered."""
    left = [span.chips for span in spans]
    found: list[Shares] = [()] * len(spans)
    for one in committed:
        wanted = [
            chips if one.serves(span.project) else 0
            for span, chips in zip(spans, left, strict=True)
        ]
        for number, chips in enumerate(proportional(one.chips, wanted)):
            if chips:
                left[number] -= chips
                found[number] += ((one.id, chips),)
    return {span.rank: shares for span, shares in zip(spans, found, strict=True) if shares}


def proportional(chips: int, wanted: Sequence[int]) -> Sequence[int]:
    """`chips` divided in proportion to what is wanted, in whole chips that sum to all of them, or
    to all that is wanted. The largest remainders are rounded up, of equal ones the first."""
    total = sum(wanted)
    if total <= chips:
        return wanted
    found = [chips * want // total for want in wanted]
    rests = [chips * want % total for want in wanted]
    by_rest = sorted(range(len(wanted)), key=rests.__getitem__, reverse=True)  # stable
    for number in by_rest[: chips - sum(found)]:
        found[number] += 1
    return found
