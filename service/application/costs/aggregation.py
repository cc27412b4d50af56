"""Sums of costs by calendar bucket and by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from service.application.costs.activities import Activities
from service.application.costs.running import Group, Only, RunningMeters, TailGroups
from service.domain.catalog.zones import region_of
from service.domain.costs.buckets import DaysAndHours
from service.domain.costs.dimensions import ACTIVITY, label_key, value_of
from service.domain.metering.attribution import ALWAYS, Attribution
from service.domain.metering.meter import Figures, Meter, Usage
from service.domain.time_window import Window, split_by_parts
from service.store.costs import FINE, Sums
from service.store.unit import Unit

Cells = tuple[tuple[int, Group, int, int, int], ...]
"""Bucket positions, groups, nano-dollars, nano-dollars at list price, and chip-seconds."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """One group in one bucket: nano-dollars, nano-dollars on demand at list price, and
    chip-seconds.

    `uncertainty` is the part of `cost` for seconds that may not have been used.
    """

    bucket: Window
    group: Group
    cost: int
    list_cost: int
    chip_seconds: int
    uncertainty: int = 0


class CostTally:
    """Adds the rollups and the cost of usage; `parts` are the buckets in order.

    The dimension `activity` needs `activities`. No rollup has this dimension, so all costs come
    from usage then.
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
        """Add what is posted: the daily rollups, and from the ledger the hours at the `edges` of
        buckets that are not at midnight UTC."""
        split = DaysAndHours(edges)
        reader = _Reader(unit, (*self._aggregate, *self._only))
        in_sql = {_COLUMN[name]: values for name, values in self._only.items() if name in _COLUMN}
        if split.start < split.end:
            days = unit.costs.sum_by_day(
                split.start, split.end, reader.columns, in_sql, at_once=len(self._parts) == 1
            )
            self._add_rows(reader, ((split.part_of(row[0]), 1, row) for row in days))
        hours = unit.costs.iter_by_hour(sorted(split.moves), reader.columns, in_sql)
        self._add_rows(
            reader,
            ((move.position, move.sign, row) for row in hours for move in split.moves[row[0]]),
        )

    def to_cells(self) -> Cells:
        """The posted sums by bucket position and group."""
        return tuple(
            (position, group, cost, listed, chips)
            for (position, group), (cost, listed, chips, _) in self._cells.items()
        )

    def add_cells(self, cells: Cells) -> None:
        """Add the posted sums of another tally with the same buckets and dimensions."""
        for position, group, cost, listed, chips in cells:
            cell = self._cells[position, group]
            cell[0] += cost
            cell[1] += listed
            cell[2] += chips

    def _add_rows(self, reader: _Reader, rows: Iterable[tuple[int, int, Sums]]) -> None:
        """Add or subtract rows, by the position of their bucket and the sign."""
        checks = [
            (reader.getter_of(name), frozenset(values))
            for name, values in self._only.items()
            if name not in _COLUMN
        ]
        group_of = reader.group_getter(self._aggregate)
        for position, sign, (_, values, amount, chip_seconds, listed) in rows:
            if any(value(values) not in wanted for value, wanted in checks):
                continue
            cell = self._cells[position, group_of(values)]
            cell[0] += sign * amount
            cell[1] += sign * listed
            cell[2] += sign * chip_seconds

    def add_usage(self, meter: Meter, *, since: int) -> None:
        """Add what one interval cost in each bucket, from the instant `since` on."""
        for left, right, group in self._iter_pieces(meter, since, meter.end):
            for position, start, end in split_by_parts(self._parts, left, right):
                self._add_figures(position, group, meter.figures_in(start, end))

    def add_tails(self, running: RunningMeters, groups: TailGroups) -> None:
        """Add what running usage cost since the end of its posted part. This cost mostly lies in
        the last bucket, so it is computed once for all reports."""
        if not self._parts:
            return
        last, at = self._parts[-1], len(self._parts) - 1
        for position, group in groups.steady:
            meter = running.meters[position]
            usage = meter.usage
            if last.start <= max(usage.start, usage.posted_until) and meter.end <= last.end:
                self._add_figures(at, group, meter.tail)
            elif usage.posted_until < last.end:
                self.add_usage(meter, since=usage.posted_until)
        for position in groups.others:
            meter = running.meters[position]
            self.add_usage(meter, since=meter.usage.posted_until)

    def extend_to(self, parts: Sequence[Window]) -> None:
        """From now on, count in buckets of which the last ends later, or that are one more."""
        self._parts = parts

    def _add_figures(self, position: int, group: Group, figures: Figures) -> None:
        cell = self._cells[position, group]
        cost, list_cost, chip_seconds, unpriced_seconds = figures
        cell[0] += cost
        cell[1] += list_cost
        cell[2] += chip_seconds
        self.unpriced_seconds += unpriced_seconds

    def add_open(self, meter: Meter) -> None:
        """Set `estimated` if the interval is open and overlaps the buckets."""
        if self.estimated or not self._parts or not meter.usage.is_open(meter.until):
            return
        start, end = self._parts[0].start, self._parts[-1].end
        self.estimated = any(
            left < right for left, right, _ in self._iter_pieces(meter, start, end)
        )

    def add_doubts(self, meter: Meter, *, posted_only: bool, since: int = ALWAYS) -> None:
        """Add the uncertainty of an interval from the instant `since` on. With `posted_only`, add
        its posted seconds without a price too: they are in no rollup, because the ledger leaves
        them out."""
        usage = meter.usage
        doubtful = usage.uncertain_seconds > 0
        if not self._parts or not (doubtful or posted_only):
            return
        for left, right, group in self._iter_pieces(meter, max(since, usage.start), meter.end):
            for position, start, end in (
                split_by_parts(self._parts, left, right) if doubtful else ()
            ):
                uncertain = meter.uncertainty_in(start, end)
                self._cells[position, group][3] += uncertain
                self.uncertainty += uncertain
            if posted_only:
                start, end = max(left, self._parts[0].start), min(right, self._parts[-1].end)
                until = min(end, usage.posted_until)
                if start < until:
                    self.unpriced_seconds += meter.seconds_in(start, until, priced=False)

    def list_rows(self) -> tuple[CostRow, ...]:
        """All rows by bucket and group, without rows that are zero throughout, such as a withdrawn
        record."""
        return tuple(
            CostRow(self._parts[position], group, *figures)
            for (position, group), figures in sorted(self._cells.items())
            if any(figures)
        )

    def _iter_pieces(self, meter: Meter, start: int, end: int) -> Iterator[tuple[int, int, Group]]:
        """The pieces of [start, end) of an interval that count, cut wherever the group changes."""
        usage = meter.usage
        for left, right, whose in meter.attributed_parts(start, end):
            cuts: Iterable[tuple[int, int, str]] = ((left, right, ""),)
            if self._activities is not None:
                cuts = self._activities.cut_usage(usage, left, right)
            for first, last, activity in cuts:
                values = _Values(usage, whose, activity)
                if all(values.value_in(name) in wanted for name, wanted in self._only.items()):
                    yield first, last, tuple(values.value_in(name) for name in self._aggregate)


class _Values(NamedTuple):
    """A piece of usage: who pays for it, and what the node did."""

    usage: Usage
    whose: Attribution
    activity: str

    def value_in(self, name: str) -> str:
        """The value in a dimension."""
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
"""Dimensions that are a column of a rollup; other dimensions are derived from a column."""

Values = tuple[Any, ...]


class _Reader:
    """Derives the dimensions from the columns of a rollup that it asks for."""

    def __init__(self, unit: Unit, names: Group) -> None:
        wanted: list[str] = []
        for name in names:
            wanted += _columns_of(name)
        self.columns = tuple(dict.fromkeys(wanted))
        keys = [label_key(name) for name in names if label_key(name)]
        self._labels = unit.attributions.find_labels(keys) if keys else {}

    def group_getter(self, names: Group) -> Callable[[Values], Group]:
        """A function from a row to its group."""
        if tuple(_COLUMN.get(name) for name in names) == self.columns:
            return lambda values: values
        tellers = [self.getter_of(name) for name in names]
        return lambda values: tuple(teller(values) for teller in tellers)

    def getter_of(self, name: str) -> Callable[[Values], str]:
        """A function from a row to its value in one dimension."""
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
