"""What a period will have cost, asked over HTTP."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from service.application.costs.forecasts import month_before, month_of
from service.controllers.recording.posting import post_usage
from service.domain.budgets.budget import Period
from service.domain.clock import DAY, HOUR
from service.domain.costs.forecast import Band, Method, Snapshot
from service.domain.metering.meter import Evidence
from service.domain.nodes.node import NodeState
from service.domain.pricing.price_book import Sku
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.hands import NOON

RATE = Decimal("9.6")
"""Dollars an hour of eight v5e chips."""

END = 1_796_083_200
HOURS_LEFT = (END - NOON) // HOUR


def ask(client, query=""):
    answer = client.get(f"/v1/forecasts?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def ran(units, clock):
    """Have a node run from then on, for good or until then; whatever is over is posted."""

    def run(start, end=None, **changes):
        state = NodeState.READY if end is None else NodeState.DELETED
        over = {"created_at": start, "ready_at": start, "ended_at": end, "state": state}
        node = factories.node(**(over | changes))
        usage = factories.usage(node_id=node.id, start=start, end=end, end_lo=end)
        with units() as unit:
            unit.nodes.add(node)
            usage = unit.usage.save(usage)
            post_usage(unit, usage, PriceBookCache().get_book(unit), clock.now)
        return node

    return run


@pytest.fixture
def used_to_work(ran):
    """For four weeks a node each weekday from eight until ten; the last one was yesterday."""
    midnight = NOON - NOON % DAY
    for day in range(midnight - 28 * DAY, midnight, DAY):
        if datetime.fromtimestamp(day, UTC).weekday() < 5:
            ran(day + 8 * HOUR, day + 10 * HOUR)


def test_nothing_is_expected_where_nothing_ever_ran(client):
    found = ask(client)
    assert (found["start"], found["end"]) == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
    assert found["total"] == dict.fromkeys(("low", "mid", "high"), "0.000000000")
    assert (found["method"], found["history_days"], found["last_error"]) == ("run_rate", 0, None)
    assert "Run-rate only" in found["explanation"]


def test_what_runs_is_committed_until_its_ttl_or_else_the_end(client, clock, ran):
    ran(NOON, ttl_seconds=10 * HOUR)
    ran(NOON)
    clock.pass_(HOUR)
    found = ask(client)
    assert Decimal(found["spent"]) == 2 * RATE
    assert Decimal(found["committed"]) == RATE * (9 + HOURS_LEFT - 1)
    assert Decimal(found["committed_without_ttl"]) == RATE * (HOURS_LEFT - 1)


def test_what_is_being_deleted_is_committed_to_nothing_more(client, clock, ran):
    ran(NOON, delete_requested_at=NOON + 60)
    ran(NOON, ttl_seconds=60)
    clock.pass_(HOUR)
    assert ask(client)["committed"] == "0.000000000"


def test_a_price_change_that_is_known_ahead_counts(client, clock, ran):
    ran(NOON, ttl_seconds=2 * HOUR)
    clock.pass_(60)
    price = {"generation": "v5e", "provisioning_model": "on_demand", "region": "us-west4"}
    body = price | {"usd": "2.4", "effective_from": "2026-11-05T13:00:00Z"}
    assert client.post("/v1/prices", json=body).status_code == 201
    assert Decimal(ask(client)["committed"]) == RATE * 59 / 60 + 2 * RATE


def test_what_is_spent_and_committed_is_what_the_books_say_in_the_end(client, clock, units):
    start = NOON - 5 * DAY - 17
    node = factories.node(state=NodeState.READY, ready_at=start, ttl_seconds=9 * DAY + 1)
    usage = factories.usage(node_id=node.id, start=start)
    with units() as unit:
        unit.nodes.add(node)
        usage = unit.usage.save(usage)
    clock.pass_(61)
    before = ask(client)
    clock.now, end = END, start + 9 * DAY + 1
    ended = replace(usage, end=end, end_lo=end, end_evidence=Evidence.OPERATION)
    with units() as unit:
        ended = unit.usage.save(ended)
        post_usage(unit, ended, PriceBookCache().get_book(unit), END)
    spent = client.get("/v1/costs?window=2026-11-01,2026-12-01&step=all").json()["total"]
    assert Decimal(before["spent"]) + Decimal(before["committed"]) == Decimal(spent)


@pytest.mark.usefixtures("used_to_work")
def test_what_is_launched_on_weekdays_is_expected_on_weekdays(client):
    found = ask(client)
    assert found["method"] == "weekday_launches"
    assert (found["history_days"], found["committed"]) == (28, "0.000000000")
    # Of the half of today that is left, a quarter is taken to be over by one view of three, which
    # counts as 14 days of 28 + 28: nobody knows at which hour nodes are launched.
    left = Decimal(1) / 2 - Decimal(1) / 8 * 14 / 56 * 2 + 17
    assert {Decimal(nanos) for nanos in found["new_launches"].values()} == {2 * RATE * left}
    assert Decimal(found["spent"]) == 3 * 2 * RATE
    assert Decimal(found["total"]["mid"]) == 2 * RATE * (left + 3)


@pytest.mark.usefixtures("used_to_work")
def test_what_runs_is_expected_to_go_as_soon_as_others_of_its_kind_did(client, clock, ran):
    """Of the same team, type and model: two hours on each workday for four weeks."""
    ran(NOON)
    ran(NOON, ttl_seconds=10 * DAY)
    clock.pass_(HOUR)
    found = ask(client)
    running, at_most = Decimal(found["running"]["mid"]), Decimal(found["committed"])
    assert at_most == RATE * (HOURS_LEFT - 1) + RATE * (10 * 24 - 1)
    assert 2 * RATE * 11 <= running < at_most / 4
    assert running > Decimal(found["without_ttl"]["mid"]) > 0
    parts = found["spent"], found["running"]["mid"], found["new_launches"]["mid"]
    assert Decimal(found["total"]["mid"]) == sum(map(Decimal, parts))


@pytest.mark.usefixtures("used_to_work")
def test_a_filter_is_that_of_the_costs(client, ran):
    ran(NOON - HOUR, team="nlp", ttl_seconds=2 * HOUR)
    of_nlp = ask(client, "filter=team:nlp")
    assert Decimal(of_nlp["total"]["mid"]) >= 2 * RATE
    assert (Decimal(of_nlp["spent"]), Decimal(of_nlp["committed"])) == (RATE, RATE)
    of_vision = ask(client, "filter=team:vision")
    assert of_vision["method"] == "weekday_launches"
    assert of_vision["committed"] == "0.000000000"


def test_it_does_not_matter_whether_somebody_asked_before_in_the_hour(client, clock, ran):
    for team in ("vision", "speech"):
        ran(NOON - 2 * HOUR, NOON - HOUR, team=team)
    ask(client, "filter=team:vision")
    for team in ("vision", "speech"):
        ran(NOON + 60, NOON + 600, team=team)
    clock.pass_(3_000)
    asked, unasked = (ask(client, f"filter=team:{team}") for team in ("vision", "speech"))
    assert asked == unasked
    assert asked["method"] == "run_rate"


def test_a_day_that_begins_within_an_hour_is_today_from_then_on(client, clock, ran):
    """In Kolkata it is midnight at half past six in the evening."""
    query, midnight = "tz=Asia/Kolkata", NOON + 6 * HOUR + 1_800
    ran(NOON, midnight - 60)
    clock.pass_(midnight - 1_200 - NOON)
    assert ask(client, query)["history_days"] == 0
    clock.pass_(2_400)
    assert ask(client, query)["history_days"] == 1


@pytest.mark.usefixtures("used_to_work")
def test_the_same_question_has_the_same_answer(client):
    assert ask(client) == ask(client)


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("period=day", "2026-11-05T00:00:00Z", "2026-11-06T00:00:00Z"),
        ("period=week", "2026-11-02T00:00:00Z", "2026-11-09T00:00:00Z"),
        ("period=quarter", "2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("period=year", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("tz=Europe/Berlin", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z"),
        ("period=year&tz=Pacific/Apia", "2025-12-31T11:00:00Z", "2026-12-31T11:00:00Z"),
    ],
)
@pytest.mark.usefixtures("used_to_work")
def test_the_period_is_by_the_calendar_that_was_asked_for(client, query, start, end):
    found = ask(client, query)
    assert (found["start"], found["end"]) == (start, end)
    assert Decimal(found["total"]["low"]) >= Decimal(found["spent"]) >= 0


def test_what_runs_at_a_price_nobody_knows_is_counted_and_in_no_figure(client, clock, units):
    node = factories.node(state=NodeState.READY)
    sku = Sku("v9", "on_demand", "us-west4")
    with units() as unit:
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id, sku=sku))
    clock.pass_(60)
    found = ask(client)
    assert (found["unpriced_nodes"], found["committed"]) == (1, "0.000000000")


def test_the_last_months_error_is_told_of_everything_and_of_one_team(client, units):
    last = month_before(month_of(NOON))
    half = last.start + 15 * DAY
    one = Snapshot("team:nlp", last, half, half, Band(70, 90, 95), Method.WEEKDAYS, 100, NOON)
    with units() as unit:
        unit.forecasts.add([one])
    found = ask(client, "filter=team:nlp")["last_error"]
    assert found == {
        "start": "2026-10-01T00:00:00Z",
        "end": "2026-11-01T00:00:00Z",
        "made_at": "2026-10-16T00:00:00Z",
        "forecast": {"low": "0.000000070", "mid": "0.000000090", "high": "0.000000095"},
        "actual": "0.000000100",
        "error": "-0.000000010",
        "error_percent": "-10.0",
        "within_band": False,
    }
    assert ask(client)["last_error"] is None
    with units() as unit:  # half time was before the first charge of this team
        none = Snapshot("team:ads", last, half, half, Band(0, 0, 0), Method.RUN_RATE, 100, NOON)
        unit.forecasts.add([none])
    assert ask(client, "filter=team:ads")["last_error"] is None
    assert ask(client, "filter=team:nlp,zone:us-west4-a")["last_error"] is None


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("period=decade", "'day', 'week', 'month', 'quarter' or 'year'"),
        ("period=custom", "'day', 'week', 'month', 'quarter' or 'year'"),
        ("tz=Mars/Olympus", "IANA name"),
        ("filter=colour:red", "to filter costs by"),
        ("filter=vision", "dimension:value, as in team:vision"),
        ("window=7d", "known query parameters are filter, period"),
    ],
)
def test_a_forecast_of_what_makes_no_sense_is_refused(client, query, said):
    answer = client.get(f"/v1/forecasts?{query}")
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


@pytest.mark.usefixtures("used_to_work")
def test_whoever_keeps_budgets_may_ask_for_the_three_figures(services, client):
    low, mid, high = services.forecasts.total_band({"team": ("vision",)}, Period.MONTH, "UTC")
    said = ask(client, "filter=team:vision")["total"]
    assert [Decimal(x) / 10**9 for x in (low, mid, high)] == [Decimal(x) for x in said.values()]
