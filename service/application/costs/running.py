"""The meters of what is billed at an instant, built once for all callers at that instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from service.domain.costs.dimensions import value_of
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import lines_of, make_meters
from service.domain.metering.meter import Meter, Usage
from service.domain.pricing.price_book import PriceBook
from service.store.unit import Unit

Group = tuple[str, ...]
"""The value of each dimension that costs are grouped by."""

Only = Mapping[str, Sequence[str]]
"""The values that count, by dimension."""


def read_running(unit: Unit, now: int) -> tuple[Usage, ...]:
    """The usage that is billed now, including reservations, and all usage that ran in the
    reservations since the end of their posted part."""
    bought = unit.usage.list_purchases(now)
    found = {usage.id: usage for usage in unit.usage.list_open()}
    if bought:
        since = min(usage.posted_until for usage in bought)
        found |= {usage.id: usage for usage in unit.usage.list_reserved(since, now)}
    return (*found.values(), *bought)


class TailGroups(NamedTuple):
    """The lines whose unposted part counts in a report, by their positions: `steady` lines have one
    payer since the end of their posted part, and so one group; `others` have several."""

    steady: Sequence[tuple[int, Group]]
    others: Sequence[int]


class BilledLines:
    """The line items of usages, and the attributions of each node. They are the same at many
    instants. Finds the lines that a filter may match without a look at all others."""

    def __init__(
        self, usages: Iterable[Usage], whose: Mapping[str, tuple[Attribution, ...]]
    ) -> None:
        usages = tuple(usages)
        nodes = [line for usage in usages if not usage.is_purchase for line in lines_of(usage)]
        # Reservations come last, as in `make_meters`.
        self.lines = (*nodes, *(usage for usage in usages if usage.is_purchase))
        self.whose = whose
        self._by_value: dict[str, Mapping[str, Sequence[int]]] = {}

    def find_matching(self, only: Only) -> Sequence[int]:
        """The positions of all lines of which some second may match; a few of them may not."""
        found: Sequence[int] = range(len(self.lines))
        for name, values in only.items():
            of_name = self._by_value.get(name)
            if of_name is None:
                of_name = self._by_value[name] = self._index_by(name)
            matching = {position for value in values for position in of_name.get(value, ())}
            if len(matching) < len(found):
                found = sorted(matching)
        return found

    def group_tails(self, aggregate: Group, only: Only) -> TailGroups:
        """The lines whose unposted part counts, each with its group."""
        steady: list[tuple[int, Group]] = []
        others: list[int] = []
        for position in self.find_matching(only):
            usage = self.lines[position]
            latest = self._attributions_of(usage)[-1]
            if latest.since > max(usage.start, usage.posted_until):
                others.append(position)
            elif all(value_of(name, usage, latest) in values for name, values in only.items()):
                steady.append(
                    (position, tuple(value_of(name, usage, latest) for name in aggregate))
                )
        return TailGroups(steady, others)

    def _attributions_of(self, usage: Usage) -> Sequence[Attribution]:
        return self.whose.get(usage.node_id) or (Attribution(usage.node_id),)

    def _index_by(self, name: str) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for position, usage in enumerate(self.lines):
            for value in {value_of(name, usage, owner) for owner in self._attributions_of(usage)}:
                found[value].append(position)
        return found


class RunningMeters:
    """The meters of billed lines, in the same order, up to an instant."""

    def __init__(self, lines: BilledLines, book: PriceBook, until: int) -> None:
        self.lines = lines
        self.meters = tuple(make_meters(lines.lines, book, until, lines.whose))

    def find_matching(self, only: Only) -> Sequence[Meter]:
        """All meters of which some second may match; a few of them may not match."""
        return [self.meters[position] for position in self.lines.find_matching(only)]
