"""Negotiated discounts over HTTP, and what they do to prices and estimates."""

from __future__ import annotations

import pytest

NOW = "2026-11-05T12:00:00Z"
OURS = {
    "percent": "12.5",
    "generation": "v5e",
    "provisioning_model": "on_demand",
    "source": "our contract",
}
WEST = {"generation": "v5e", "provisioning_model": "on_demand", "region": "us-west4"}


def entered(client, **changes):
    answer = client.post("/v1/prices/discounts", json=OURS | changes)
    assert answer.status_code == 201, answer.text
    return answer.json()


def listed(client, **query):
    answer = client.get("/v1/prices/discounts", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["discounts"]


def price(client, **query):
    (found,) = client.get("/v1/prices", params=WEST | query).json()["prices"]
    return found


def hourly(client):
    body = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a"}
    answer = client.post("/v1/estimates", json=body | {"provisioning_model": "on_demand"})
    (found,) = answer.json()["estimates"]
    return found["hourly_cost"]


def test_a_discount_counts_from_now_until_further_notice(client):
    made = entered(client)
    assert (made["percent"], made["effective_from"], made["effective_until"]) == ("12.5", NOW, None)
    assert listed(client) == [made]


def test_a_price_is_shown_as_it_is_listed_with_what_is_taken_off_beside_it(client):
    before = price(client)
    made = entered(client)
    after = price(client)
    assert before["discount"] is None
    assert after == before | {
        "discount": {
            "id": made["id"],
            "percent": "12.5",
            "usd": "1.050000000",
            "source": "our contract",
        }
    }
    assert price(client, at="2026-11-05T11:59:59Z") == before


def test_an_estimate_is_of_what_is_paid(client):
    assert hourly(client) == "9.600000000"
    entered(client)
    assert hourly(client) == "8.400000000"


def test_a_discount_may_be_for_any_generation_and_any_model(client):
    made = entered(client, generation="", provisioning_model=None, percent="50")
    assert (made["generation"], made["provisioning_model"]) == ("", "")
    answer = client.get("/v1/prices", params={"page_size": 1000}).json()["prices"]
    tpus = [discount for discount in answer if discount["unit"] != "vm_hour"]
    assert {tpu["discount"]["percent"] for tpu in tpus} == {"50"}
    assert {discount["discount"] for discount in answer if discount not in tpus} == {None}, (
        "of machines"
    )


def test_a_discount_for_a_machine_type_stands_beside_one_for_every_tpu(client):
    entered(client, generation="", provisioning_model=None, percent="50")
    machine = {"generation": "n1-standard-8", "provisioning_model": "on_demand"}
    made = entered(client, **machine, percent="20")
    (found,) = client.get("/v1/prices", params=machine | {"region": "us-central1"}).json()["prices"]
    assert (found["unit"], found["usd"]) == ("vm_hour", "0.379998000")
    assert (found["discount"]["id"], found["discount"]["usd"]) == (made["id"], "0.303998400")
    again = client.post("/v1/prices/discounts", json=OURS | {"generation": "n1-standard-8"})
    assert again.status_code == 409
    assert "20 % off n1-standard-8 on_demand" in again.json()["detail"]


def test_a_discount_on_what_a_reservation_by_the_calendar_costs(client):
    assert entered(client, provisioning_model="calendar")["provisioning_model"] == "calendar"


def test_a_discount_on_preemptible_is_one_on_spot(client):
    made = entered(client, provisioning_model="preemptible")
    assert made["provisioning_model"] == "spot"


def test_discounts_are_asked_for_as_they_were_and_will_be(client):
    now = entered(client, effective_until="2026-12-01")
    later = entered(client, effective_from="2026-12-01", percent="20")
    assert listed(client) == [later, now]
    assert listed(client, at=NOW) == [now]
    assert listed(client, at="2026-12-01") == [later]
    assert listed(client, at="2026-11-05T11:59:59Z") == []
    assert price(client, at="2026-11-30T23:59:59Z")["discount"]["percent"] == "12.5"
    assert price(client, at="2026-12-01")["discount"]["percent"] == "20"


def test_a_list_of_discounts_is_cut_into_pages(client):
    entered(client, effective_until="2026-12-01")
    entered(client, effective_from="2026-12-01")
    first = client.get("/v1/prices/discounts", params={"page_size": 1}).json()
    token = first["next_page_token"]
    second = client.get("/v1/prices/discounts", params={"page_token": token}).json()
    assert first["discounts"] + second["discounts"] == listed(client)
    assert second["next_page_token"] == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"percent": "0"}, "more than 0"),
        ({"percent": "-5"}, "more than 0"),
        ({"percent": "100"}, "less than 100"),
        ({"percent": "0.00001"}, "four decimal places"),
        ({"percent": "a lot"}, "not a percentage"),
        ({"percent": 12.5}, "string"),
        ({"percent": "9" * 21}, "at most 20"),
        ({"generation": "v9"}, "there is no generation"),
        ({"generation": "v2-8"}, "v2-8 is an accelerator type; prices are those of its gen"),
        ({"generation": "n1-standard-8", "provisioning_model": "reserved"}, "on_demand or spot"),
        ({"provisioning_model": "gift"}, "'on_demand'"),
        ({"effective_from": "2026-11-04"}, "a discount cannot change the past"),
        ({"effective_from": "2026-10-31"}, "2026-10 is closed"),
        ({"effective_until": "2026-11-05T12:00:00Z"}, "ends before it begins"),
        ({"effective_from": "2026-12-01", "effective_until": "2026-11-20"}, "ends before"),
        ({"effective_until": "soon"}, "write it as 2026-11-01T00:00:00Z"),
        ({"source": ""}, "should not be empty"),
        ({"percentage": "5"}, "known fields are"),
    ],
)
def test_a_discount_that_cannot_be_is_refused(client, changes, said):
    answer = client.post("/v1/prices/discounts", json=OURS | changes)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert listed(client) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"generation": ""},
        {"provisioning_model": None},
        {"generation": "", "provisioning_model": None, "effective_from": "2027-01-01"},
        {"effective_until": "2026-11-05T12:00:01Z"},
    ],
)
def test_a_second_discount_on_the_same_price_is_refused_and_names_the_first(client, changes):
    first = entered(client)
    answer = client.post("/v1/prices/discounts", json=OURS | changes)
    assert answer.status_code == 409
    assert answer.json()["discount"] == first["id"]
    assert first["id"] in answer.json()["detail"]
    assert "12.5 % off v5e on_demand" in answer.json()["detail"]
    assert listed(client) == [first]


