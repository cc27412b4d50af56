"""The rows that a page shows add up to the total that it shows, whatever the amounts are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from service.dashboard.kit.figures import format_money
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.clock import DAY, HOUR, parse_rfc3339
from service.domain.metering.meter import Evidence
from service.domain.money import NANOS, half_even, parse_usd
from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import cells_of, nanos_of, text_of
from tests.databases import fresh_database
from tests.hands import NOON, HandClock

OCTOBER = NOON - 12 * DAY


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Pages of a lab with 40 teams, thirds of a cent, a huge day and a negative correction."""
    with fresh_database("sqlite", tmp_path_factory.mktemp("sums")) as address:
        engine = make_engine(address)
        lab = Lab(Units(engine), HandClock(OCTOBER - 20 * DAY), (factories.PROJECT,))
        lab.services.prices.add(factories.price(1_003_333_333))
        lab.clock.now = OCTOBER
        late = lab.ran(OCTOBER - 5 * HOUR - 31, OCTOBER - 7, name="late", team="late")
        lab.clock.now = NOON
        lab.learned(late, end=OCTOBER - 900, end_lo=OCTOBER - 940, end_evidence=Evidence.OBSERVED)
        for number in range(40):
            start = NOON - 4 * DAY + 3_001 * number
            lab.ran(start, start + 11 + 331 * number, team=f"team-{number:02d}")
        pod = {"generation": "v5p", "accelerator_type": "v5p-6144", "chips": 3_072, "hosts": 768}
        lab.ran(NOON - 2 * DAY, NOON - DAY - 1, zone="us-east5-a", team="huge", **pod)
        lab.ran(NOON - 2 * HOUR - 1, team="runs", ttl_seconds=DAY + 1)
        lab.clock.pass_(777)
        lab.looked_at()
        for team, amount in (("runs", 333_333_333_333), ("team-07", NANOS // 3 * 100), (None, 0)):
            budget = factories.budget(
                name=f"of {team}",
                scope=Scope(team=team),
                amount=amount or 999_999 * NANOS,
                on_exceeded=OnExceeded.REFUSE,
            )
            lab.services.budgets.create(budget)
        with TestClient(lab.whole(), base_url="http://localhost") as made:
            yield made
        engine.dispose()


def _amount(cell: str) -> int:
    """An amount in nano-dollars; nothing for a dash."""
    return nanos_of(cell.split(maxsplit=1)[0]) if "$" in cell else 0


def _section(page: str, heading: str) -> list[list[str]]:
    return cells_of(page[page.index(f'id="{heading}-heading"') :], to_the_cent=True)


@pytest.mark.parametrize("window", ["7d", "30d", "90d"])
@pytest.mark.parametrize("group", ["generation", "team", "provisioning_model"])
def test_the_first_page(caller: TestClient, window: str, group: str) -> None:
    page = caller.get(f"/?window={window}&group={group}").text
    _, *days, foot = _section(page, "chart")
    for row in (*days, foot):
        assert _amount(row[1]) == sum(map(_amount, row[2:]))
    for column in range(1, len(foot)):
        assert sum(_amount(row[column]) for row in days) == _amount(foot[column])
    _, *hours, last_day = cells_of(page[page.index('class="last-day"') :])
    assert len(hours) == 24
    assert sum(_amount(row[1]) for row in hours) == _amount(last_day[1])
    _, *spenders = _section(page, "spenders")
    total = re.search(r"<strong>(\$[^<]*)</strong> by (team|owner)", page)
    assert total is not None
    assert sum(_amount(row[1]) for row in spenders) == nanos_of(total[1]) == _amount(foot[1])
    assert len(spenders) == 6


@pytest.mark.parametrize("show", ["cost", "rate"])
@pytest.mark.parametrize("step", ["all", "hour", "day", "month"])
@pytest.mark.parametrize("window", ["mtd", "30d", "2026-10-01,2026-11-01"])
def test_the_costs(caller: TestClient, window: str, step: str, show: str) -> None:
    page = caller.get(f"/costs?window={window}&step={step}&show={show}")
    cost = re.search(r"Cost (\$\S+)", text_of(page))
    assert cost is not None
    headings = ["group", *(["time"] if step != "all" else []), *(["matrix"] * (show == "cost"))]
    for heading in headings:
        _, *rows, total = _section(page.text, heading)
        columns = range(1, len(total)) if heading == "matrix" else (1, 3, 4)
        for column in columns:
            assert sum(_amount(row[column]) for row in rows) == _amount(total[column])
        assert _amount(total[1]) == nanos_of(cost[1])


def test_costs_of_an_empty_window_have_no_rows_and_no_chart(caller: TestClient) -> None:
    page = caller.get("/costs?window=2020-01-01,2020-02-01&step=day")
    assert "Cost $0.00" in text_of(page)
    assert "<table" not in page.text
    assert 'class="plot"' not in page.text


@pytest.mark.parametrize(("month", "corrected"), [("2026-10", False), ("2026-11", True)])
def test_a_statement(caller: TestClient, month: str, *, corrected: bool) -> None:
    page = caller.get(f"/statements/{month}")
    billed = re.search(r"Billed in this month (.*?) 20", text_of(page))
    assert billed is not None
    sums = []
    for heading in ["own", *(["corrections"] if corrected else [])]:
        _, *rows, total = _section(page.text, heading)
        assert sum(_amount(row[-1]) for row in rows) == _amount(total[-1])
        sums.append(_amount(total[-1]))
    assert sum(sums) == nanos_of(billed[1].replace(" ", ""))
    assert (sums[-1] < 0) is corrected


def test_budgets(caller: TestClient) -> None:
    said = re.findall(
        r"<dt>Spent</dt><dd>(\S+).*?<dt>Held</dt><dd>(\S+?)</dd>"
        r".*?<dt>Left at worst</dt><dd>(\S+?)</dd>.*?<dt>Amount</dt><dd>(\S+?)</dd>",
        caller.get("/budgets").text,
        re.DOTALL,
    )
    assert len(said) == 3
    for spent, held, left, amount in said:
        assert nanos_of(spent) + nanos_of(held) + nanos_of(left) == nanos_of(amount)


def test_the_first_page_draws_the_forecast_and_the_budget_beside_its_days(
    caller: TestClient,
) -> None:
    page = caller.get("/?window=30d").text
    said = caller.get("/v1/forecasts").json()
    left = parse_rfc3339(said["end"]) - parse_rfc3339(said["as_of"])
    rest = parse_usd(said["total"]["mid"]) - parse_usd(said["spent"])
    a_day = format_money(half_even(rest * DAY, left))
    assert f"forecast: {a_day} a day until the month ends" in page
    budget = format_money(half_even(999_999 * NANOS, 30))
    assert f"budget of everything: {budget} a day" in page
    for kind in ("middle", "budget"):
        assert page.count(f'class="overlay {kind}"') == 2
    assert 'viewBox="0 0 55 240"' in page  # thirty days, and 25 to come
    assert 'class="overlay' not in caller.get("/?window=7d").text
