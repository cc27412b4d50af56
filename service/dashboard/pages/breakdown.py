"""Costs broken down: a table by what they are grouped by and one by time, each with the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from service.dashboard.kit.amounts import Rounded, Saving, chip_hours, savings_of
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import count
from service.dashboard.kit.links import home_of_node
from service.dashboard.pages.spend_chart import share
from service.domain.clock import DAY
from service.domain.costs.dimensions import ACTIVITY, label_key
from service.domain.time_window import Granularity, Window, zone_of

SHOWN = 200
"""Rows of a table; what is left out is one row more, so that it still adds up."""

FINER = {
    Granularity.MONTH: Granularity.DAY,
    Granularity.WEEK: Granularity.DAY,
    Granularity.DAY: Granularity.HOUR,
}
_UNNAMED = {"team": "no team", "owner": "no owner", "job": "no job", "project": "no project"}


STEPS = {
    Granularity.HOUR: "by hour",
    Granularity.DAY: "by day",
    Granularity.WEEK: "by week",
    Granularity.MONTH: "by month",
    Granularity.ALL: "total",
}


@dataclass(frozen=True, slots=True)
class Value:
    """What a row is of, and where more is said of it; no address where nothing more is known."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class BreakdownRow:
    """One row in words; `share` is of the total, `lines` where its lines of the ledger are."""

    what: tuple[Value, ...]
    cost: Rounded
    listed: Rounded
    saved: Rounded
    chip_hours: str
    share: str
    lines: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that come to the total with `rest`, which sums those that are not shown."""

    key: str
    title: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[BreakdownRow, ...]
    rest: BreakdownRow | None
    total: BreakdownRow


@dataclass(slots=True)
class GroupCost:
    """Nano-dollars, the same on demand at list price, and chip-seconds."""

    cost: int = 0
    listed: int = 0
    chip_seconds: int = 0

    def add(self, cost: int, listed: int, chip_seconds: int) -> None:
        """Add one row of a report."""
        self.cost += cost
        self.listed += listed
        self.chip_seconds += chip_seconds


def title_of(dimension: str) -> str:
    """A dimension as people call it."""
    key = label_key(dimension)
    return f"label {key}" if key else dimension.replace("_", " ")


def by_group(
    asked: CostsAsked,
    sums: Mapping[tuple[str, ...], GroupCost],
    named: Callable[[Iterable[str]], Mapping[str, Value]],
) -> Table:
    """The groups, what costs most first; `named` tells the names and pages of nodes, and of
    reservations, by their ids."""
    ranked = sorted(sums.items(), key=lambda one: (-one[1].cost, one[0]))
    names = _names(asked, [group for group, _ in ranked[:SHOWN]], named)
    by = ", ".join(map(title_of, asked.aggregate))
    return _table(
        "group",
        f"By {by}" if by else "Total",
        "what cost most first" if len(ranked) <= SHOWN else f"the {SHOWN} that cost most",
        tuple(map(title_of, asked.aggregate)) or ("what",),
        [
            (_values(asked, group, names), _lines(asked, group, names))
            for group, _ in ranked[:SHOWN]
        ],
        [one for _, one in ranked],
    )


def by_time(asked: CostsAsked, sums: Mapping[Window, GroupCost]) -> Table:
    """The buckets, the latest first."""
    newest = sorted(sums.items(), key=lambda one: -one[0].start)
    step, zone = Granularity(asked.step), zone_of(asked.tz)
    finer = FINER.get(step, Granularity.ALL)
    return _table(
        "time",
        STEPS[step].capitalize(),
        "newest first" if len(newest) <= SHOWN else f"the latest {SHOWN}",
        (str(step),),
        [
            ((Value(_when(bucket, step, zone), asked.within(bucket, finer).page),), "")
            for bucket, _ in newest[:SHOWN]
        ],
        [one for _, one in newest],
    )


def _table(
    key: str,
    title: str,
    note: str,
    heads: tuple[str, ...],
    cells: Sequence[tuple[tuple[Value, ...], str]],
    sums: Sequence[GroupCost],
) -> Table:
    """A row for each of the cells, the other sums in one row, and the sum of them all."""
    whole, rest = _together(sums), _together(sums[len(cells) :])
    left_out = len(sums) - len(cells)
    shown = [*sums[: len(cells)], *([rest] if left_out else [])]
    amounts, total = savings_of([(one.cost, one.listed) for one in shown])
    return Table(
        key=key,
        title=title,
        note=note + (f" of {len(sums):,}" if left_out else ""),
        heads=heads,
        rows=tuple(
            _row(what, one, whole.cost, saving, lines)
            for (what, lines), one, saving in zip(cells, sums, amounts, strict=False)
        ),
        rest=_row((Value(f"{left_out:,} more", ""),), rest, whole.cost, amounts[-1])
        if left_out
        else None,
        total=_row((), whole, whole.cost, total),
    )


def _together(sums: Iterable[GroupCost]) -> GroupCost:
    whole = GroupCost()
    for one in sums:
        whole.add(one.cost, one.listed, one.chip_seconds)
    return whole


def _lines(asked: CostsAsked, group: Sequence[str], names: Mapping[str, Value]) -> str:
    """Where the lines of the ledger are that a row is the sum of; empty for more than a node, and
    for what a node did: lines are by the hour, and what it did cuts them."""
    if asked.aggregate != ("node",) or ACTIVITY in asked.to_question().only:
        return ""
    return asked.at(f"{_named(group[0], names).href}/ledger")


def _names(
    asked: CostsAsked,
    groups: Sequence[tuple[str, ...]],
    named: Callable[[Iterable[str]], Mapping[str, Value]],
) -> Mapping[str, Value]:
    if "node" not in asked.aggregate:
        return {}
    at = asked.aggregate.index("node")
    return named({group[at] for group in groups})


def _named(node_id: str, names: Mapping[str, Value]) -> Value:
    return names.get(node_id) or Value(node_id, home_of_node(node_id))


def _values(
    asked: CostsAsked, group: Sequence[str], names: Mapping[str, Value]
) -> tuple[Value, ...]:
    if not group:
        return (Value("everything", asked.by("team").page),)
    return tuple(
        _named(value, names)
        if name == "node"
        else Value(
            value or _UNNAMED.get(name, "(none)"),
            asked.into(name, value).page,
        )
        for name, value in zip(asked.aggregate, group, strict=True)
    )


def _when(bucket: Window, step: Granularity, zone: ZoneInfo) -> str:
    """A bucket by the clock and the calendar of its zone."""
    then = datetime.fromtimestamp(bucket.start, zone)
    day = f"{then:%a} {then.day} {then:%b %Y}"
    if step is Granularity.HOUR:
        return f"{day} {then:%H:%M %Z}"
    if step is Granularity.WEEK:
        days = -(-(bucket.end - bucket.start) // DAY)
        return f"{count(days, 'day')} from {day}"
    return f"{then:%B %Y}" if step is Granularity.MONTH else day


def _row(
    what: tuple[Value, ...], one: GroupCost, total: int, saving: Saving, lines: str = ""
) -> BreakdownRow:
    cost, listed, saved = saving
    return BreakdownRow(
        what=what,
        cost=cost,
        listed=listed,
        saved=saved,
        chip_hours=chip_hours(one.chip_seconds),
        share=share(one.cost, total),
        lines=lines,
    )
