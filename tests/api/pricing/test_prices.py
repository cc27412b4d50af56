"""The price book over HTTP."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from service.api.pricing.prices import Sold
from service.domain.catalog.provisioning import ProvisioningModel
from tests import factories

PRICE = {
    "generation": "v5e",
    "provisioning_model": "on_demand",
    "region": "us-west4",
    "usd": "1.10",
    "source": "our contract",
}
OURS = {"generation": "v5e", "provisioning_model": "on_demand", "region": "us-west4"}


def prices(client, **query):
    answer = client.get("/v1/prices", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["prices"]


def test_a_price_is_shown_with_its_source(client):
    (price,) = prices(client, **OURS)
    assert price["id"].startswith("v5e/on_demand/chip_hour/us-west4/")
    assert (price["usd"], price["unit"]) == ("1.200000000", "chip_hour")
    assert price["source"]
    assert price["confidence"]


def test_prices_are_asked_for_as_they_were(client):
    dates = [price["effective_from"] for price in prices(client, at="2025-01-01")]
    assert dates
    assert max(dates) <= "2025-01-01T00:00:00Z"
    assert prices(client, at="2025-01-01") == prices(client, at="2025-01-01T00:00:00Z")
    assert prices(client, at="1999-01-01") == []


def test_a_region_is_answered_with_the_price_of_its_group_where_it_has_none(client):
    shown = prices(client, generation="v2", region="us-central1", at="2019-06-01")
    assert {price["region"] for price in shown} <= {"us", "us-central1"}
    assert shown


def test_a_list_of_prices_is_cut_into_pages(client):
    first = client.get("/v1/prices", params={"page_size": 10}).json()
    second = client.get("/v1/prices", params={"page_token": first["next_page_token"]}).json()
    assert first["prices"] + second["prices"] == prices(client)
    assert second["next_page_token"] == ""


def test_a_price_told_again_with_its_key_is_one_even_when_its_start_is_over(client, clock):
    key = {"Idempotency-Key": "k-1"}
    body = PRICE | {"effective_from": "2026-11-05T12:00:30Z"}
    first = client.post("/v1/prices", json=body, headers=key)
    clock.pass_(60)
    again = client.post("/v1/prices", json=dict(reversed(body.items())), headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert "Idempotency-Hit" not in first.headers
    assert again.headers["Idempotency-Hit"] == "true"
    assert again.json() == first.json()
    other = client.post("/v1/prices", json=body | {"usd": "1.11"}, headers=key)
    assert other.status_code == 422
    assert other.json()["led_to"] == first.json()["id"]
    kind = client.post("/v1/prices/discounts", json={"percent": "5"}, headers=key)
    assert kind.status_code == 201


@pytest.mark.parametrize("model", ["on_demand", "spot"])
def test_a_second_price_for_the_same_instant_is_refused(client, model):
    body = PRICE | {"provisioning_model": model, "effective_from": "2026-12-01"}
    first = client.post("/v1/prices", json=body)
    assert first.status_code == 201, first.text
    other = "preemptible" if model == "spot" else model
    second = client.post("/v1/prices", json=body | {"usd": "1.20", "provisioning_model": other})
    assert second.status_code == 409
    assert second.json()["price_id"] == first.json()["id"]
    assert "$1.10" in second.json()["detail"]
    later = body | {"usd": "1.20", "effective_from": "2026-12-01T00:00:01Z"}
    assert client.post("/v1/prices", json=later).status_code == 201
    elsewhere = body | {"region": "us-central1"}
    assert client.post("/v1/prices", json=elsewhere).status_code == 201


def test_a_price_that_is_entered_counts_from_now_on(client, clock):
    answer = client.post("/v1/prices", json=PRICE)
    assert answer.status_code == 201
    entered = answer.json()
    assert entered["usd"] == "1.100000000"
    assert entered["effective_from"] == "2026-11-05T12:00:00Z"
    assert prices(client, **OURS) == [entered]
    assert prices(client, **OURS, at="2026-11-05T11:59:59Z")[0]["usd"] == "1.200000000"


def test_a_price_says_in_which_currency_it_is(client):
    assert client.post("/v1/prices", json=PRICE | {"currency": "USD"}).status_code == 201


def test_a_gap_is_filled_in_months_that_are_not_closed(client):
    gap = PRICE | {"generation": "v6e", "region": "asia-east1"}
    closed = client.post("/v1/prices", json=gap | {"effective_from": "2026-10-31T23:59:59Z"})
    assert closed.status_code == 422
    assert closed.json()["field"] == "effective_from"
    assert "2026-10 is closed" in closed.json()["detail"]
    assert "is 2026-11" in closed.json()["detail"]
    filled = client.post("/v1/prices", json=gap | {"effective_from": "2026-11-01"})
    assert filled.status_code == 201


MACHINE = {
    "generation": "n1-standard-8",
    "provisioning_model": "spot",
    "region": "us-central1",
    "unit": "vm_hour",
    "usd": "0.08",
}


def test_a_machine_has_a_price_an_hour(client):
    asked = {"generation": "n1-standard-8", "region": "us-central1"}
    (known,) = prices(client, **asked)
    assert (known["unit"], known["provisioning_model"]) == ("vm_hour", "on_demand")
    answer = client.post("/v1/prices", json=MACHINE)
    assert answer.status_code == 201, answer.text
    assert prices(client, **asked) == [known, answer.json()]
    assert prices(client, **asked, provisioning_model="spot") == [answer.json()]
    assert prices(client, generation="c4-nobody-1") == []


@pytest.mark.parametrize("body", [PRICE, MACHINE])
@pytest.mark.parametrize(
    ("region", "closest"),
    [("mars-west4", "us-west4"), ("us-west4-a", "us-west4"), ("US-Central1", "us-central1")],
)
def test_a_price_of_a_region_that_is_none_is_refused_with_the_closest(
    client, body, region, closest
):
    answer = client.post("/v1/prices", json=body | {"region": region})
    assert answer.status_code == 422
    found = answer.json()
    assert (found["field"], found["closest"][0]) == ("region", closest)
    assert f"there is no region {region!r}; did you mean {closest}" in found["detail"]
    assert region not in {price["region"] for price in prices(client)}


def test_a_region_like_no_other_is_refused_with_where_they_are_listed(client):
    answer = client.post("/v1/prices", json=PRICE | {"region": "7"})
    assert (answer.status_code, answer.json()["closest"]) == (422, [])
    assert answer.json()["detail"] == (
        "there is no region '7'; GET /v1/catalog/zones lists those that have TPUs, as in us-west4"
    )


@pytest.mark.parametrize("region", ["asia-pacific", "us", "africa-south1", "northpole-north1"])
def test_a_price_is_taken_for_a_group_and_for_a_region_that_the_book_knows(client, units, region):
    with units() as unit:  # as the list of Google's prices may have named one that opened since
        unit.prices.add(factories.price(id="catalog/1", region="northpole-north1"))
    for body in (PRICE, MACHINE):
        assert client.post("/v1/prices", json=body | {"region": region}).status_code == 201


def test_prices_of_machines_come_after_those_of_tpus(client):
    units = [price["unit"] for price in prices(client)]
    assert "vm_hour" in units
    assert "vm_hour" not in units[: units.index("vm_hour")]
    assert set(units[units.index("vm_hour") :]) == {"vm_hour"}


def test_what_a_reservation_by_the_calendar_costs_may_be_entered(client):
    answer = client.post("/v1/prices", json=PRICE | {"provisioning_model": "calendar"})
    assert answer.status_code == 201, answer.text
    asked = {"generation": "v5e", "provisioning_model": "calendar", "region": "us-west4"}
    assert prices(client, **asked) == [answer.json()]


def test_a_price_may_be_entered_for_every_model_that_nodes_are_bought_by():
    assert {*ProvisioningModel, "calendar"} == set(get_args(Sold))


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"unit": "chip_hour"}, "unit", "n1-standard-8 is a machine type, priced per vm_hour"),
        ({"unit": "device_hour"}, "unit", "only v2 and v3|is a machine type"),
        ({"generation": "v5e"}, "unit", "v5e is a generation of TPUs, priced per chip_hour"),
        ({"generation": "v2-8"}, "generation", "v2-8 is an accelerator type"),
        ({"generation": "N1 standard"}, "generation", "write it as n1-standard-8"),
        ({"provisioning_model": "reserved"}, "provisioning_model", "sold on_demand or spot here"),
        ({"provisioning_model": "calendar"}, "provisioning_model", "sold on_demand or spot here"),
    ],
)
def test_a_price_of_a_machine_that_cannot_be_is_refused(client, changes, field, said):
    before = prices(client)
    answer = client.post("/v1/prices", json=MACHINE | changes)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert re.search(said, answer.json()["detail"])
    assert prices(client) == before


@pytest.mark.parametrize("generation", ["v2-8", "v9", "N1-Standard-8"])
def test_prices_of_what_is_no_hardware_are_not_asked_for(client, generation):
    answer = client.get("/v1/prices", params={"generation": generation})
    assert (answer.status_code, answer.json()["field"]) == (422, "generation")


def test_a_month_that_was_over_for_less_than_three_days_still_takes_a_price(client, clock):
    clock.pass_(-(36 + 48) * 3_600)
    gap = PRICE | {"generation": "v6e", "region": "asia-east1", "effective_from": "2026-10-31"}
    assert client.post("/v1/prices", json=gap).status_code == 201


def test_a_price_may_begin_later(client, clock):
    entered = client.post("/v1/prices", json=PRICE | {"effective_from": "2026-12-01"}).json()
    assert prices(client, **OURS)[0]["usd"] == "1.200000000"
    clock.pass_(26 * 86_400)
    assert prices(client, **OURS) == [entered]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"usd": 1.1}, "string"),
        ({"usd": "free"}, "not an amount"),
        ({"usd": "NaN"}, "finite"),
        ({"usd": "1.0000000001"}, "nine decimal places"),
        ({"usd": "0"}, "more than zero"),
        ({"usd": "-1"}, "more than zero"),
        ({"usd": "1e9"}, "check the unit"),
        ({"usd": "1e400"}, "more than an amount can hold"),
        ({"usd": "9" * 41}, "at most 40"),
        ({"unit": "pod_hour"}, "'chip_hour', 'device_hour' or 'vm_hour'"),
        ({"unit": "device_hour"}, "only v2 and v3"),
        ({"generation": "v9"}, "there is no generation"),
        ({"provisioning_model": "gift"}, "'on_demand'"),
        ({"region": ""}, "should not be empty"),
        ({"source": "a\0"}, "not allowed"),
        ({"effective_from": "2026-11-01"}, "cannot change the past"),
        ({"effective_from": "2026-11-09T12:00:00"}, "write it as 2026-11-01T00:00:00Z"),
        ({"effective_from": "9999-12-31T23:59:59-23:59"}, "between 1970 and 2100"),
        ({"effective_from": 1_793_880_000}, "string"),
        ({"effective_from": "2026-10-31"}, "2026-10 is closed"),
        ({"currency": "EUR"}, "prices are stored in USD"),
        ({"currency": "usd"}, "prices are stored in USD"),
        ({"currency": 7}, "string"),
        ({"curency": "USD"}, "known fields are confidence, currency, effective_from"),
    ],
)
def test_a_price_that_cannot_be_is_refused(client, changes, said):
    before = prices(client)
    answer = client.post("/v1/prices", json=PRICE | changes)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert prices(client) == before


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"at": "yesterday"}, "write it as 2026-11-01T00:00:00Z"),
        ({"at": "2026-11-01T00:00:00"}, "write it as"),
        ({"at": "0001-01-01T00:00:00+23:59"}, "between 1970 and 2100"),
        ({"page_token": "-1"}, "pattern"),
        ({"region": "x" * 300}, "at most 80"),
    ],
)
def test_a_question_about_prices_that_means_nothing_is_refused(client, query, said):
    answer = client.get("/v1/prices", params=query)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
