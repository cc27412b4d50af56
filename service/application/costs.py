"""What was spent: by calendar bucket and any grouping, exact to the nano-dollar, up to now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from service.domain.clock import Clock
from service.domain.errors import Rejected
from service.domain.metering import Meter, Usage
from service.domain.window import (
    Granularity,
    Window,
    buckets,
    is_whole_utc_days,
    parse_window,
    zone_of,
)
from service.domain.zones import region_of
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

Group = tuple[str, ...]
"""The value of each dimension that is grouped by."""

_OF_USAGE: Mapping[str, Callable[[Usage], str]] = {
    "project": lambda usage: usage.project,
    "team": lambda usage: usage.team,
    "owner": lambda usage: usage.owner,
    "job": lambda _: "",
    "node": lambda usage: usage.node_id,
    "generation": lambda usage: usage.sku.generation,
    "accelerator_type": lambda usage: usage.accelerator_type,
    "provisioning_model": lambda usage: usage.sku.model,
    "zone": lambda usage: usage.zone,
    "region": lambda usage: usage.sku.region,
    "activity": lambda _: "unknown",
}
DIMENSIONS = tuple(_OF_USAGE)
_NOT_IN_ROLLUP = frozenset({"node", "activity"})
_COLUMN = {"provisioning_model": "model", "region": "zone"}
_SHOWN = {"model": "provisioning_model"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a window, what to group by, how long a bucket is, and which rows count.

    `only` maps a dimension to the values that count; any of them does.
    """

    window: str = "7d"
    aggregate: tuple[str, ...] = ()
    step: Granularity = Granularity.DAY
    tz: str = "UTC"
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CostRow:
    """One bucket of one group: nano-dollars and chip-seconds."""

    bucket: Window
    group: Group
    cost: int
    chip_seconds: int


@dataclass(frozen=True, slots=True)
class CostReport:
    """The rows, by bucket and group; `total` is their sum, exactly.

    `estimated` says that some of it is still running; `unpriced_seconds` were used at a price that
    nobody knows, and are in no figure.
    """

    window: Window
    aggregate: tuple[str, ...]
    rows: tuple[CostRow, ...]
    total: int
    chip_seconds: int
    as_of: int
    estimated: bool
    unpriced_seconds: int


