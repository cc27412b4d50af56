"""What is billed at an instant: its meters, built once for all who ask at that instant."""

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
    """What is billed now, reservations among it, with all that ran in these since the ledger has
    come to."""
    bought = unit.usage.purchases(now)
    found = {usage.id: usage for usage in unit.usage.open()}
    if bought:
        since = min(usage.posted_until for usage in bought)
        found |= {usage.id: usage for usage in unit.usage.reserved(since, now)}
    return (*found.values(), *bought)


class RunningMeters:
    """Meters, and whose each node is; finds those that a filter may let count without a look at
    all others."""

    def __init__(
        self, meters: Iterable[Meter], whose: Mapping[str, tuple[Attribution, ...]]
    ) -> None:
        self.meters = tuple(meters)
        self.whose = whose
        self._by_value: dict[str, Mapping[str, Sequence[Meter]]] = {}

    def among(self, only: Only) -> Sequence[Meter]:
        """All meters of which some second may match; a few of them may not."""
        found: Sequence[Meter] = self.meters
        for name, values in only.items():
            of_name = self._by_value.get(name)
            if of_name is None:
                of_name = self._by_value[name] = self._indexed(name)
            matching = {id(one): one for value in values for one in of_name.get(value, ())}
            if len(matching) < len(found):
                found = tuple(matching.values())
        return found

    def _indexed(self, name: str) -> Mapping[str, Sequence[Meter]]:
        found: dict[str, list[Meter]] = defaultdict(list)
        for meter in self.meters:
            usage = meter.usage
            owners = self.whose.get(usage.node_id) or (Attribution(usage.node_id),)
            for value in {value_of(name, usage, one) for one in owners}:
                found[value].append(meter)
        return found
