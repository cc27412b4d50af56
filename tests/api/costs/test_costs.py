"""What was spent, asked over HTTP."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from service.api.costs.costs import CostView
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.metering.meter import Evidence
from service.domain.nodes.node import NodeState
from service.domain.pricing.price_book import Sku
from tests import factories
from tests.hands import NOON
from tests.purchases import metered
from tests.store.given import ran, stored


@pytest.fixture
def two_hours(units, clock):
    """Two nodes, of two teams, that have run for two hours at 9.60 dollars an hour."""
    with units() as unit:
        for team in ("vision", "nlp"):
            node = factories.node(state=NodeState.READY, team=team, labels={"run": team[0]})
            unit.nodes.add(node)
            unit.usage.save(factories.usage(node_id=node.id))
    clock.pass_(7_200)


def costs(client, query=""):
    answer = client.get(f"/v1/costs?{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.usefixtures("two_hours")
def test_costs_are_of_the_last_seven_days_by_default(client):
    found = costs(client)
    assert found == {
        "window": {"start": "2026-10-30T00:00:00Z", "end": "2026-11-05T14:00:00Z"},
        "aggregate": [],
        "step": "day",
        "tz": "UTC",
        "rows": [
            {
                "start": "2026-11-05T00:00:00Z",
                "end": "2026-11-05T14:00:00Z",
                "cost": "38.400000000",
                "list_cost": "38.400000000",
                "chip_seconds": 115_200,
                "chip_hours": "32.000000000",
                "savings": "0.000000000",
                "uncertainty": "0.000000000",
            }
        ],
        "total": "38.400000000",
        "list_total": "38.400000000",
        "savings": "0.000000000",
        "uncertainty": "0.000000000",
        "chip_hours": "32.000000000",
        "unpriced_seconds": 0,
        "chip_seconds": 115_200,
        "currency": "USD",
        "as_of": "2026-11-05T14:00:00Z",
        "estimated": True,
    }


@pytest.mark.usefixtures("two_hours")
@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("aggregate=team", [["nlp"], ["vision"]]),
        ("aggregate=team,zone", [["nlp", "us-west4-a"], ["vision", "us-west4-a"]]),
        ("aggregate=team&aggregate=zone", [["nlp", "us-west4-a"], ["vision", "us-west4-a"]]),
        ("aggregate=team,team", [["nlp"], ["vision"]]),
        ("aggregate=label:run", [["n"], ["v"]]),
        ("aggregate=region&filter=team:nlp", [["us-west4"]]),
        ("aggregate=team&filter=team:nlp,team:vision", [["nlp"], ["vision"]]),
        ("aggregate=team&filter=team:nlp&filter=team:vision", [["nlp"], ["vision"]]),
        ("aggregate=team&filter=label:run:v", [["vision"]]),
        ("aggregate=team&filter=team:nlp,label:run:v", []),
        ("aggregate=team&filter=zone:us-west4-b", []),
        ("aggregate=team&filter=job:", [["nlp"], ["vision"]]),
    ],
)
def test_rows_carry_what_they_are_grouped_by(client, query, groups):
    found = costs(client, query)
    assert [[row[name] for name in found["aggregate"]] for row in found["rows"]] == groups
    assert sum(Decimal(row["cost"]) for row in found["rows"]) == Decimal(found["total"])
    CostView.model_validate(found)


@pytest.mark.usefixtures("two_hours")
@pytest.mark.parametrize(
    ("query", "starts"),
    [
        ("step=hour", ["2026-11-05T12:00:00Z", "2026-11-05T13:00:00Z"]),
        ("step=month&window=mtd", ["2026-11-01T00:00:00Z"]),
        ("tz=Asia/Tokyo", ["2026-11-04T15:00:00Z"]),
        ("window=2026-11-05T12:30:00Z,2026-11-05T13:00:00Z&step=all", ["2026-11-05T12:30:00Z"]),
        ("window=2026-11-01,2026-11-05", []),
    ],
)
def test_buckets_follow_the_calendar_that_is_asked_for(client, query, starts):
    assert [row["start"] for row in costs(client, query)["rows"]] == starts


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("window=soon", "write 7d, 24h, today, mtd"),
        ("window=2026-11-05,2026-11-01", "before it starts; write the earlier time first"),
        ("window=2026-11-05,2026-11-05", "is empty: it ends where it starts"),
        ("window=2026-11-05T00:00:00,2026-11-06T00:00:00", "is not a window"),
        (f"window={'9' * 101}", "at most 100"),
        ("tz=Mars/Olympus", "IANA name"),
        ("tz=../../etc/passwd", "IANA name"),
        ("tz=Europe", "IANA name"),
        ("tz=", "IANA name"),
        ("step=decade", "'hour', 'day', 'week', 'month'"),
        ("step=hour&window=9999d", "longer step"),
        ("aggregate=colour", "to group costs by"),
        ("aggregate=label:", "to group costs by"),
        ("filter=vision", "dimension:value, as in team:vision"),
        ("filter=label:run", "dimension:value, as in team:vision"),
        ("filter=colour:red", "to filter costs by"),
        ("filter=label::x", "to filter costs by"),
        ("filter=team:%0a", "not allowed"),
        ("by=team", "known query parameters are aggregate, filter"),
    ],
)
def test_a_question_about_costs_that_makes_no_sense_is_refused(client, query, said):
    answer = client.get(f"/v1/costs?{query}")
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_a_dimension_that_does_not_exist_is_answered_with_those_that_do(client):
    problem = client.get("/v1/costs?filter=colour:red").json()
    assert "label:<key>" in problem["dimensions"]
    assert problem["field"] == "filter"


@pytest.mark.parametrize("step", ["hour", "day", "week", "month", "all"])
@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Pacific/Apia"])
@pytest.mark.parametrize(
    "window",
    [
        "0001-01-01,2026-11-01",
        "0001-01-01T00:00:00%2B23:59,2026-11-01",
        "2026-11-01,9999-12-31",
        "2026-11-01T00:00:00Z,9999-12-31T23:59:59-23:59",
        "9999-12-30,9999-12-31",
        "99999h",
        "9999d",
    ],
)
def test_no_window_is_too_strange_for_an_answer(client, window, tz, step):
    answer = client.get(f"/v1/costs?window={window}&tz={tz}&step={step}")
    assert answer.status_code in {200, 422}, answer.text


@pytest.mark.usefixtures("two_hours")
@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
@pytest.mark.parametrize(
    ("query", "estimated"),
    [
        ("window=2026-11-01,2026-11-04", False),
        ("window=2026-11-05,2026-11-06", True),
        ("window=2026-11-05,2026-11-06&filter=team:speech", False),
        ("window=2026-11-06,2026-11-07", True),
        ("window=30d", True),
    ],
)
def test_a_sum_is_estimated_where_something_that_ran_then_still_runs(
    client, units, clock, query, estimated, tz, posted
):
    clock.pass_(2 * DAY)
    if posted:
        metered(units, clock)
    assert costs(client, f"{query}&tz={tz}")["estimated"] is estimated


@pytest.fixture
def in_doubt(units, clock):
    """A node that began within a minute that nobody saw and ran for two hours and a half, and one
    in a region of which no price is known, that began an hour after it; nothing is posted."""
    for start, more in (
        (NOON, {"start_hi": NOON + 60, "start_evidence": Evidence.OBSERVED}),
        (NOON + HOUR, {"sku": Sku("v5e", ProvisioningModel.ON_DEMAND, "mars-west1")}),
    ):
        node = stored(units, team="vision")
        ran(units, node, start=start, **more)
    clock.pass_(9_000)


@pytest.mark.usefixtures("in_doubt")
@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
@pytest.mark.parametrize(
    ("query", "uncertain", "unpriced"),
    [
        ("window=7d", "0.160000000", 5_400),
        ("window=7d&filter=team:vision&aggregate=node&step=hour", "0.160000000", 5_400),
        ("window=2026-11-05T12:00:00Z,2026-11-05T14:00:00Z", "0.160000000", 3_600),
        ("window=2026-11-05T12:00:30Z,2026-11-05T14:15:00Z", "0.080000000", 4_500),
        ("window=2026-11-05T13:00:00Z,2026-11-05T15:00:00Z", "0.000000000", 5_400),
        ("window=7d&filter=team:nlp", "0.000000000", 0),
    ],
)
def test_what_may_not_be_true_and_what_has_no_price_is_said_in_every_time_zone(
    client, units, clock, query, uncertain, unpriced, tz, posted
):
    """At 9.60 dollars an hour; by the ledger where it may answer, and by the usage itself."""
    if posted:
        metered(units, clock)
    found = costs(client, f"{query}&tz={tz}")
    assert (found["uncertainty"], found["unpriced_seconds"]) == (uncertain, unpriced)


def test_nothing_was_spent_before_anything_ran(client):
    assert (costs(client)["rows"], costs(client)["total"]) == ([], "0.000000000")


def test_a_team_in_a_csv_file_is_never_a_formula(client, units, clock):
    node = stored(units, team='=HYPERLINK("https://example.com")')
    ran(units, node)
    clock.pass_(HOUR)
    asked = {"window": "24h", "aggregate": "team", "step": "all", "format": "csv"}
    text = client.get("/v1/costs", params=asked).text
    assert "\"'=HYPERLINK(" in text
    (row,) = client.get("/v1/costs", params=asked | {"format": "json"}).json()["rows"]
    assert row["team"] == node.team


def test_a_csv_file_says_its_currency_what_was_saved_what_is_uncertain_and_when(
    client, units, clock
):
    """Spot capacity at its own price, that began within a minute that nobody saw."""
    node = stored(units, team="vision")
    spot = Sku("v5e", ProvisioningModel.SPOT, "us-west4", single_device=True)
    ran(units, node, sku=spot, start_hi=NOON + 60, start_evidence=Evidence.OBSERVED)
    clock.pass_(HOUR + 1_800)
    asked = {"window": "24h", "aggregate": "team", "step": "hour"}
    answer = client.get("/v1/costs", params=asked | {"format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    told = client.get("/v1/costs", params=asked).json()
    assert list(rows[0]) == [
        *("start", "end", "team", "cost", "list_cost", "chip_seconds", "chip_hours"),
        *("savings", "uncertainty", "currency", "as_of"),
    ]
    known = {"currency": "USD", "as_of": "2026-11-05T13:30:00Z"}
    assert rows == [{key: str(text) for key, text in (row | known).items()} for row in told["rows"]]
    first, second = rows
    assert Decimal(first["savings"]) == Decimal(first["list_cost"]) - Decimal(first["cost"]) > 0
    assert Decimal(first["uncertainty"]) == round(Decimal(first["cost"]) / 60, 9) > 0
    assert second["uncertainty"] == "0.000000000"
    assert told["uncertainty"] == first["uncertainty"]


@pytest.mark.deep
def test_what_may_still_change_is_said_where_it_is_asked(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert "also in a month that is closed" in squeezed(paths["/v1/costs"]["get"]["description"])
    entering = squeezed(paths["/v1/prices"]["post"]["description"])
    assert "until the price feed lists one that began after it" in entering
    assert "`/v1/prices/discounts`" in entering


def squeezed(text):
    return " ".join(text.split())
