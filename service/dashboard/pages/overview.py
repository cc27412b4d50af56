"""The first page: the current cost per hour, the spending so far, and the nodes."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from functools import partial

from service.application.costs.costs import CostQuestion, CostReport
from service.application.costs.forecasts import LARGE_FLEET, ForecastOutlook
from service.application.health import ComingSum, FleetHealth
from service.application.nodes.nodes import NodeFilter
from service.application.nodes.sorted_list import SortedQuery
from service.application.services import Services
from service.dashboard.kit.banners import Alarms, list_alarms, list_notices
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_difference,
    format_money,
    format_units,
    to_moment,
    utc_date,
)
from service.dashboard.kit.node_rows import NodeRow, build_node_row
from service.dashboard.kit.series import GROUPINGS
from service.dashboard.pages.attention import (
    AgendaLists,
    WasteFigure,
    build_agenda_lists,
    describe_orphans,
    describe_waste,
)
from service.dashboard.pages.costs.budget_lines import BudgetLine, list_budget_lines
from service.dashboard.pages.costs.spend_chart import (
    WINDOWS,
    Spending,
    build_spending,
    format_share,
    plan_month,
)
from service.dashboard.pages.costs.spenders import Spenders, build_spenders
from service.dashboard.pages.nodes.idle import idle_line
from service.dashboard.pages.nodes.timeline import LatestEvent, build_latest_entries
from service.domain.budgets.budget import Period
from service.domain.clock import DAY, HOUR, floor_to, to_rfc3339
from service.domain.costs.display_rounding import in_units, places_for, unit_for
from service.domain.costs.forecast import Method
from service.domain.nodes.node import ENDED
from service.domain.time_window import Granularity, split_into_buckets, zone_of

DEFAULT_WINDOW = "30d"
DEFAULT_GROUP = "generation"
NODES = 10
"""The live nodes that are shown: those that cost most an hour."""

ENDED_SHOWN = 5
BUDGETS = 5
SPARK_HEIGHT = 28
_ENDED_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class OverviewQuery:
    """The parameters of the address, all of them valid."""

    window: str = DEFAULT_WINDOW
    group: str = DEFAULT_GROUP

    @classmethod
    def from_query(cls, window: str, group: str) -> OverviewQuery:
        """The view of an address. Defaults stand in for parameters that are invalid."""
        return cls(
            window if window in WINDOWS else DEFAULT_WINDOW,
            group if group in GROUPINGS else DEFAULT_GROUP,
        )


@dataclass(frozen=True, slots=True)
class ForecastFigure:
    """The forecast of the month, its band, and its method. `is_run_rate` says that there are fewer
    than seven days of history."""

    mid: str
    note: str
    method: str
    is_run_rate: bool


@dataclass(frozen=True, slots=True)
class SparkHour:
    """The cost of one hour as a column of at most SPARK_HEIGHT pixels, and as text. `name` is the
    hour with its day."""

    name: str
    clock: str
    cost: str
    height: int


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The cost of the last full hours, the oldest first, the same in words, and their sum as it is
    shown."""

    hours: tuple[SparkHour, ...]
    words: str
    total: str


