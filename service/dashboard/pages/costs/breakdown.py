"""Costs broken down: one table by group and one table by time, each with its total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from service.dashboard.kit.amounts import Rounded, Saving, round_chip_hours, savings_of
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import format_count
from service.dashboard.kit.links import node_address
from service.dashboard.pages.costs.spend_chart import format_share
from service.domain.clock import DAY
from service.domain.costs.dimensions import ACTIVITY, label_key
from service.domain.time_window import Granularity, Window, zone_of

Group = tuple[str, ...]
"""The value of each dimension that costs are grouped by."""

SHOWN = 200
"""The most rows of a table. One row more sums the others, so that the table adds up."""

FINER = {
    Granularity.MONTH: Granularity.DAY,
    Granularity.WEEK: Granularity.DAY,
    Granularity.DAY: Granularity.HOUR,
}
UNNAMED = {"team": "no team", "owner": "no owner", "job": "no job", "project": "no project"}


STEPS = {
    Granularity.HOUR: "by hour",
    Granularity.DAY: "by day",
    Granularity.WEEK: "by week",
    Granularity.MONTH: "by month",
    Granularity.ALL: "total",
}


@dataclass(frozen=True, slots=True)
class Value:
    """The subject of a row, and the address of its page; no address if it has no page."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class BreakdownRow:
    """One row in words. `share` is the share of the total, `lines` the address of its ledger
    lines."""

    what: tuple[Value, ...]
    cost: Rounded
    listed: Rounded
    saved: Rounded
    chip_hours: Rounded
    share: str
    lines: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `rows` and `rest`, the sum of the rows that are not shown, add up to the total."""

    key: str
    title: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[BreakdownRow, ...]
    rest: BreakdownRow | None
    total: BreakdownRow


@dataclass(slots=True)
class GroupCost:
    """Cost in nano-dollars, the same on demand at list price, and chip-seconds."""

    cost: int = 0
    listed: int = 0
    chip_seconds: int = 0

    def add(self, cost: int, listed: int, chip_seconds: int) -> None:
        """Add one row of a report."""
        self.cost += cost
        self.listed += listed
        self.chip_seconds += chip_seconds


def dimension_title(dimension: str) -> str:
    """The name of a dimension for people."""
    key = label_key(dimension)
    return f"label {key}" if key else dimension.replace("_", " ")


def rank_groups(sums: Mapping[Group, GroupCost]) -> list[tuple[Group, GroupCost]]:
    """The groups with their sums, the highest cost first."""
    return sorted(sums.items(), key=lambda item: (-item[1].cost, item[0]))


def build_group_table(
    asked: CostsAsked,
    sums: Mapping[Group, GroupCost],
    names: Mapping[str, Value],
    known: Sequence[int] | None = None,
) -> Table:
    """The groups, the highest cost first. `names` has the names and pages of nodes, and of
    reservations, by their ids; `known` the costs as another table of the page rounds them."""
    ranked = rank_groups(sums)
    groups = [group for group, _ in ranked[:SHOWN]]
    # A row has ledger lines if it is one node. Lines are by the hour, and an activity cuts hours.
    has_lines = asked.aggregate == ("node",) and ACTIVITY not in asked.to_question().only
    by = ", ".join(map(dimension_title, asked.aggregate))
    return _build_table(
        _Caption(
            "group",
            f"By {by}" if by else "Total",
            "what cost most first" if len(ranked) <= SHOWN else f"the {SHOWN} that cost most",
            tuple(map(dimension_title, asked.aggregate)) or ("what",),
        ),
        [
            (
                link_values(asked, group, names),
                asked.at(f"{_link_node(group[0], names).href}/ledger") if has_lines else "",
            )
            for group in groups
        ],
        [cost for _, cost in ranked],
        known,
    )


def build_time_table(
    asked: CostsAsked, sums: Mapping[Window, GroupCost], known: Mapping[int, int] | None = None
) -> Table:
    """The buckets, the latest first. `known` has the costs by the start of a bucket, as another
    table of the page rounds them."""
    newest = sorted(sums.items(), key=lambda item: -item[0].start)
    step, zone = Granularity(asked.step), zone_of(asked.tz)
    finer = FINER.get(step, Granularity.ALL)
    return _build_table(
        _Caption(
            "time",
            STEPS[step].capitalize(),
            "newest first" if len(newest) <= SHOWN else f"the latest {SHOWN}",
            (str(step),),
        ),
        [
            (
                (Value(describe_bucket(bucket, step, zone), asked.narrow_to(bucket, finer).page),),
                "",
            )
            for bucket, _ in newest[:SHOWN]
        ],
        [cost for _, cost in newest],
        None if known is None else [known[bucket.start] for bucket, _ in newest],
    )


class _Caption(NamedTuple):
    """The key, title and note of a table, and the names of its first columns."""

    key: str
    title: str
    note: str
    heads: tuple[str, ...]


def _build_table(
    caption: _Caption,
    cells: Sequence[tuple[tuple[Value, ...], str]],
    sums: Sequence[GroupCost],
    known: Sequence[int] | None,
) -> Table:
    """The table of the subjects and ledger addresses in `cells`. `sums` has their costs in the same
    order, then those of the rows that are not shown; so has `known`, the rounded costs."""
    whole, rest = _add_up(sums), _add_up(sums[len(cells) :])
    left_out = len(sums) - len(cells)
    shown = [*sums[: len(cells)], *([rest] if left_out else [])]
    if known is not None:
        known = [*known[: len(cells)], *([sum(known[len(cells) :])] if left_out else [])]
    amounts, total = savings_of([(cost.cost, cost.listed) for cost in shown], known)
    hours, all_hours = round_chip_hours([cost.chip_seconds for cost in shown])
    return Table(
        key=caption.key,
        title=caption.title,
        note=caption.note + (f" of {len(sums):,}" if left_out else ""),
        heads=caption.heads,
        rows=tuple(
            _build_row(what, cost, whole.cost, saving, chip_hours, lines)
            for (what, lines), cost, saving, chip_hours in zip(
                cells, sums, amounts, hours, strict=False
            )
        ),
        rest=_build_row(
            (Value(f"{left_out:,} more", ""),), rest, whole.cost, amounts[-1], hours[-1]
        )
        if left_out
        else None,
        total=_build_row((), whole, whole.cost, total, all_hours),
    )


def _add_up(costs: Iterable[GroupCost]) -> GroupCost:
    whole = GroupCost()
    for cost in costs:
        whole.add(cost.cost, cost.listed, cost.chip_seconds)
    return whole


def _link_node(node_id: str, names: Mapping[str, Value]) -> Value:
    return names.get(node_id) or Value(node_id, node_address(node_id))


def link_values(
    asked: CostsAsked, group: Sequence[str], names: Mapping[str, Value]
) -> tuple[Value, ...]:
    """The values of a group, each with the page of its details."""
    if not group:
        return (Value("everything", asked.with_grouping("team").page),)
    return tuple(
        _link_node(value, names)
        if name == "node"
        else Value(
            value or UNNAMED.get(name, "(none)"),
            asked.drill_into(name, value).page,
        )
        for name, value in zip(asked.aggregate, group, strict=True)
    )


def describe_bucket(bucket: Window, step: Granularity, zone: ZoneInfo) -> str:
    """The name of a bucket by the clock and the calendar of its zone."""
    then = datetime.fromtimestamp(bucket.start, zone)
    day = f"{then:%a} {then.day} {then:%b %Y}"
    if step is Granularity.HOUR:
        return f"{day} {then:%H:%M %Z}"
    if step is Granularity.WEEK:
        days = -(-(bucket.end - bucket.start) // DAY)
        return f"{format_count(days, 'day')} from {day}"
    return f"{then:%B %Y}" if step is Granularity.MONTH else day


def _build_row(
    what: tuple[Value, ...],
    group: GroupCost,
    total: int,
    saving: Saving,
    chip_hours: Rounded,
    lines: str = "",
) -> BreakdownRow:
    cost, listed, saved = saving
    return BreakdownRow(
        what=what,
        cost=cost,
        listed=listed,
        saved=saved,
        chip_hours=chip_hours,
        share=format_share(group.cost, total),
        lines=lines,
    )
