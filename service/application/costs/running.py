"""The meters of what is billed at an instant, built once for all callers at that instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from service.domain.costs.dimensions import value_of
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter, Usage
from service.store.unit import Unit

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


class RunningMeters:
    """Meters, and the attributions of each node. Finds the meters that a filter may match without a
    look at all others."""

    def __init__(
        self, meters: Iterable[Meter], whose: Mapping[str, tuple[Attribution, ...]]
    ) -> None:
        self.meters = tuple(meters)
        self.whose = whose
        self._by_value: dict[str, Mapping[str, Sequence[Meter]]] = {}

    def find_matching(self, only: Only) -> Sequence[Meter]:
        """All meters of which some second may match; a few of them may not match."""
        found: Sequence[Meter] = self.meters
        for name, values in only.items():
            of_name = self._by_value.get(name)
            if of_name is None:
                of_name = self._by_value[name] = self._index_by(name)
            matching = {id(meter): meter for value in values for meter in of_name.get(value, ())}
            if len(matching) < len(found):
                found = tuple(matching.values())
        return found

    def _index_by(self, name: str) -> Mapping[str, Sequence[Meter]]:
        found: dict[str, list[Meter]] = defaultdict(list)
        for meter in self.meters:
            usage = meter.usage
            owners = self.whose.get(usage.node_id) or (Attribution(usage.node_id),)
            for value in {value_of(name, usage, owner) for owner in owners}:
                found[value].append(meter)
        return found