@dataclass(frozen=True, slots=True)
class OverviewFigures:
    """The sums, and what they are made of. `saved` is this month's difference to list prices;
    `cap` compares the month with the budget of everything, empty without such a budget."""

    burn: str
    running: str
    coming: str
    orphans: str
    spark: Sparkline
    month: str
    month_as_of: Moment
    month_day: str
    cap: str
    today: str
    saved: str
    saved_share: str
    preemptions: str
    forecast: ForecastFigure
    waste: WasteFigure


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the page. `first_use` is True if no node was ever requested."""

    view: OverviewQuery
    as_of: Moment
    alarms: Alarms
    notices: tuple[str, ...]
    figures: OverviewFigures
    agenda: AgendaLists
    spenders: Spenders
    budgets: tuple[BudgetLine, ...]
    active_budgets: int
    spending: Spending
    nodes: tuple[NodeRow, ...]
    live: int
    ended: tuple[NodeRow, ...]
    events: tuple[LatestEvent, ...]
    first_use: bool


def build_overview_page(services: Services, view: OverviewQuery) -> Overview:
    """The page as of now. Requests within the same second share one page until data on the page
    changes. The page of a large fleet may be a minute old: nobody waits while it is made anew."""
    stamp = services.health.read_stamp()
    make = partial(build_overview, services, view)
    if stamp.running < LARGE_FLEET:
        return services.pages.get_or_make(("overview", view, stamp), make)
    return services.latest_pages.get_or_make(("overview", view), stamp, stamp.now, make)


def build_overview(services: Services, view: OverviewQuery) -> Overview:
    """The page as of now, from the same services as the answers of the API."""
    fleet = services.health.read_fleet()
    report, month, day = services.costs.report_all(
        CostQuestion(window=view.window, aggregate=(view.group,)),
        CostQuestion(window="mtd"),
        _ask_for_hours(fleet.as_of),
    )
    waste, agenda = services.attention.read_both(health=fleet)
    budgets = list_budget_lines(services)
    outlook = services.forecasts.read_outlook({}, Period.MONTH, "UTC")
    whole = next((line for line in budgets if line.is_whole), None)
    amount = None if whole is None else whole.amount
    # A week is too short beside up to thirty days of forecast.
    ahead = None if view.window == "7d" else plan_month(outlook.forecast, amount)
    markers = services.costs.list_markers(report.window)
    spending = build_spending(report, GROUPINGS[view.group], view.window, ahead, markers)
    preempted = services.health.count_preemptions_since(month.window.start)
    today = utc_date(month.as_of)
    rows = _list_costliest_nodes(services)
    ended = _list_ended_nodes(services, fleet.as_of)
    return Overview(
        view=view,
        as_of=to_moment(fleet.as_of),
        alarms=list_alarms(services.health, fleet.as_of),
        notices=tuple(list_notices(fleet)),
        figures=OverviewFigures(
            burn=format_money(fleet.burn),
            running=_describe_running(fleet),
            coming=_describe_coming(fleet.coming),
            orphans=describe_orphans(waste),
            spark=_draw_sparkline(day),
            month=format_money(month.total),
            month_as_of=to_moment(month.as_of),
            month_day=f"day {today.day} of {monthrange(today.year, today.month)[1]}",
            cap="" if whole is None else whole.share,
            today=spending.rows[-1].total if spending.rows else format_money(0),
            saved=format_difference(month.list_total, month.total),
            saved_share=format_share(month.list_total - month.total, month.list_total),
            preemptions=format_count(preempted, "preemption") if preempted else "no preemption",
            forecast=_describe_forecast(outlook),
            waste=describe_waste(waste),
        ),
        agenda=build_agenda_lists(agenda),
        spenders=build_spenders(services, view.window),
        budgets=budgets[:BUDGETS],
        active_budgets=services.budgets.count_active(),
        spending=spending,
        nodes=rows,
        live=sum(state.nodes for state in fleet.counts),
        ended=ended,
        events=build_latest_entries(services),
        first_use=not rows and not ended,
    )


def _ask_for_hours(now: int) -> CostQuestion:
    """The question for the last 24 full hours: the hour that still runs would look like a fall.
    They begin at a full hour, as the sums of the ledger do, which is quick."""
    end = floor_to(now, HOUR)
    return CostQuestion(f"{to_rfc3339(end - DAY)},{to_rfc3339(end)}", step=Granularity.HOUR)


def _draw_sparkline(report: CostReport) -> Sparkline:
    """The cost of each of the last 24 full hours. The shown costs add up to the shown sum."""
    costs = {row.bucket.start: row.cost for row in report.rows}
    hours = list(split_into_buckets(report.window, Granularity.HOUR, zone_of("UTC")))
    amounts = [costs.get(hour.start, 0) for hour in hours]
    highest = max(0, *amounts)
    places = places_for(sum(amounts))
    units = in_units(amounts, unit_for(places))
    columns = []
    for hour, amount, shown in zip(hours, amounts, units, strict=True):
        start, end = to_moment(hour.start), to_moment(hour.end)
        columns.append(
            SparkHour(
                name=f"{start.date.rpartition(' ')[0]}, {start.clock[:5]} to {end.clock[:5]}",
                clock=start.clock[:5],
                cost=format_units(shown, places),
                height=-(-max(0, amount) * SPARK_HEIGHT // highest) if highest else 0,
            )
        )
    words = f"at most {format_units(max(0, *units), places)} in one hour"
    return Sparkline(tuple(columns), words, format_units(sum(units), places))


def _describe_forecast(outlook: ForecastOutlook) -> ForecastFigure:
    found = outlook.forecast
    band = found.total
    note = (
        f"{format_money(band.low)} to {format_money(band.high)}"
        if band.low < band.high
        else "no band yet"
    )
    is_run_rate = found.method is Method.RUN_RATE
    if is_run_rate:
        note = f"a run-rate, from {format_count(found.basis.history.days, 'full day')} of history"
    note += f", as of {to_moment(found.basis.now).clock}"
    last = outlook.last
    if last is None or last.permille is None:
        return ForecastFigure(format_money(band.mid), note, found.method_sentence, is_run_rate)
    percent = f"{abs(last.permille) // 10}.{abs(last.permille) % 10} %"
    wrong = f"{percent} too {'low' if last.permille < 0 else 'high'}" if last.permille else "right"
    said = f"{found.method_sentence} Last month's, at half time, was {wrong}."
    return ForecastFigure(format_money(band.mid), note, said, is_run_rate)


def _describe_running(fleet: FleetHealth) -> str:
    reserved = f", {format_count(fleet.reserved, 'reservation')}" if fleet.reserved else ""
    if fleet.unused:
        reserved += f", {format_money(fleet.unused)}/h of it unused"
    if not fleet.ready:
        return f"nothing is READY{reserved}"
    return (
        f"{format_count(fleet.ready, 'node')} READY, {format_count(fleet.chips, 'chip')}{reserved}"
    )


def _describe_coming(coming: ComingSum) -> str:
    """What nodes that are not billed yet will cost; empty without such nodes."""
    if not coming.nodes:
        return ""
    count = format_count(coming.nodes, "node")
    if coming.unpriced == coming.nodes:
        return f"{count} coming, at an unknown price"
    unpriced = f", {coming.unpriced} at an unknown price" if coming.unpriced else ""
    return f"{count} coming: {format_money(coming.burn)}/h more{unpriced}"


def _list_costliest_nodes(services: Services) -> tuple[NodeRow, ...]:
    """The live nodes that cost most an hour."""
    page = services.nodes.list_sorted(
        SortedQuery(NodeFilter(live=True), size=NODES, has_choices=False)
    )
    briefs = services.cleanup.find_briefs(node["id"] for node in page.nodes)
    idle = {node_id: idle_line(brief, page.as_of) for node_id, brief in briefs.items()}
    return tuple(build_node_row(node, page.as_of, idle.get(node["id"], "")) for node in page.nodes)


def _list_ended_nodes(services: Services, now: int) -> tuple[NodeRow, ...]:
    """Of the newest ended nodes, those that ended last, so that failed nodes stay visible for a
    while."""
    states = tuple(sorted(map(str, ENDED)))
    page = services.nodes.list_page(NodeFilter(state=states), _ENDED_LOOKED_AT, "")
    rows = [build_node_row(node, now) for node in page.to_dicts()]
    rows.sort(key=lambda row: row.ended.iso if row.ended else "", reverse=True)
    return tuple(rows[:ENDED_SHOWN])
