"""Figures that are kept: the same as those that are worked out on the spot, after any write."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from service.application.costs.costs import CostQuestion, CostService
from service.application.costs.forecasts import ForecastService
from service.application.services import Services
from service.controllers.metering import MeteringController
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.pages.costs.budgets import build_budgets_page
from service.dashboard.pages.costs.over_time.costs import build_costs_page
from service.dashboard.pages.costs.statements import build_statements_page
from service.dashboard.pages.overview import OverviewQuery, build_overview_page
from service.domain.budgets.budget import Period, Scope
from service.domain.clock import DAY, HOUR
from service.domain.lease import Lease
from service.domain.metering.attribution import Attribution
from service.domain.money import NANOS
from service.domain.time_window import Granularity
from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.dashboard.lab import Lab
from tests.hands import HandClock

pytestmark = pytest.mark.deep

QUESTIONS = (
    CostQuestion("7d", ("team",)),
    CostQuestion("mtd", ("node",), Granularity.ALL, "Europe/Berlin"),
    CostQuestion("30d", ("generation",), only={"team": ("vision",)}),
    CostQuestion("24h", (), Granularity.HOUR, only={"label:run": ("1",)}),
)


@pytest.fixture
def labs(engine: Engine, clock: HandClock) -> Iterator[tuple[Lab, Lab]]:
    """Two instances on one database."""
    other = make_engine(engine.url.render_as_string(hide_password=False))
    first, second = (Lab(Units(usage), clock, (factories.PROJECT,)) for usage in (engine, other))
    first.looked_at()
    yield first, second
    other.dispose()


def shown(services: Services) -> list[Any]:
    """What the pages and the API say."""
    return [
        build_overview_page(services, OverviewQuery()),
        build_overview_page(services, OverviewQuery(window="7d", group="team")),
        build_budgets_page(services),
        build_costs_page(services, CostsAsked(aggregate=("node",))),
        build_statements_page(services),
        services.forecasts.read_outlook({}, Period.MONTH, "UTC"),
        services.forecasts.read_outlook({"team": ("vision",)}, Period.WEEK, "Europe/Berlin"),
        *(services.costs.report(question) for question in QUESTIONS),
    ]


class Writer:
    """Does one thing or another to a lab."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._luck = random.Random(seed)

    def act(self) -> str:
        """Write something, or let time pass; answers what."""
        acts: tuple[Callable[[], object], ...] = (
            self.start,
            self.run,
            self.end,
            self.reattribute,
            self.budget,
            self.price,
            self.reserve,
            self.post,
            self.wait,
        )
        act = self._luck.choice(acts)
        act()
        return act.__name__

    def start(self) -> None:
        """A node that goes on."""
        self._lab.ran(self._lab.clock.now - self._luck.randrange(3 * DAY), **self._changes())

    def run(self) -> None:
        """A node that is over."""
        start = self._lab.clock.now - self._luck.randrange(DAY, 20 * DAY)
        self._lab.ran(start, start + self._luck.randrange(1, DAY), **self._changes())

    def _changes(self) -> dict[str, Any]:
        return {
            "team": self._luck.choice(("vision", "language")),
            "labels": {"run": str(self._luck.randrange(3))},
            "ttl_seconds": self._luck.choice((None, 5 * DAY)),
        }

    def end(self) -> None:
        """One that runs ends, perhaps some time ago, and nobody knows when exactly."""
        with self._lab.units.reading() as unit:
            running = [
                usage for usage in unit.usage.list_open() if usage.start < self._lab.clock.now
            ]
        if running:
            usage = self._luck.choice(running)
            end = self._luck.randrange(usage.start, self._lab.clock.now) + 1
            with self._lab.units() as unit:
                unit.usage.save(replace(usage, end=end, end_lo=max(usage.start, end - 60)))
                node = unit.nodes.get(usage.node_id)
                unit.nodes.save(replace(node, ended_at=end, state="DELETED"))

    def reattribute(self) -> None:
        """One that runs is charged to somebody else from now on."""
        with self._lab.units() as unit:
            nodes = sorted(
                {usage.node_id for usage in unit.usage.list_open() if not usage.is_purchase}
            )
            if nodes:
                node_id = self._luck.choice(nodes)
                last = unit.attributions.list_by_node(node_id)[-1].since
                if last < self._lab.clock.now:
                    one = Attribution(node_id, self._lab.clock.now, team="speech")
                    unit.attributions.add(one, self._lab.clock.now)

    def budget(self) -> None:
        """A budget is set, changed or removed."""
        known = list(self._lab.services.budgets.list_all())
        if len(known) < 3:
            scope = Scope(team=self._luck.choice(("vision", "language", None)))
            name = f"b-{self._luck.random()}"
            self._lab.services.budgets.create(factories.budget(name=name, scope=scope))
        elif self._luck.random() < 0.5:
            amount = self._luck.randrange(1, 999) * NANOS
            self._lab.services.budgets.update_fields(known[0].id, {"amount": amount})
        else:
            self._lab.services.budgets.delete(known[0].id)

    def price(self) -> None:
        """A price that holds from some time ago on."""
        now = self._lab.clock.now
        price = factories.price(
            self._luck.randrange(1, 9) * NANOS,
            now - self._luck.randrange(DAY),
            id=f"manual/{self._luck.random()}",
            recorded_at=now,
        )
        with self._lab.units() as unit:
            unit.prices.add(price)
            unit.usage.mark_dirty({price.generation: price.effective_from})

    def reserve(self) -> None:
        """A reservation, of which there are few."""
        if self._luck.random() < 0.3:
            self._lab.bought(name=f"r-{self._luck.randrange(10**9)}")

    def post(self) -> None:
        """A tick of the daemon."""
        MeteringController(self._lab.units, self._lab.prices, self._lab.clock).tick(self._held())

    def _held(self) -> Lease:
        with self._lab.units() as unit:
            lease = unit.leases.take(factories.PROJECT, "daemon", 3_600, self._lab.clock.now)
        assert lease is not None
        return lease

    def wait(self) -> None:
        """Some time passes."""
        self._lab.clock.pass_(self._luck.choice((1, 1, 7, 60, 3 * HOUR)))


