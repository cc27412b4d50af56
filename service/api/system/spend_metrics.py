"""Prometheus metrics of spending: cost, forecast, budgets and waste, in dollars."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from platform import python_version

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from service.application.attention.attention import AttentionService
from service.application.budgets.budgets import BudgetService
from service.application.costs.costs import CostQuestion, CostService
from service.application.costs.forecasts import ForecastService
from service.domain.money import NANOS


class SpendCollector(Collector):
    """Gauges of this month's cost and forecast, and of every budget. The figures are those of the
    API and the dashboard; the ledger is exact, and Prometheus rounds it."""

    def __init__(
        self, costs: CostService, forecasts: ForecastService, budgets: BudgetService
    ) -> None:
        self._costs = costs
        self._forecasts = forecasts
        self._budgets = budgets

    def collect(self) -> Iterator[Metric]:
        """The gauges as of now."""
        month = self._costs.report(CostQuestion(window="mtd", aggregate=("team",)))
        cost = GaugeMetricFamily(
            "steward_cost_month_to_date_dollars",
            "Cost of this month (UTC) so far, by team; empty for nodes without a team.",
            labels=("team",),
        )
        teams: dict[str, int] = {}
        for row in month.rows:
            team = row.group[0] or ""
            teams[team] = teams.get(team, 0) + row.cost
        for team, nanos in sorted(teams.items()):
            cost.add_metric((team,), nanos / NANOS)
        yield cost
        low, mid, high = self._forecasts.total_band({})
        forecast = GaugeMetricFamily(
            "steward_forecast_month_dollars",
            "Forecast of the cost of this month (UTC): the middle, and the bounds of its band.",
            labels=("bound",),
        )
        for bound, nanos in (("low", low), ("mid", mid), ("high", high)):
            forecast.add_metric((bound,), nanos / NANOS)
        yield forecast
        amount = GaugeMetricFamily(
            "steward_budget_amount_dollars", "The amount of a budget.", labels=("budget",)
        )
        spent = GaugeMetricFamily(
            "steward_budget_spent_dollars",
            "What was spent of a budget in its current period.",
            labels=("budget",),
        )
        held = GaugeMetricFamily(
            "steward_budget_held_dollars",
            "What is held of a budget for nodes that run or are requested, where a price is known.",
            labels=("budget",),
        )
        for shown in self._budgets.list_statuses(self._budgets.list_all()):
            amount.add_metric((shown.budget.name,), shown.budget.amount / NANOS)
            if shown.standing is not None:
                spent.add_metric((shown.budget.name,), shown.standing.spent / NANOS)
                held.add_metric((shown.budget.name,), shown.standing.held.known / NANOS)
        yield from (amount, spent, held)


class WasteCollector(Collector):
    """Gauges of what is paid for and does no work."""

    def __init__(self, attention: AttentionService) -> None:
        self._attention = attention

    def collect(self) -> Iterator[Metric]:
        """The gauges as of now. A kind without waste shows 0."""
        report = self._attention.read_waste()
        hourly = GaugeMetricFamily(
            "steward_waste_dollars_per_hour",
            "Cost an hour of what does no work, by kind, where its price is known; `unknown` are"
            " nodes of which it is unknown whether they work.",
            labels=("kind",),
        )
        sources = GaugeMetricFamily(
            "steward_waste_sources", "What does no work, by kind.", labels=("kind",)
        )
        for kind, total in (*report.by_kind.items(), ("unknown", report.unknown)):
            hourly.add_metric((kind,), total.hourly / NANOS)
            sources.add_metric((kind,), total.number)
        yield from (hourly, sources)
        yield GaugeMetricFamily(
            "steward_deletions_failing",
            "Deletions that failed at least once or are overdue, and have not ended, billed or"
            " not.",
            value=self._attention.count_failing_deletions(),
        )


class BuildCollector(Collector):
    """The version of this service."""

    def collect(self) -> Iterator[Metric]:
        """One series whose value is 1."""
        build = {"version": read_version(), "python": python_version()}
        yield InfoMetricFamily("steward_build", "The version that answers.", value=build)


def read_version() -> str:
    """The version of the installed package; `0` where it is not installed."""
    try:
        return version("tpu-steward")
    except PackageNotFoundError:
        return "0"
