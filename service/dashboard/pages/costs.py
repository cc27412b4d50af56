"""The page of costs: any time, by anything, to the last nano-dollar, and what each is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from service.application.costs.costs import CostReport
from service.application.services import Services
from service.dashboard.kit.amounts import Rounded, chip_hours
from service.dashboard.kit.cost_query import CostsAsked, month_window
from service.dashboard.kit.figures import Moment, duration, moment, money
from service.dashboard.kit.links import FilterLink, home_of_node, home_of_reservation
from service.dashboard.pages.breakdown import (
    STEPS,
    GroupCost,
    Table,
    Value,
    by_group,
    by_time,
    title_of,
)
from service.dashboard.pages.spend_chart import share
from service.domain.billing_period import period_of
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
"""What can be grouped by with one click; the form takes everything."""


@dataclass(frozen=True, slots=True)
class CostsFound:
    """The answer. The table by time is None where it is one stretch. `committed` is the cost after
    commitments in words; empty where none is in its term, or not all usage is asked for."""

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
    """Everything on the page; `found` is None where the question makes no sense, and `problem` says
    why."""

    asked: CostsAsked
    as_of: Moment
    windows: tuple[FilterLink, ...]
    groupings: tuple[FilterLink, ...]
    steps: tuple[FilterLink, ...]
    filters: tuple[Value, ...]
    problem: str
    found: CostsFound | None


def costs_of(services: Services, asked: CostsAsked) -> CostsPage:
    """The page as of now."""
    now = services.health.fleet().as_of
    found, problem = None, ""
    try:
        report = services.costs.report(asked.to_question())
    except Rejected as error:
        problem = _why(error)
    else:
        found = _found(services, asked, report)
    return CostsPage(
        asked=asked,
        as_of=moment(now),
        windows=tuple(_windows(asked, now)),
        groupings=tuple(
            FilterLink(title_of(one), asked.by(one).page, asked.aggregate == (one,))
            for one in GROUPS
        ),
        steps=tuple(
            FilterLink(STEPS[one], asked.in_steps(one).page, asked.step == one)
            for one in Granularity
        ),
        filters=tuple(Value(_shown(one), asked.without(one).page) for one in asked.only),
        problem=problem,
        found=found,
    )


def _windows(asked: CostsAsked, now: int) -> Iterable[FilterLink]:
    last = period_of(period_of(now).start - 1)
    for window, name in (
        ("today", "today"),
        ("7d", "7 days"),
        ("30d", "30 days"),
        ("mtd", "month to date"),
        (month_window(last), moment(last.start).date.partition(" ")[2]),
    ):
        yield FilterLink(name, asked.during(window).page, asked.window == window)


def _shown(condition: str) -> str:
    try:
        ((name, (value,)),) = only_of([condition]).items()
    except Rejected:
        return condition
    return f"{title_of(name)}: {value or '(none)'}"


def _why(error: Rejected) -> str:
    dimensions = error.facts.get("dimensions")
    also = f"; there are {', '.join(dimensions)}" if isinstance(dimensions, list) else ""
    return f"{error}{also}."


def _found(services: Services, asked: CostsAsked, report: CostReport) -> CostsFound:
    groups: dict[tuple[str, ...], GroupCost] = defaultdict(GroupCost)
    times: dict[Window, GroupCost] = defaultdict(GroupCost)
    for row in report.rows:
        figures = row.cost, row.list_cost, row.chip_seconds
        groups[row.group].add(*figures)
        times[row.bucket].add(*figures)
    saved = report.list_total - report.total
    by = by_group(asked, groups, partial(_named, services))
    total = by.total
    return CostsFound(
        start=moment(report.window.start),
        end=moment(report.window.end),
        cost=total.cost,
        listed=total.listed,
        saved=total.saved,
        of_list=share(saved, report.list_total),
        chip_hours=chip_hours(report.chip_seconds),
        unpriced=_unpriced(report),
        committed="" if asked.only else _committed(services, report),
        doubts=tuple(_doubts(asked, report)),
        groups=by,
        times=None if asked.step == Granularity.ALL else by_time(asked, times),
        as_of=moment(report.as_of),
    )


def _named(services: Services, ids: Iterable[str]) -> Mapping[str, Value]:
    """Nodes by their names, and reservations, of which it is what nobody used."""
    names = services.costs.names(ids)
    bought = services.reservations.among(names)
    return {
        one: Value(f"{name} (unused)", home_of_reservation(one))
        if one in bought
        else Value(name, home_of_node(one))
        for one, name in names.items()
    }


def _committed(services: Services, report: CostReport) -> str:
    """The cost as charged and after commitments, with the reason for the difference."""
    found = services.commitments.among(report.window)
    if found is None or not (found.standings or found.unpriced):
        return ""
    if not found.standings:
        return "Commitments are in no figure here: no rate is known for them."
    after = report.total - found.saving
    avoided = found.total.covered.avoided
    return (
        f"{money(report.total)} as charged, {money(after)} after commitments (plus"
        f" {money(found.fee)} of fees, less {money(avoided)} for the usage that they cover)."
    )


def _unpriced(report: CostReport) -> str:
    if not report.unpriced_seconds:
        return ""
    return (
        f"{duration(report.unpriced_seconds)} of usage has no known price. Its cost is in no"
        " figure here; it was not free."
    )


def _doubts(asked: CostsAsked, report: CostReport) -> Iterable[str]:
    """Why the figures may not be all of it, in sentences."""
    if report.uncertainty:
        yield (f"{money(report.uncertainty)} of it is uncertain: no poll confirms these seconds.")
    if report.estimated:
        yield (
            "Some usage still runs. The figures include usage that is not posted to the ledger yet."
        )
    if any(one.partition(":")[0] == "activity" for one in (*asked.aggregate, *asked.only)):
        yield (
            "Unknown: time that no signal covers. Signals come up to ten minutes late, so the"
            " newest"
            " seconds are unknown for a while."
        )
