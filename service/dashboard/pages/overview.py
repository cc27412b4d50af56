"""The first page: the current cost per hour, the spending so far, and the nodes."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.costs.costs import CostQuestion
from service.application.health import FleetHealth
from service.application.nodes.nodes import NodeFilter
from service.application.orphans import OrphanSum
from service.application.services import Services
from service.dashboard.kit.banners import Alarms, alarms_of, notices_of
from service.dashboard.kit.figures import Moment, count, less, moment, money
from service.dashboard.kit.node_rows import NodeRow, row_of
from service.dashboard.kit.series import GROUPINGS
from service.dashboard.pages.idle import idle_line
from service.dashboard.pages.orphans import OrphanTotals, found_in
from service.dashboard.pages.spend_chart import WINDOWS, Spending, share, spending_of
from service.domain.budgets.budget import Period
from service.domain.costs.forecast import Method
from service.domain.errors import Rejected
from service.domain.nodes.node import ENDED

DEFAULT_WINDOW = "30d"
DEFAULT_GROUP = "generation"
NODES = 100
"""The most nodes on one page."""

ENDED_SHOWN = 5
_ENDED_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class OverviewQuery:
    """The parameters of the address, all of them valid."""

    window: str = DEFAULT_WINDOW
    group: str = DEFAULT_GROUP
    after: str = ""

    @classmethod
    def asked(cls, window: str, group: str, after: str) -> OverviewQuery:
        """The view of an address. Defaults stand in for parameters that are invalid."""
        return cls(
            window if window in WINDOWS else DEFAULT_WINDOW,
            group if group in GROUPINGS else DEFAULT_GROUP,
            after,
        )


@dataclass(frozen=True, slots=True)
class ForecastFigure:
    """The forecast of the month, its band, and its method."""

    mid: str
    note: str
    method: str


@dataclass(frozen=True, slots=True)
class OverviewFigures:
    """The sums, and what they are made of. `saved` is this month's difference to list prices."""

    burn: str
    running: str
    month: str
    month_since: str
    month_as_of: Moment
    today: str
    saved: str
    saved_share: str
    forecast: ForecastFigure


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the page. `first_use` is True if no node was ever requested."""

    view: OverviewQuery
    as_of: Moment
    alarms: Alarms
    notices: tuple[str, ...]
    orphans: OrphanTotals
    figures: OverviewFigures
    spending: Spending
    nodes: tuple[NodeRow, ...]
    live: int
    more: str
    ended: tuple[NodeRow, ...]
    first_use: bool


def overview_of(services: Services, view: OverviewQuery) -> Overview:
    """The page as of now. Requests within the same second share one page until data on the page
    changes."""
    stamp = services.health.stamp()
    return services.pages.of(("overview", view, stamp), lambda: _build_overview(services, view))


def _build_overview(services: Services, view: OverviewQuery) -> Overview:
    """The page as of now, from the same services as the answers of the API."""
    grouping = GROUPINGS[view.group]
    fleet = services.health.fleet()
    report, month = services.costs.reports(
        CostQuestion(window=view.window, aggregate=(view.group,)), CostQuestion(window="mtd")
    )
    spending = spending_of(report, grouping, view.window)
    rows, more = _list_live_nodes(services, view.after, fleet.as_of)
    ended = _list_ended_nodes(services, fleet.as_of)
    return Overview(
        view=view,
        as_of=moment(fleet.as_of),
        alarms=alarms_of(services.health, fleet.as_of),
        notices=tuple(notices_of(fleet)),
        orphans=found_in(sum(services.orphans.totals().values(), OrphanSum())),
        figures=OverviewFigures(
            burn=money(fleet.burn),
            running=_describe_running(fleet),
            month=money(month.total),
            month_since=moment(month.window.start).date,
            month_as_of=moment(month.as_of),
            today=spending.rows[-1].total if spending.rows else money(0),
            saved=less(month.list_total, month.total),
            saved_share=share(month.list_total - month.total, month.list_total),
            forecast=_describe_forecast(services),
        ),
        spending=spending,
        nodes=rows,
        live=sum(state.nodes for state in fleet.counts),
        more=more,
        ended=ended,
        first_use=not rows and not ended and not view.after,
    )


def _describe_forecast(services: Services) -> ForecastFigure:
    outlook = services.forecasts.outlook({}, Period.MONTH, "UTC")
    found = outlook.forecast
    band = found.total
    note = f"{money(band.low)} to {money(band.high)}" if band.low < band.high else "no band yet"
    if found.method is Method.RUN_RATE:
        note = f"a run-rate, from {count(found.basis.history.days, 'full day')} of history"
    note += f", as of {moment(found.basis.now).clock}"
    last = outlook.last
    if last is None or last.permille is None:
        return ForecastFigure(money(band.mid), note, found.said)
    percent = f"{abs(last.permille) // 10}.{abs(last.permille) % 10} %"
    wrong = f"{percent} too {'low' if last.permille < 0 else 'high'}" if last.permille else "right"
    said = f"{found.said} Last month's, at half time, was {wrong}."
    return ForecastFigure(money(band.mid), note, said)


def _describe_running(fleet: FleetHealth) -> str:
    reserved = f", {count(fleet.reserved, 'reservation')}" if fleet.reserved else ""
    if fleet.unused:
        reserved += f", {money(fleet.unused)}/h of it unused"
    if not fleet.ready:
        return f"nothing is READY{reserved}"
    return f"{count(fleet.ready, 'node')} READY, {count(fleet.chips, 'chip')}{reserved}"


def _list_live_nodes(services: Services, after: str, now: int) -> tuple[tuple[NodeRow, ...], str]:
    """Live nodes, newest first, and the token of the next page. An invalid `after` asks for the
    first page."""
    try:
        page = services.nodes.page(NodeFilter(live=True), NODES, after)
    except Rejected:
        page = services.nodes.page(NodeFilter(live=True), NODES, "")
    shown = page.read()
    briefs = services.cleanup.briefs(node["id"] for node in shown)
    idle = {node_id: idle_line(brief, now) for node_id, brief in briefs.items()}
    rows = tuple(row_of(node, now, idle.get(node["id"], "")) for node in shown)
    return rows, page.next_page_token


def _list_ended_nodes(services: Services, now: int) -> tuple[NodeRow, ...]:
    """Of the newest ended nodes, those that ended last, so that failed nodes stay visible for a
    while."""
    states = tuple(sorted(map(str, ENDED)))
    page = services.nodes.page(NodeFilter(state=states), _ENDED_LOOKED_AT, "")
    rows = [row_of(node, now) for node in page.read()]
    rows.sort(key=lambda row: row.ended.iso if row.ended else "", reverse=True)
    return tuple(rows[:ENDED_SHOWN])