def test_discounts_on_different_prices_stand_beside_each_other(client):
    some = [
        entered(client),
        entered(client, generation="v6e"),
        entered(client, percent="1", provisioning_model="spot"),
    ]
    assert len(listed(client)) == len(some)


def end(client, discount, **body):
    return client.post(f"/v1/prices/discounts/{discount['id']}:end", json=body or None)


def test_a_discount_is_ended_early_and_what_was_paid_until_then_stays(client, clock):
    made = entered(client)
    clock.pass_(3_600)
    answer = end(client, made)
    assert answer.status_code == 200
    assert answer.json() == made | {
        "effective_until": "2026-11-05T13:00:00Z",
        "recorded_at": "2026-11-05T13:00:00Z",
    }
    assert listed(client) == [answer.json()]
    assert price(client)["discount"] is None
    assert price(client, at=NOW)["discount"]["id"] == made["id"]
    assert entered(client, percent="20")["id"] != made["id"]


def test_a_discount_may_be_ended_later_than_now_and_before_it_began(client):
    made = entered(client, effective_from="2026-12-01")
    assert end(client, made, effective_until="2027-01-01").status_code == 200
    never = end(client, made).json()
    assert never["effective_until"] == never["effective_from"]
    assert price(client, at="2026-12-15")["discount"] is None
    entered(client, effective_from="2026-12-01")


def test_an_end_never_rewrites_the_past_and_never_makes_a_discount_longer(client):
    made = entered(client, effective_until="2026-12-01")
    past = end(client, made, effective_until="2026-11-05T11:00:00Z")
    assert past.status_code == 422
    assert "cannot change the past" in past.json()["detail"]
    longer = end(client, made, effective_until="2026-12-02")
    assert longer.status_code == 422
    assert "it ends at 2026-12-01T00:00:00Z already" in longer.json()["detail"]
    assert listed(client) == [made]


def test_an_end_that_is_told_again_changes_nothing(client, clock):
    made = entered(client, effective_until="2026-12-01")
    assert end(client, made, effective_until="2026-12-01").json() == made
    ended = end(client, made).json()
    clock.pass_(60)
    assert end(client, made).json() == ended
    assert end(client, made, effective_until=ended["effective_until"]).json() == ended
    assert listed(client) == [ended]


def test_a_discount_told_again_with_its_key_is_one_even_when_its_start_is_over(client, clock):
    key = {"Idempotency-Key": "contract-2026"}
    body = OURS | {"effective_from": "2026-11-05T12:00:30Z"}
    first = client.post("/v1/prices/discounts", json=body, headers=key)
    clock.pass_(60)
    again = client.post("/v1/prices/discounts", json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert "Idempotency-Hit" not in first.headers
    assert again.headers["Idempotency-Hit"] == "true"
    assert again.json() == first.json()
    other = client.post("/v1/prices/discounts", json=OURS | {"percent": "20"}, headers=key)
    assert other.status_code == 422
    assert other.json()["led_to"] == first.json()["id"]
    assert len(listed(client)) == 1


def test_a_discount_that_nobody_entered_cannot_be_ended(client):
    entered(client)
    unknown = {"id": "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"}
    assert end(client, unknown).status_code == 404
    assert end(client, {"id": "x"}).status_code == 422
