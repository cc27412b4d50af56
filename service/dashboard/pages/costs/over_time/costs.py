"""The page of costs: any window, any grouping, to the last nano-dollar, with links to the
details."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from service.application.costs.costs import CostQuestion, CostReport
from service.application.services import Services
from service.dashboard.kit.amounts import Rounded
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import Moment, format_duration, format_money, to_moment
from service.dashboard.kit.links import FilterLink, node_address, reservation_address
from service.dashboard.pages.costs import breakdown
from service.dashboard.pages.costs.breakdown import (
    GroupCost,
    Table,
    Value,
    build_group_table,
    build_time_table,
    dimension_title,
    rank_groups,
)
from service.dashboard.pages.costs.over_time.cost_chart import CostChart, build_cost_chart
from service.dashboard.pages.costs.over_time.cost_grid import (
    CostGrid,
    build_grid,
    choose_step,
    round_grid,
)
from service.dashboard.pages.costs.over_time.cost_matrix import CostMatrix, build_matrix
from service.dashboard.pages.costs.over_time.query_form import MENUS, SHOWN, QueryForm, build_form
from service.dashboard.pages.costs.spend_chart import format_share
from service.domain.costs.dimensions import only_of
from service.domain.errors import Rejected
from service.domain.time_window import (
    Granularity,
    Window,
    parse_window,
    window_before,
    zone_of,
)


@dataclass(frozen=True, slots=True)
class CostsFound:
    """The answer. `chart` and `matrix` are None if there are no charges, `times` if the step is
    `all`. `committed` is the cost after
    commitments in words; empty if there is none in its term, or if the question has filters."""

    start: Moment
    end: Moment
    cost: Rounded
    listed: Rounded
    saved: Rounded
    of_list: str
    chip_hours: Rounded
    unpriced: str
    committed: str
    doubts: tuple[str, ...]
    chart: CostChart | None
    matrix: CostMatrix | None
    groups: Table
    times: Table | None
    as_of: Moment


@dataclass(frozen=True, slots=True)
class _Reports:
    """The answer to the question, the same for the chart, the values of the menus, and the same
    time before."""

    asked: CostReport
    grid: CostGrid
    values: CostReport
    before: CostReport | None


@dataclass(frozen=True, slots=True)
class CostsPage:
    """Everything on the page. `fixed` is the address of the page with the start and the end of the
    window as timestamps. `found` is None if the question is invalid, and `problem` says why."""

    asked: CostsAsked
    as_of: Moment
    form: QueryForm
    shows: tuple[FilterLink, ...]
    fixed: str
    filters: tuple[Value, ...]
    problem: str
    found: CostsFound | None


def build_costs_page(services: Services, asked: CostsAsked) -> CostsPage:
    """The page as of now."""
    now = services.health.read_fleet().as_of
    found, values, problem, fixed = None, None, "", asked.page
    try:
        question = asked.to_question()
        zone = zone_of(asked.tz)
        step = choose_step(parse_window(asked.window, zone, now), question.step)
        report, charted, of_menus = services.costs.report_all(
            question,
            replace(question, step=step),
            CostQuestion(asked.window, MENUS, Granularity.ALL, asked.tz),
        )
        before = None
        if charted.rows:
            earlier = window_before(report.window, zone, whole_weeks=step is Granularity.WEEK)
            finer = Granularity.HOUR if step is Granularity.HOUR else Granularity.DAY
            # A year that no window may have is no reason to show nothing.
            with suppress(Rejected):
                same = asked.with_grouping().narrow_to(earlier, finer)
                before = services.costs.report(same.to_question())
        reports = _Reports(report, build_grid(charted, step, asked.tz), of_menus, before)
    except Rejected as error:
        dimensions = error.facts.get("dimensions")
        also = f"; there are {', '.join(dimensions)}" if isinstance(dimensions, list) else ""
        problem = f"{error}{also}."
    else:
        found, values = _build_answer(services, asked, reports), reports.values
        fixed = asked.narrow_to(reports.asked.window, asked.step).page
    filters = []
    for condition in asked.only:
        text = condition
        with suppress(Rejected):
            ((name, (value,)),) = only_of([condition]).items()
            text = f"{dimension_title(name)}: {value or '(none)'}"
        filters.append(Value(text, asked.without_filter(condition).page))
    return CostsPage(
        asked=asked,
        as_of=to_moment(now),
        form=build_form(asked, values, now),
        shows=tuple(
            FilterLink(name, asked.with_show(show).page, asked.show is show)
            for show, name in SHOWN.items()
        ),
        fixed=fixed,
        filters=tuple(filters),
        problem=problem,
        found=found,
    )


def _build_answer(services: Services, asked: CostsAsked, reports: _Reports) -> CostsFound:
    report, grid, before = reports.asked, reports.grid, reports.before
    groups: dict[tuple[str, ...], GroupCost] = defaultdict(GroupCost)
    times: dict[Window, GroupCost] = defaultdict(GroupCost)
    for row in report.rows:
        figures = row.cost, row.list_cost, row.chip_seconds
        groups[row.group].add(*figures)
        times[row.bucket].add(*figures)
    names: Mapping[str, Value] = {}
    if "node" in asked.aggregate:
        at = asked.aggregate.index("node")
        ids = {group[at] for group, _ in rank_groups(groups)[: breakdown.SHOWN]}
        name_of = services.costs.find_names(ids)
        # Reservations are charged for their unused part.
        bought = services.reservations.find_reservation_ids(name_of)
        names = {
            subject_id: Value(f"{name} (unused)", reservation_address(subject_id))
            if subject_id in bought
            else Value(name, node_address(subject_id))
            for subject_id, name in name_of.items()
        }
    rounded = round_grid(grid)
    by = build_group_table(asked, groups, names, rounded.sum_groups(grid))
    is_same_step = grid.step == asked.step
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
        of_list=format_share(report.list_total - report.total, report.list_total),
        chip_hours=total.chip_hours,
        unpriced=unpriced,
        committed="" if asked.only else _describe_committed(services, report),
        doubts=tuple(_list_doubts(asked, report)),
        chart=build_cost_chart(asked, grid, rounded, names, before) if grid.groups else None,
        matrix=build_matrix(asked, grid, rounded, names) if grid.groups else None,
        groups=by,
        times=None
        if asked.step == Granularity.ALL
        else build_time_table(asked, times, rounded.sum_buckets(grid) if is_same_step else None),
        as_of=to_moment(report.as_of),
    )


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
