"""Committed-use discounts over HTTP: recorded, worked out, withdrawn."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest

from service.domain.clock import DAY, HOUR, to_rfc3339
from tests import books
from tests.hands import NOON
from tests.purchases import metered

PATH = "/v1/commitments"
BASE = {
    "name": "base",
    "region": "us-west4",
    "generation": "v5e",
    "chips": 8,
    "term": "1y",
    "starts_at": "2026-11-01T00:00:00Z",
    "team": "infra",
}
NOBODYS = "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def record(client):
    """Record one; answers its document."""

    def recorded(**changes):
        answer = client.post(PATH, json=BASE | changes)
        assert answer.status_code == 201, answer.text
        return answer.json()

    return recorded


def listed(client, **query):
    answer = client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["commitments"]


def withdrawn(client, one, reason="bought twice"):
    return client.delete(f"{PATH}/{one['id']}", params={"reason": reason})


def used(client, start, end):
    window = f"{to_rfc3339(start)},{to_rfc3339(end)}"
    answer = client.get(f"{PATH}/usage", params={"window": window})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_commitment_is_recorded_and_found_again(client):
    answer = client.post(PATH, json=BASE | {"owner": "ada", "labels": {"order": "17"}})
    assert answer.status_code == 201
    made = answer.json()
    assert answer.headers["location"] == f"{PATH}/{made['id']}"
    assert client.get(answer.headers["location"]).json() == made
    assert listed(client) == [made]
    assert made == {
        "id": made["id"],
        "name": "base",
        "project": "",
        "region": "us-west4",
        "generation": "v5e",
        "chips": 8,
        "term": "1y",
        "starts_at": "2026-11-01T00:00:00Z",
        "ends_at": "2027-11-01T00:00:00Z",
        "state": "running",
        "owner": "ada",
        "team": "infra",
        "labels": {"order": "17"},
        "usd_per_chip_hour": "0.840000000",
        "rate_origin": "list",
        "price_id": "v5e/cud_1y/chip_hour/us-west4/2026-08-06",
        "fee": "725.760000000",
        "whole_fee": "58867.200000000",
        "recorded_at": "2026-11-05T12:00:00Z",
        "recorded_by": "caller",
        "withdrawn_at": None,
        "reason": "",
        "as_of": "2026-11-05T12:00:00Z",
    }


def test_the_very_same_once_more_is_the_one_that_is_there(client, record):
    first = record()
    again = client.post(PATH, json=BASE)
    assert (again.status_code, again.json()) == (200, first)
    other = client.post(PATH, json=BASE | {"chips": 16})
    assert other.status_code == 409
    assert other.json()["commitment_id"] == first["id"]
    assert len(listed(client)) == 1


def test_the_rate_of_a_contract_goes_before_the_list_price(record):
    one = record(usd_per_chip_hour="0.70")
    assert (one["usd_per_chip_hour"], one["rate_origin"]) == ("0.700000000", "contract")
    assert one["whole_fee"] == "49056.000000000"


def test_without_a_known_rate_a_commitment_is_unpriced_and_never_free(client, record):
    one = record(starts_at="2025-11-06")
    for name in ("usd_per_chip_hour", "rate_origin", "price_id", "fee", "whole_fee"):
        assert one[name] is None
    found = used(client, NOON - HOUR, NOON)
    assert (found["unpriced"], found["commitments"]) == ([one["id"]], [])


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": HOSTILE}, "name"),
        ({"name": ""}, "name"),
        ({"project": "elsewhere"}, "project"),
        ({"region": "us-west4-a"}, "region"),
        ({"generation": "v9"}, "generation"),
        ({"chips": 0}, "chips"),
        ({"chips": True}, "chips"),
        ({"chips": "8"}, "chips"),
        ({"chips": 100_000, "usd_per_chip_hour": "99999"}, "chips"),
        ({"term": "2y"}, "term"),
        ({"starts_at": "soon"}, "starts_at"),
        ({"starts_at": "2099-06-01"}, "starts_at"),
        ({"usd_per_chip_hour": "free"}, "usd_per_chip_hour"),
        ({"usd_per_chip_hour": "0"}, "usd_per_chip_hour"),
        ({"usd_per_chip_hour": "-1"}, "usd_per_chip_hour"),
        ({"usd_per_chip_hour": 1}, "usd_per_chip_hour"),
        ({"labels": {"steward-id": "x"}}, "labels"),
        ({"zone": "us-west4-a"}, "zone"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field_and_nothing_is_recorded(client, wrong, field):
    answer = client.post(PATH, json=BASE | wrong)
    assert answer.status_code == 422, answer.text
    said = answer.json()
    assert said.get("field", "") == field or said["errors"][0]["field"] == field
    assert listed(client) == []


def test_what_was_covered_is_told_by_commitment_node_and_team(client, units, clock, record):
    one = record()
    train = books.ran(units, NOON - 3 * HOUR, NOON - HOUR, name="train", team="vision")
    serve = books.ran(units, NOON - 2 * HOUR, NOON - HOUR, name="serve", team="nlp", chips=24)
    metered(units, clock)
    found = used(client, NOON - 4 * HOUR, NOON)
    assert found == {
        "window": {"start": "2026-11-05T08:00:00Z", "end": "2026-11-05T12:00:00Z"},
        "fee": "26.880000000",
        "unused": "13.440000000",
        "net_saving": "-7.680000000",
        "total": {
            "charged": "48.000000000",
            "avoided": "19.200000000",
            "covered_cost": "13.440000000",
            "amortised": "42.240000000",
            "eligible_chip_seconds": 144_000,
            "covered_chip_seconds": 57_600,
        },
        "coverage": "0.400000000",
        "commitments": [
            {
                "id": one["id"],
                "name": "base",
                "fee": "26.880000000",
                "used": "13.440000000",
                "unused": "13.440000000",
                "avoided": "19.200000000",
                "net_saving": "-7.680000000",
                "committed_chip_seconds": 115_200,
                "covered_chip_seconds": 57_600,
                "unused_chip_seconds": 57_600,
                "eligible_chip_seconds": 144_000,
                "utilisation": "0.500000000",
                "coverage": "0.400000000",
                "nodes": [
                    {
                        "node_id": train.id,
                        "name": "train",
                        "team": "vision",
                        "chip_seconds": 36_000,
                        "avoided": "12.000000000",
                        "cost": "8.400000000",
                    },
                    {
                        "node_id": serve.id,
                        "name": "serve",
                        "team": "nlp",
                        "chip_seconds": 21_600,
                        "avoided": "7.200000000",
                        "cost": "5.040000000",
                    },
                ],
            }
        ],
        "nodes": sorted(
            [
                {
                    "charged": "19.200000000",
                    "avoided": "12.000000000",
                    "covered_cost": "8.400000000",
                    "amortised": "15.600000000",
                    "eligible_chip_seconds": 57_600,
                    "covered_chip_seconds": 36_000,
                    "node_id": train.id,
                    "name": "train",
                    "team": "vision",
                },
                {
                    "charged": "28.800000000",
                    "avoided": "7.200000000",
                    "covered_cost": "5.040000000",
                    "amortised": "26.640000000",
                    "eligible_chip_seconds": 86_400,
                    "covered_chip_seconds": 21_600,
                    "node_id": serve.id,
                    "name": "serve",
                    "team": "nlp",
                },
            ],
            key=lambda node: str(node["node_id"]),
        ),
        "teams": [
            {
                "charged": "28.800000000",
                "avoided": "7.200000000",
                "covered_cost": "5.040000000",
                "amortised": "26.640000000",
                "eligible_chip_seconds": 86_400,
                "covered_chip_seconds": 21_600,
                "team": "nlp",
            },
            {
                "charged": "19.200000000",
                "avoided": "12.000000000",
                "covered_cost": "8.400000000",
                "amortised": "15.600000000",
                "eligible_chip_seconds": 57_600,
                "covered_chip_seconds": 36_000,
                "team": "vision",
            },
        ],
        "unpriced": [],
        "as_of": "2026-11-05T12:00:00Z",
    }


def test_windows_that_are_cut_anywhere_sum_to_the_whole(client, units, record):
    record(usd_per_chip_hour="0.777777777", chips=7)
    books.ran(units, NOON - 30 * HOUR + 17, NOON - 6 * HOUR + 101, name="train")
    books.ran(units, NOON - 20 * HOUR + 3, NOON - 2 * HOUR + 7, name="serve", chips=4)
    start, end = NOON - 40 * HOUR, NOON
    whole = used(client, start, end)
    edges = [start, NOON - 25 * HOUR + 1_001, NOON - 12 * HOUR, NOON - 5 * HOUR + 77, end]
    parts = [used(client, a, b) for a, b in pairwise(edges)]
    for name in ("fee", "unused", "net_saving"):
        assert sum(Decimal(part[name]) for part in parts) == Decimal(whole[name])
    for name in ("charged", "avoided", "covered_cost", "amortised"):
        found = sum(Decimal(part["total"][name]) for part in parts)
        assert found == Decimal(whole["total"][name])


def test_the_ledger_and_the_costs_are_the_same_with_and_without_a_commitment(
    client, units, clock, record
):
    books.ran(units, NOON - 3 * HOUR, NOON - HOUR)
    metered(units, clock)
    before = client.get("/v1/costs", params={"window": "24h"}).json()
    record()
    assert client.get("/v1/costs", params={"window": "24h"}).json() == before


def test_a_running_node_is_covered_up_to_now(client, units, clock, record):
    record()
    books.ran(units, NOON, NOON + 8 * DAY)
    clock.pass_(90)
    found = client.get(f"{PATH}/usage", params={"window": "today"}).json()
    assert found["commitments"][0]["covered_chip_seconds"] == 8 * 90
    assert found["window"]["end"] == to_rfc3339(NOON + 90)


@pytest.mark.parametrize("window", ["", "7", "2026-11-02,2026-11-01"])
def test_a_window_that_makes_no_sense_is_refused(client, window):
    answer = client.get(f"{PATH}/usage", params={"window": window})
    assert answer.status_code == 422


def test_a_withdrawn_record_is_kept_with_its_reason_and_counts_nowhere(client, record):
    one = record()
    assert withdrawn(client, one, "").status_code == 422
    gone = withdrawn(client, one)
    assert gone.status_code == 200
    said = gone.json()
    assert (said["state"], said["reason"]) == ("withdrawn", "bought twice")
    assert withdrawn(client, one, "once more").json()["reason"] == "bought twice"
    assert listed(client) == [said]
    found = used(client, NOON - HOUR, NOON)
    assert (found["fee"], found["commitments"], found["unpriced"]) == ("0.000000000", [], [])
    assert record()["id"] != one["id"]


def test_what_nobody_recorded_is_not_found(client):
    assert client.get(f"{PATH}/{NOBODYS}").status_code == 404
    assert withdrawn(client, {"id": NOBODYS}).status_code == 404


@pytest.mark.parametrize("word", ["recommend", "nobody", "usage.csv"])
def test_a_word_is_not_taken_for_an_id(client, word):
    """Other routes below the same path may have any name."""
    answer = client.get(f"{PATH}/{word}")
    assert answer.status_code == 404
    assert "there is no commitment" not in answer.text


def test_what_is_recommended_lies_below_the_same_path(client):
    assert client.get(f"{PATH}/recommended").json()["recommendations"] == []


def test_the_list_comes_in_pages_the_latest_to_begin_first(client, record):
    for month in ("09", "10", "11"):
        record(name=f"m{month}", starts_at=f"2026-{month}-01")
    first = client.get(PATH, params={"page_size": 2}).json()
    assert [commitment["name"] for commitment in first["commitments"]] == ["m11", "m10"]
    token = first["next_page_token"]
    second = client.get(PATH, params={"page_size": 2, "page_token": token}).json()
    assert [commitment["name"] for commitment in second["commitments"]] == ["m09"]
    assert second["next_page_token"] == ""
