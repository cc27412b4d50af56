"""Sums of what was spent, by calendar bucket and by what is grouped by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.application.costs.activities import Activities
from service.domain.catalog.zones import region_of
from service.domain.costs.buckets import DaysAndHours, touched
from service.domain.costs.dimensions import ACTIVITY, label_key, value_of
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter, Usage
from service.domain.time_window import Window
from service.store.costs import FINE, Sums
from service.store.unit import Unit

Group = tuple[str, ...]
"""The value of each dimension that is grouped by."""

Only = Mapping[str, Sequence[str]]
"""The values that count, by dimension."""


Cells = tuple[tuple[int, Group, int, int, int], ...]
"""Positions of buckets, groups, nano-dollars, the same at list price, and chip-seconds."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """One bucket of one group: nano-dollars, the same on demand at list price, and chip-seconds.

    `uncertainty` is the part of `cost` that was charged for seconds which may not have been used.
    """

    bucket: Window
    group: Group
    cost: int
    list_cost: int
    chip_seconds: int
    uncertainty: int = 0


class CostTally:
    """Adds what the rollups hold and what usage comes to; `parts` are the buckets in order.

    `activities` are needed where the dimension `activity` is asked for: no rollup of the ledger has
    it, so all comes from usage then.
    """

    def __init__(
        self,
        aggregate: Group,
        only: Only,
        parts: Sequence[Window],
        activities: Activities | None = None,
    ) -> None:
        self._activities = activities
        self._aggregate = aggregate
        self._only = only
        self._parts = parts
        self._cells: dict[tuple[int, Group], list[int]] = defaultdict(lambda: [0] * 4)
        self.unpriced_seconds = 0
        self.uncertainty = 0
        self.estimated = False

    def add_posted(self, unit: Unit, edges: Sequence[int]) -> None:
        """Add what is posted: what the daily rollups hold, and of the ledger the hours at the
        `edges` of the buckets that are not midnights in UTC."""
        split = DaysAndHours(edges)
        reader = _Reader(unit, (*self._aggregate, *self._only))
        in_sql = {_COLUMN[name]: values for name, values in self._only.items() if name in _COLUMN}
        days = unit.costs.by_day(
            split.start, split.end, reader.columns, in_sql, at_once=len(self._parts) == 1
        )
        self._add_rows(reader, ((split.part_of(row[0]), 1, row) for row in days))
        hours = unit.costs.by_hour(sorted(split.moves), reader.columns, in_sql)
        self._add_rows(
            reader,
            ((one.position, one.sign, row) for row in hours for one in split.moves[row[0]]),
        )

    def cells(self) -> Cells:
        """What was added, by the position of its bucket and its group."""
        return tuple(
            (position, group, cost, listed, chips)
            for (position, group), (cost, listed, chips, _) in self._cells.items()
        )

    def add_cells(self, cells: Cells) -> None:
        """Add what another tally of the same buckets and dimensions found to be posted."""
        for position, group, cost, listed, chips in cells:
            cell = self._cells[position, group]
            cell[0] += cost
            cell[1] += listed
            cell[2] += chips

    def _add_rows(self, reader: _Reader, rows: Iterable[tuple[int, int, Sums]]) -> None:
        """Add rows, or take them away, by the position of their bucket and the sign."""
        checks = [
            (reader.of(name), frozenset(values))
            for name, values in self._only.items()
            if name not in _COLUMN
        ]
        group_of = reader.group(self._aggregate)
        for position, sign, (_, values, amount, chip_seconds, listed) in rows:
            if any(value(values) not in wanted for value, wanted in checks):
                continue
            cell = self._cells[position, group_of(values)]
            cell[0] += sign * amount
            cell[1] += sign * listed
            cell[2] += sign * chip_seconds

    def add_usage(self, meter: Meter, *, since: int) -> None:
        """Add what one interval cost in each bucket, from the instant `since` on."""
        for left, right, group in self._pieces(meter, since, meter.end):
            for position, start, end in touched(self._parts, left, right):
                cell = self._cells[position, group]
                figures = meter.figures(start, end)
                cell[0] += figures.cost
                cell[1] += figures.list_cost
                cell[2] += figures.chip_seconds
                self.unpriced_seconds += figures.unpriced_seconds

    def add_open(self, meter: Meter) -> None:
        """Take note of an interval that goes on, where some of it lies within the buckets."""
        if self.estimated or not self._parts or not meter.usage.is_open(meter.until):
            return
        start, end = self._parts[0].start, self._parts[-1].end
        self.estimated = any(left < right for left, right, _ in self._pieces(meter, start, end))

    def add_doubts(self, meter: Meter, *, posted_only: bool) -> None:
        """Add what is uncertain of an interval, and, of what is posted, what has no price: that was
        left out of the ledger and so is in no rollup."""
        usage = meter.usage
        doubtful = usage.uncertain_seconds > 0
        if not self._parts or not (doubtful or posted_only):
            return
        for left, right, group in self._pieces(meter, usage.start, meter.end):
            for position, start, end in touched(self._parts, left, right) if doubtful else ():
                uncertain = meter.uncertainty_in(start, end)
                self._cells[position, group][3] += uncertain
                self.uncertainty += uncertain
            if posted_only:
                start, end = max(left, self._parts[0].start), min(right, self._parts[-1].end)
                until = min(end, usage.posted_until)
                if start < until:
                    self.unpriced_seconds += meter.seconds(start, until, priced=False)

    def rows(self) -> tuple[CostRow, ...]:
        """All there is, by bucket and group; not what came to nothing at all, such as a record
        that was withdrawn."""
        return tuple(
            CostRow(self._parts[position], group, *figures)
            for (position, group), figures in sorted(self._cells.items())
            if any(figures)
        )

    def _pieces(self, meter: Meter, start: int, end: int) -> Iterator[tuple[int, int, Group]]:
        """What counts of [start, end) of an interval, cut wherever its group changes."""
        usage = meter.usage
        for left, right, whose in meter.pieces(start, end):
            for first, last, activity in self._cut(usage, left, right):
                values = _Values(usage, whose, activity)
                if all(values.of(name) in wanted for name, wanted in self._only.items()):
                    yield first, last, tuple(values.of(name) for name in self._aggregate)

    def _cut(self, usage: Usage, left: int, right: int) -> Iterable[tuple[int, int, str]]:
        if self._activities is None:
            return ((left, right, ""),)
        return self._activities.cut(usage, left, right)


@dataclass(frozen=True, slots=True)
class _Values:
    """A piece of usage: who pays for it, and what the node did."""

    usage: Usage
    whose: Attribution
    activity: str

    def of(self, name: str) -> str:
        """Its value in a dimension."""
        return self.activity if name == ACTIVITY else value_of(name, self.usage, self.whose)


_COLUMN = {
    "project": "project",
    "team": "team",
    "owner": "owner",
    "job": "job",
    "node": "node_id",
    "generation": "generation",
    "accelerator_type": "accelerator_type",
    "provisioning_model": "model",
    "zone": "zone",
}
"""Dimensions that a rollup has a column for; the others are told from one."""

Values = tuple[Any, ...]


class _Reader:
    """Tells the dimensions from the columns of a rollup that it asks for."""

    def __init__(self, unit: Unit, names: Group) -> None:
        wanted: list[str] = []
        for name in names:
            wanted += _columns_of(name)
        self.columns = tuple(dict.fromkeys(wanted))
        keys = [label_key(name) for name in names if label_key(name)]
        self._labels = unit.attributions.labelled(keys) if keys else {}

    def group(self, names: Group) -> Callable[[Values], Group]:
        """How the group is made of a row."""
        if tuple(_COLUMN.get(name) for name in names) == self.columns:
            return lambda values: values
        tellers = [self.of(name) for name in names]
        return lambda values: tuple(teller(values) for teller in tellers)

    def of(self, name: str) -> Callable[[Values], str]:
        """How one dimension is told from a row."""
        at = [self.columns.index(column) for column in _columns_of(name)]
        if name == "region":
            return lambda values: region_of(values[at[0]])
        if key := label_key(name):
            labels = self._labels
            return lambda values: labels.get((values[at[0]], values[at[1]]), {}).get(key, "")
        return lambda values: str(values[at[0]])


def _columns_of(name: str) -> tuple[str, ...]:
    if label_key(name):
        return FINE
    if name == "region":
        return ("zone",)
    return (_COLUMN[name],) if name in _COLUMN else ()
