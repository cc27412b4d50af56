"""Which hardware fits a need, asked over HTTP."""

from __future__ import annotations

from decimal import Decimal

import pytest

from service.application.pricing.estimates import EstimateService, PlanTerms
from service.domain.clock import DAY
from service.domain.pricing.sizing import Need
from service.store.pricebook import PriceBookCache
from tests import factories


def plan(client, **body):
    return client.post("/v1/estimates:plan", json=body)


def test_a_plan_is_by_type_and_model_at_the_cheapest_place(client):
    answer = plan(client, chips=8, generation="v5e", provisioning_model="on_demand")
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["plans"]
    assert (first["accelerator_type"], second["accelerator_type"]) == (
        "v5litepod-8",
        "v5litepod-16",
    )
    body = {"accelerator_type": "v5litepod-8", "provisioning_model": "on_demand"}
    cheapest, *_ = client.post("/v1/estimates", json=body).json()["estimates"]
    assert (first["zone"], first["hourly_cost"]) == (cheapest["zone"], cheapest["hourly_cost"])
    assert (first["duration_seconds"], first["cost"], first["meets_deadline"]) == (None, None, None)
    assert (first["hbm_gib"], first["flops_per_second"]) == (128, "1576000000000000")


def test_work_and_a_deadline_say_what_comes_in_time(client):
    found = plan(
        client,
        flops="5.6736e19",
        deadline_seconds=3_600,
        utilisation_percent=100,
        generation="v5e",
        global_batch=1_024,
        per_chip_batch=4,
    ).json()["plans"]
    best = found[0]
    assert best["accelerator_type"] == "v5litepod-128"
    assert best["meets_everything"]
    assert best["duration_seconds"] == 2_250
    assert (best["accumulation_steps"], best["divides_evenly"]) == (2, True)
    assert Decimal(best["cost"]) * 3_600 == Decimal(best["hourly_cost"]) * 2_250
    late = {plan["accelerator_type"] for plan in found if not plan["meets_deadline"]}
    assert late == {"v5litepod-1", "v5litepod-4"}


def test_a_deadline_may_be_an_instant(client):
    found = plan(client, chips=8, generation="v5e", deadline="2026-11-05T13:00:00Z").json()
    assert {plan["duration_seconds"] for plan in found["plans"]} == {3_600}
    assert found["as_of"] == "2026-11-05T12:00:00Z"


@pytest.mark.parametrize(
    "speed", ["1.8e15", "1800000000000000", 1_800_000_000_000_000, 1.8e15], ids=repr
)
def test_a_large_number_is_read_exactly_however_it_is_written(client, speed):
    found = plan(client, flops_per_second=speed, generation="v5e").json()["plans"]
    assert {plan["accelerator_type"] for plan in found} == {"v5litepod-16", "v5litepod-32"}


def test_only_where_it_is_asked_for_and_flex_start_no_longer_than_it_is_sold(client):
    body = {"chips": 8, "generation": "v6e"}
    there = plan(client, **body, regions=["us-east5"]).json()["plans"]
    assert {plan["region"] for plan in there} == {"us-east5"}
    week = 7 * 86_400
    short = plan(client, **body, duration_seconds=week).json()["plans"]
    long = plan(client, **body, duration_seconds=week + 1).json()["plans"]
    assert "flex_start" in {plan["provisioning_model"] for plan in short}
    assert "flex_start" not in {plan["provisioning_model"] for plan in long}


def test_a_reservation_is_planned_with_for_no_longer_than_it_lasts(client, units, clock):
    bought = {
        "name": "autumn",
        "zone": "us-west4-a",
        "generation": "v5e",
        "chips": 64,
        "starts_at": "2026-11-05T12:00:00Z",
        "ends_at": "2026-11-07T12:00:00Z",
    }
    assert client.post("/v1/reservations", json=bought).status_code == 201
    estimates = EstimateService(units, PriceBookCache(), clock, project=factories.PROJECT)

    def models(seconds):
        found = estimates.plan_hardware(
            Need(chips=8, seconds=seconds), PlanTerms("v5e", None, ("us-west4",))
        )
        return {option.offer.model for option in found.options if option.cost is not None}

    assert models(2 * DAY) - models(2 * DAY + 1) == {"reserved"}


def test_what_has_no_known_price_is_last_and_says_so(client):
    found = plan(client, chips=8, duration_seconds=3_600).json()["plans"]
    unpriced = [plan["cost"] is None for plan in found]
    assert unpriced == sorted(unpriced)
    assert all((plan["note"] != "") == (plan["cost"] is None) for plan in found)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "give what is needed"),
        ({"chips": 0}, "greater than or equal to 1"),
        ({"chips": 8, "flops": "many"}, "write a whole number"),
        ({"chips": 8, "flops": "1e-3"}, "write a whole number"),
        ({"chips": 8, "flops": "1.25"}, "write a whole number"),
        ({"chips": 8, "flops": "1e99"}, "less than or equal to"),
        ({"chips": 8, "flops": "0"}, "at least 1"),
        ({"chips": 8, "flops": True}, "write a whole number"),
        ({"chips": 8, "max_spend": "0"}, "more than zero"),
        ({"chips": 8, "max_spend": "a lot"}, "not an amount"),
        ({"chips": 8, "utilisation_percent": 101}, "less than or equal to 100"),
        ({"chips": 8, "deadline": "2026-11-05T11:00:00Z"}, "has passed"),
        (
            {"chips": 8, "deadline": "2026-11-06", "deadline_seconds": 5},
            "deadline or deadline_seconds, not both",
        ),
        ({"chips": 8, "generation": "v9"}, "no generation"),
        ({"chips": 8, "generation": "v7"}, "no such hardware"),
        ({"chips": 8, "regions": ["mars-north1"]}, "sold that way there; leave out regions"),
        ({"chips": 100_000}, "is closest"),
        ({"chips": 8, "seconds": 5}, "unknown field 'seconds'"),
    ],
)
def test_a_plan_of_what_cannot_be_is_refused(client, body, said):
    answer = plan(client, **body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_what_is_impossible_is_answered_with_the_type_that_comes_closest(client):
    problem = plan(client, hbm_gib=10**6).json()
    assert problem["closest"] == "v5p-12288"
    assert problem["hbm_gib"] == 6_144 * 95
    body = {"chips": 8, "generation": "v5e", "provisioning_model": "on_demand"}
    problem = plan(client, **body, duration_seconds=3_600, max_spend="0.01").json()
    assert problem["closest"]
    assert Decimal(problem["cost"]) > Decimal("0.01")