class CostService:
    """Answers from the daily rollup where that is possible, from the usage itself otherwise; both
    come to the same figures."""

    def __init__(self, units: Units, prices: PriceShelf, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock

    def report(self, question: Question) -> CostReport:
        """The costs that are asked for. Raises Rejected where the question makes no sense."""
        check_dimensions((*question.aggregate, *question.only))
        now, zone = self._clock(), zone_of(question.tz)
        asked = parse_window(question.window, zone, now)
        window = Window(asked.start, max(asked.start, min(asked.end, now)))
        parts = list(buckets(window, question.step, zone))
        by_rollup = (
            question.step is not Granularity.HOUR
            and is_whole_utc_days(window, zone)
            and (asked.end >= now or is_whole_utc_days(Window(asked.end, asked.end), zone))
            and all(map(_is_in_rollup, (*question.aggregate, *question.only)))
        )
        with self._units.reading() as unit:
            book = self._prices.book(unit)
            tally = _Tally(question, parts, _Labels(unit, (*question.aggregate, *question.only)))
            if by_rollup:
                tally.add_posted(unit)
                intervals: Iterable[Usage] = unit.usage.open()
                for usage in unit.usage.unpriced(window.start, window.end):
                    tally.add_unpriced(usage, Meter(usage, book, now), window)
            else:
                intervals = unit.usage.overlapping(window.start, window.end)
            for usage in intervals:
                tally.add_usage(usage, Meter(usage, book, now), unposted_only=by_rollup)
        return tally.report(window, now)


def check_dimensions(names: Iterable[str]) -> None:
    """Raise Rejected, with those that exist, for a dimension that does not."""
    for name in names:
        if name not in _OF_USAGE and not (name.startswith("label:") and len(name) > 6):
            raise Rejected(
                f"{name[:80]!r} is not something costs can be grouped by",
                field="aggregate",
                dimensions=[*DIMENSIONS, "label:<key>"],
            )


def _is_in_rollup(name: str) -> bool:
    return name not in _NOT_IN_ROLLUP and not name.startswith("label:")


class _Labels:
    """Values of the labels that are asked for, by node; read once a question."""

    def __init__(self, unit: Unit, names: Iterable[str]) -> None:
        keys = {name.partition(":")[2] for name in names if name.startswith("label:")}
        self._values = {key: unit.nodes.with_label(key) for key in keys}

    def value(self, name: str, usage: Usage) -> str:
        """What a usage counts as in that dimension; empty where it has no such label."""
        if name in _OF_USAGE:
            return _OF_USAGE[name](usage)
        return self._values[name.partition(":")[2]].get(usage.node_id, "")


class _Tally:
    """Sums by bucket and group."""

    def __init__(self, question: Question, parts: Sequence[Window], labels: _Labels) -> None:
        self._question = question
        self._parts = parts
        self._labels = labels
        self._cells: dict[tuple[int, Group], list[int]] = defaultdict(lambda: [0, 0])
        self._unpriced = 0
        self._estimated = False

    def add_posted(self, unit: Unit) -> None:
        """Add what the daily rollup holds. A region is asked for by its zones."""
        names, only = self._question.aggregate, dict(self._question.only)
        regions = only.pop("region", None)
        wanted = (*names, *(("zone",) if regions is not None else ()))
        columns = tuple(dict.fromkeys(_COLUMN.get(name, name) for name in wanted))
        rows = unit.costs.by_day(
            self._parts[0].start if self._parts else 0,
            self._parts[-1].end if self._parts else 0,
            columns,
            {_COLUMN.get(name, name): values for name, values in only.items()},
        )
        group_of = _grouping(names, columns)
        zone = columns.index("zone") if regions is not None else -1
        position = 0
        for day, values, amount, chip_seconds in rows:
            if regions is not None and region_of(values[zone]) not in regions:
                continue
            while day >= self._parts[position].end:
                position += 1
            self._add(position, group_of(values), amount, chip_seconds)

    def add_usage(self, usage: Usage, meter: Meter, *, unposted_only: bool) -> None:
        """Add what one interval cost in each bucket; all of it, or what is not posted yet."""
        if not self._counts(usage):
            return
        group = tuple(self._labels.value(name, usage) for name in self._question.aggregate)
        first = usage.posted_until if unposted_only else usage.start
        for position, part in enumerate(self._parts):
            start, end = max(first, part.start), min(meter.end, part.end)
            if start < end:
                seconds = meter.seconds(start, end, priced=True)
                self._unpriced += meter.seconds(start, end, priced=False)
                self._add(position, group, meter.charge(start, end), usage.chips * seconds)
        self._estimated = self._estimated or usage.end is None

    def add_unpriced(self, usage: Usage, meter: Meter, window: Window) -> None:
        """Count the seconds of an ended interval that the ledger had to leave out."""
        if self._counts(usage):
            self._unpriced += meter.seconds(window.start, window.end, priced=False)

    def report(self, window: Window, now: int) -> CostReport:
        """The rows in their order, and their sum."""
        rows = tuple(
            CostRow(self._parts[position], group, cost, chip_seconds)
            for (position, group), (cost, chip_seconds) in sorted(self._cells.items())
        )
        return CostReport(
            window=window,
            aggregate=self._question.aggregate,
            rows=rows,
            total=sum(row.cost for row in rows),
            chip_seconds=sum(row.chip_seconds for row in rows),
            as_of=now,
            estimated=self._estimated,
            unpriced_seconds=self._unpriced,
        )

    def _counts(self, usage: Usage) -> bool:
        wanted = self._question.only.items()
        return all(self._labels.value(name, usage) in values for name, values in wanted)

    def _add(self, position: int, group: Group, cost: int, chip_seconds: int) -> None:
        cell = self._cells[position, group]
        cell[0] += cost
        cell[1] += chip_seconds


def _grouping(names: Group, columns: Group) -> Callable[[Group], Group]:
    """How the group is made of the values of the rollup's columns."""
    if names == tuple(_SHOWN.get(column, column) for column in columns):
        return lambda values: values
    picks = [(columns.index(_COLUMN.get(name, name)), name == "region") for name in names]
    return lambda values: tuple(region_of(values[i]) if of else values[i] for i, of in picks)
