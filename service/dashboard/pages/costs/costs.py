"""The page of costs: any window, any grouping, to the last nano-dollar, with links to the
details."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from service.application.costs.costs import CostReport
from service.application.services import Services
from service.dashboard.kit.amounts import Rounded, format_chip_hours
from service.dashboard.kit.cost_query import CostsAsked, last_month
from service.dashboard.kit.figures import Moment, format_duration, format_money, to_moment
from service.dashboard.kit.links import FilterLink, node_address, reservation_address
from service.dashboard.pages.costs.breakdown import (
    STEPS,
    GroupCost,
    Table,
    Value,
    build_group_table,
    build_time_table,
    dimension_title,
)
from service.dashboard.pages.costs.spend_chart import format_share
from service.domain.costs.dimensions import only_of
from service.domain.errors import Rejected
from service.domain.time_window import Granularity, Window

GROUPS = (
    "team",
    "owner",
    "node",
    "generation",
    "accelerator_type",
    "provisioning_model",
    "zone",
    "region",
    "activity",
)
"""Dimensions to group by with one click; the form takes every dimension."""

_WINDOWS = (
    ("today", "today"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("mtd", "month to date"),
)


@dataclass(frozen=True, slots=True)
class CostsFound:
    """The answer. `times` is None if the step is `all`. `committed` is the cost after
    commitments in words; empty if there is none in its term, or if the question has filters."""

    start: Moment
    end: Moment
    cost: Rounded
    listed: Rounded
    saved: Rounded
    of_list: str
    chip_hours: str
    unpriced: str
    committed: str
    doubts: tuple[str, ...]
    groups: Table
    times: Table | None
    as_of: Moment


@dataclass(frozen=True, slots=True)
class CostsPage:
    """Everything on the page. `found` is None if the question is invalid, and `problem` says
    why."""

    asked: CostsAsked
    as_of: Moment
    windows: tuple[FilterLink, ...]
    groupings: tuple[FilterLink, ...]
    steps: tuple[FilterLink, ...]
    filters: tuple[Value, ...]
    problem: str
    found: CostsFound | None


def build_costs_page(services: Services, asked: CostsAsked) -> CostsPage:
    """The page as of now."""
    now = services.health.read_fleet().as_of
    found, problem = None, ""
    try:
        report = services.costs.report(asked.to_question())
    except Rejected as error:
        dimensions = error.facts.get("dimensions")
        also = f"; there are {', '.join(dimensions)}" if isinstance(dimensions, list) else ""
        problem = f"{error}{also}."
    else:
        found = _build_answer(services, asked, report)
    return CostsPage(
        asked=asked,
        as_of=to_moment(now),
        windows=tuple(
            FilterLink(name, asked.with_window(window).page, asked.window == window)
            for window, name in (*_WINDOWS, last_month(now))
        ),
        groupings=tuple(
            FilterLink(
                dimension_title(group), asked.with_grouping(group).page, asked.aggregate == (group,)
            )
            for group in GROUPS
        ),
        steps=tuple(
            FilterLink(STEPS[step], asked.with_step(step).page, asked.step == step)
            for step in Granularity
        ),
        filters=tuple(
            Value(_describe_filter(condition), asked.without_filter(condition).page)
            for condition in asked.only
        ),
        problem=problem,
        found=found,
    )


def _describe_filter(condition: str) -> str:
    try:
        ((name, (value,)),) = only_of([condition]).items()
    except Rejected:
        return condition
    return f"{dimension_title(name)}: {value or '(none)'}"


def _build_answer(services: Services, asked: CostsAsked, report: CostReport) -> CostsFound:
    groups: dict[tuple[str, ...], GroupCost] = defaultdict(GroupCost)
    times: dict[Window, GroupCost] = defaultdict(GroupCost)
    for row in report.rows:
        figures = row.cost, row.list_cost, row.chip_seconds
        groups[row.group].add(*figures)
        times[row.bucket].add(*figures)
    saved = report.list_total - report.total
    by = build_group_table(asked, groups, partial(_link_subjects, services))
    total = by.total
    unpriced = ""
    if report.unpriced_seconds:
        unpriced = (
            f"{format_duration(report.unpriced_seconds)} of usage has no known price. Its cost is"
            " in no figure here; it was not free."
        )
    return CostsFound(
        start=to_moment(report.window.start),
        end=to_moment(report.window.end),
        cost=total.cost,
        listed=total.listed,
        saved=total.saved,
        of_list=format_share(saved, report.list_total),
        chip_hours=format_chip_hours(report.chip_seconds),
        unpriced=unpriced,
        committed="" if asked.only else _describe_committed(services, report),
        doubts=tuple(_list_doubts(asked, report)),
        groups=by,
        times=None if asked.step == Granularity.ALL else build_time_table(asked, times),
        as_of=to_moment(report.as_of),
    )


def _link_subjects(services: Services, ids: Iterable[str]) -> Mapping[str, Value]:
    """Names and pages of nodes, and of reservations, which are charged for their unused part."""
    names = services.costs.find_names(ids)
    bought = services.reservations.find_reservation_ids(names)
    return {
        subject_id: Value(f"{name} (unused)", reservation_address(subject_id))
        if subject_id in bought
        else Value(name, node_address(subject_id))
        for subject_id, name in names.items()
    }


def _describe_committed(services: Services, report: CostReport) -> str:
    """The cost as charged and after commitments, with the reason for the difference. Empty if no
    commitment is in its term in the window."""
    found = services.commitments.find_usage(report.window)
    if found is None or not (found.standings or found.unpriced):
        return ""
    if not found.standings:
        return "Commitments are in no figure here: no rate is known for them."
    after = report.total - found.saving
    avoided = found.total_figures.covered.avoided
    return (
        f"{format_money(report.total)} as charged, {format_money(after)} after commitments (plus"
        f" {format_money(found.fee)} of fees, less {format_money(avoided)} for the usage that"
        " they cover)."
    )


def _list_doubts(asked: CostsAsked, report: CostReport) -> Iterable[str]:
    """Sentences about why the figures may be incomplete."""
    if report.uncertainty:
        uncertain = format_money(report.uncertainty)
        yield f"{uncertain} of it is uncertain: no poll confirms these seconds."
    if report.estimated:
        yield (
            "Some usage still runs. The figures include usage that is not posted to the ledger yet."
        )
    if any(part.partition(":")[0] == "activity" for part in (*asked.aggregate, *asked.only)):
        yield (
            "Unknown: time that no signal covers. Signals come up to ten minutes late, so the"
            " newest seconds are unknown for a while."
        )