@pytest.mark.parametrize("seed", range(2))
def test_kept_figures_are_those_of_a_service_that_keeps_none(
    labs: tuple[Lab, Lab], clock: HandClock, seed: int
) -> None:
    """Whichever instance wrote, and whatever was asked before."""
    luck, writers = random.Random(seed), [Writer(lab, seed + n) for n, lab in enumerate(labs)]
    for _ in range(20):
        act = luck.choice(writers).act()
        fresh = shown(Lab(labs[0].units, clock, (factories.PROJECT,)).services)
        for lab in labs:
            assert shown(lab.services) == fresh, act


def test_a_page_after_a_write_of_another_instance_shows_it(labs: tuple[Lab, Lab]) -> None:
    """Within the same second."""
    one, other = labs
    before = build_overview_page(one.services, OverviewQuery()).figures
    other.ran(other.clock.now - 5 * HOUR)
    after = build_overview_page(one.services, OverviewQuery()).figures
    assert (before.burn, before.month) == ("$0.00", "$0.00")
    assert after.burn != before.burn
    assert (
        after.month
        == build_overview_page(other.services, OverviewQuery()).figures.month
        != before.month
    )


def test_a_budget_after_a_write_of_another_instance_shows_it(labs: tuple[Lab, Lab]) -> None:
    one, other = labs
    one.services.budgets.create(factories.budget(name="vision"))
    (before,) = build_budgets_page(one.services).rows
    other.ran(other.clock.now - 5 * HOUR)
    (after,) = build_budgets_page(one.services).rows
    assert before.spent == "$0.00"
    assert after.spent == build_budgets_page(other.services).rows[0].spent != before.spent


class Counted:
    """Counts the calls of a function."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.calls = 0

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.calls += 1
        return self._work(*args, **named)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Counted]:
    """Counts the calls of what is named."""

    def count(path: str) -> Counted:
        module, _, name = path.rpartition(".")
        found = Counted(getattr(__import__(module, fromlist=[name]), name))
        monkeypatch.setattr(path, found)
        return found

    return count


def test_a_forecast_is_made_once_a_minute_while_nothing_is_written(
    lab: Lab, counted: Callable[[str], Counted]
) -> None:
    lab.lives_a_month()
    lab.clock.pass_(-lab.clock.now % 60)
    made = counted("service.application.costs.forecasts.forecast_cost")
    for _ in range(30):
        build_overview_page(lab.services, OverviewQuery())
        lab.clock.pass_(1)
    assert made.calls == 1
    lab.clock.pass_(30)
    build_overview_page(lab.services, OverviewQuery())
    assert made.calls == 2
    lab.ran(lab.clock.now - HOUR)
    build_overview_page(lab.services, OverviewQuery())
    assert made.calls == 3


def test_what_runs_is_read_once_for_all_budgets_and_metered_once_a_second(
    lab: Lab, counted: Callable[[str], Counted]
) -> None:
    lab.lives_a_month()
    for team in ("vision", "language", None):
        lab.services.budgets.create(factories.budget(name=f"of {team}", scope=Scope(team=team)))
    read = counted("service.application.costs.costs.read_running")
    built = counted("service.application.costs.costs.make_meters")
    for _ in range(3):
        build_budgets_page(lab.services)
    assert read.calls <= 1
    assert built.calls <= 2  # of what runs, and of what is uncertain
    lab.clock.pass_(1)
    build_budgets_page(lab.services)
    assert read.calls <= 1
    assert built.calls <= 4


def test_a_forecast_is_as_of_the_minute(lab: Lab) -> None:
    """Two that are asked for within a minute are the same, of whichever instance."""
    lab.lives_a_month()
    lab.clock.pass_(-lab.clock.now % 60)
    first = lab.services.forecasts.forecast_period({})
    lab.clock.pass_(59)
    shared = lab.units, lab.prices, lab.clock
    another = ForecastService(*shared, CostService(*shared)).forecast_period({})
    assert lab.services.forecasts.forecast_period({}) == another == first
    assert first.basis.now % 60 == 0
