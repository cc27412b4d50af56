"""Reservations by the calendar over HTTP: written down, charged, withdrawn."""

from __future__ import annotations

import pytest

from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.money import NANOS, parse_usd
from tests.hands import NOON
from tests.purchases import metered, ran_reserved

PATH = "/v1/reservations"
BOUGHT = {
    "name": "autumn",
    "zone": "us-west4-a",
    "generation": "v5e",
    "chips": 64,
    "starts_at": "2026-11-05T12:00:00Z",
    "ends_at": "2026-11-07T12:00:00Z",
    "team": "infra",
}
DELHI = BOUGHT | {"name": "delhi", "zone": "asia-south2-a", "generation": "v5p"}
NOBODYS = "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def record(client):
    """Write one down; answers its document."""

    def recorded(body=BOUGHT, **changes):
        answer = client.post(PATH, json=body | changes)
        assert answer.status_code == 201, answer.text
        return answer.json()

    return recorded


def test_the_fleet_says_what_is_paid_for_chips_that_nobody_uses(client, record):
    record()
    fleet = client.get("/v1/fleet").json()
    assert fleet["reservations"] == 1
    assert fleet["hourly_cost"] == fleet["unused_reservations_hourly_cost"] != "0.000000000"


def test_the_fleet_says_what_comes_and_what_it_will_cost(client):
    node = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a"}
    asked = [client.post("/v1/nodes", json=node).json() for _ in range(2)]
    fleet = client.get("/v1/fleet").json()
    assert (fleet["coming_nodes"], fleet["coming_unpriced_nodes"]) == (2, 0)
    assert fleet["hourly_cost"] == "0.000000000"
    each = parse_usd(asked[0]["hourly_cost"])
    assert parse_usd(fleet["coming_hourly_cost"]) == 2 * each > 0


def listed(client, **query):
    answer = client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["reservations"]


def shown(client, one):
    answer = client.get(f"{PATH}/{one['id']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def withdrawn(client, one, reason="bought twice"):
    return client.delete(f"{PATH}/{one['id']}", params={"reason": reason})


def ledger(client, path):
    answer = client.get(f"{path}/ledger")
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"]


def test_what_was_bought_is_written_down_and_found_again(client):
    answer = client.post(PATH, json=BOUGHT | {"owner": "ada", "labels": {"run": "17"}})
    assert answer.status_code == 201
    made = answer.json()
    assert answer.headers["location"] == f"{PATH}/{made['id']}"
    assert client.get(answer.headers["location"]).json() == made
    assert listed(client) == [made]
    assert made == {
        "id": made["id"],
        "name": "autumn",
        "project": "lab",
        "zone": "us-west4-a",
        "generation": "v5e",
        "chips": 64,
        "starts_at": "2026-11-05T12:00:00Z",
        "ends_at": "2026-11-07T12:00:00Z",
        "state": "running",
        "owner": "ada",
        "team": "infra",
        "labels": {"run": "17"},
        "usd_per_chip_hour": "0.840000000",
        "price_id": f"v5e/calendar/chip_hour/us-west4/2026-08-06+reservation/{made['id']}",
        "cost": "0.000000000",
        "unused": "0.000000000",
        "whole": "2580.480000000",
        "chip_seconds": 0,
        "unused_chip_seconds": 0,
        "unpriced_seconds": 0,
        "recorded_at": "2026-11-05T12:00:00Z",
        "recorded_by": "caller",
        "withdrawn_at": None,
        "reason": "",
        "as_of": "2026-11-05T12:00:00Z",
    }


def test_used_and_unused_are_the_whole_to_the_nano_dollar(client, units, clock, record):
    """64 v5p chips for two days in Delhi at $2.94 by the calendar, 16 of them used for a while."""
    one = record(DELHI)
    hardware = {"accelerator_type": "v5p-32", "generation": "v5p", "chips": 16, "hosts": 4}
    node = ran_reserved(units, NOON + 77, NOON + 5 * HOUR + 1_234, zone="asia-south2-a", **hardware)
    clock.pass_(7 * HOUR + 11)
    metered(units, clock)
    now = shown(client, one)
    used = parse_usd(client.get(f"/v1/nodes/{node.id}/cost").json()["cost"])
    assert used == round(16 * (5 * HOUR + 1_234 - 77) * 2_940_000_000 / HOUR)
    assert parse_usd(now["unused"]) + used == parse_usd(now["cost"])
    assert parse_usd(now["cost"]) == 64 * (7 * HOUR + 11) * 2_940_000_000 // HOUR
    assert now["whole"] == "9031.680000000"
    assert now["usd_per_chip_hour"] == "2.940000000"
    assert now["chip_seconds"] == 64 * (7 * HOUR + 11)
    assert now["unused_chip_seconds"] == now["chip_seconds"] - 16 * (5 * HOUR + 1_157)
    clock.pass_(2 * DAY)
    metered(units, clock)
    over = shown(client, one)
    assert (over["state"], over["cost"]) == ("over", over["whole"])
    assert over["cost"] == "9031.680000000"
    lines = [*ledger(client, f"{PATH}/{one['id']}"), *ledger(client, f"/v1/nodes/{node.id}")]
    assert sum(parse_usd(line["amount"]) for line in lines) == 9_031_680_000_000
    costs = client.get("/v1/costs", params={"window": "30d", "aggregate": "node", "step": "all"})
    assert {row["node"]: parse_usd(row["cost"]) for row in costs.json()["rows"]} == {
        one["id"]: parse_usd(over["unused"]),
        node.id: used,
    }


def test_its_ledger_is_read_page_by_page(client, units, clock, record):
    one = record()
    clock.pass_(3 * HOUR)
    metered(units, clock)
    entries = ledger(client, f"{PATH}/{one['id']}")
    assert [entry["amount"] for entry in entries] == ["53.760000000"] * 3
    assert {entry["usd_per_chip_hour"] for entry in entries} == {"0.840000000"}
    path = f"{PATH}/{one['id']}/ledger"
    first = client.get(path, params={"page_size": 2}).json()
    rest = client.get(path, params={"page_token": first["next_page_token"]}).json()
    assert first["entries"] + rest["entries"] == entries
    assert rest["next_page_token"] == ""


def test_a_line_that_is_not_there_is_not_explained(client, record):
    one = record()
    for path in (f"{one['id']}/ledger/1", f"{NOBODYS}/ledger/1", f"{NOBODYS}/ledger", NOBODYS):
        assert client.get(f"{PATH}/{path}").status_code == 404, path
    for path in ("x", "x/ledger", f"{one['id']}/ledger/0", f"{one['id']}/ledger/x"):
        assert client.get(f"{PATH}/{path}").status_code == 422, path


def test_a_line_of_a_node_is_not_one_of_a_reservation(client, ask):
    node = ask()
    assert client.get(f"{PATH}/{node['id']}/ledger/1").status_code == 404


def test_the_very_same_once_more_is_the_one_that_is_there(client, record):
    one = record(labels={"run": "17"}, owner="ada")
    said = BOUGHT | {"labels": {"run": "17"}, "owner": "ada", "project": "lab"}
    again = client.post(PATH, json=said | {"starts_at": "2026-11-05T13:00:00+01:00"})
    assert again.status_code == 200
    assert again.json() == one
    assert again.headers["location"] == f"{PATH}/{one['id']}"
    assert listed(client) == [one]


def test_what_comes_to_more_than_can_be_counted_is_refused_before_it_breaks_the_ledger(
    client, record
):
    price = {"generation": "v5e", "provisioning_model": "calendar", "region": "us-west4"}
    assert client.post("/v1/prices", json=price | {"usd": "99999"}).status_code == 201
    answer = client.post(PATH, json=BOUGHT | {"chips": 100_000})
    assert (answer.status_code, answer.json()["field"]) == (422, "chips")
    assert "check the chips and their price" in answer.json()["detail"]
    assert listed(client) == []
    record(chips=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"chips": 32},
        {"team": "vision"},
        {"labels": {"run": "18"}},
        {"starts_at": "2026-11-06T12:00:00Z", "ends_at": "2026-11-09T12:00:00Z"},
    ],
)
def test_another_of_the_same_name_at_the_same_time_is_a_conflict(client, record, changes):
    one = record()
    answer = client.post(PATH, json=BOUGHT | changes)
    assert answer.status_code == 409
    assert answer.json()["reservation_id"] == one["id"]
    assert "if that record is wrong, withdraw it first" in answer.json()["detail"]
    assert listed(client) == [one]


def test_the_latest_to_begin_is_first_and_the_list_is_cut_into_pages(client, record):
    record()
    record(name="winter", starts_at="2026-12-01", ends_at="2026-12-31")
    record(name="summer", starts_at="2026-07-01", ends_at="2026-07-08")
    everything = listed(client)
    assert [(reservation["name"], reservation["state"]) for reservation in everything] == [
        ("winter", "planned"),
        ("autumn", "running"),
        ("summer", "over"),
    ]
    first = client.get(PATH, params={"page_size": 2}).json()
    rest = client.get(PATH, params={"page_token": first["next_page_token"]}).json()
    assert first["reservations"] + rest["reservations"] == everything
    assert rest["next_page_token"] == ""


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"ends_at": "2026-11-05T12:00:00Z"}, "ends_at", "lasts 1 to 90 days"),
        ({"ends_at": "2026-11-04T12:00:00Z"}, "ends_at", "lasts 1 to 90 days"),
        ({"ends_at": "2026-11-06T11:59:59Z"}, "ends_at", "lasts 1 to 90 days"),
        ({"ends_at": "2027-02-03T12:00:01Z"}, "ends_at", "lasts 1 to 90 days"),
        ({"zone": "moon-east1-a"}, "zone", "there is no zone 'moon-east1-a'"),
        ({"zone": "us-west4-q"}, "zone", "there is no zone"),
        ({"zone": "asia-south2"}, "zone", "there is no zone"),
        ({"zone": HOSTILE}, "zone", "there is no zone"),
        ({"generation": "v5p"}, "generation", "us-west4-a has v5e, not v5p"),
        ({"generation": HOSTILE}, "generation", "not <img"),
        (
            {"zone": "us-central1-b", "generation": "v2"},
            "generation",
            "no calendar-mode reservations",
        ),
        (
            {"zone": "europe-west4-a", "generation": "v3"},
            "generation",
            "no calendar-mode reservations",
        ),
        (
            {"zone": "us-central2-b", "generation": "v4"},
            "generation",
            "no calendar-mode reservations",
        ),
        (
            {"zone": "asia-south2-a", "generation": "v9"},
            "generation",
            "no calendar-mode reservations",
        ),
        ({"project": "elsewhere"}, "project", "not a project of this service"),
        ({"name": "Autumn"}, "name", "is not the name of a reservation"),
        ({"labels": {"steward-id": "x"}}, "labels", "belongs to the service"),
        ({"labels": {"Run": "x"}}, "labels", "is not allowed"),
    ],
)
def test_what_cannot_have_been_bought_is_refused(client, changes, field, said):
    answer = client.post(PATH, json=BOUGHT | changes)
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["field"], said in problem["detail"]) == (field, True), problem
    assert listed(client) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"chips": 0}, "chips"),
        ({"chips": -4}, "chips"),
        ({"chips": 10**6}, "chips"),
        ({"chips": 10**30}, "chips"),
        ({"chips": 6.5}, "chips"),
        ({"chips": "64"}, "chips"),
        ({"chips": True}, "chips"),
        ({"name": ""}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": "a\u0000b"}, "name"),
        ({"name": None}, "name"),
        ({"zone": "us\nwest"}, "zone"),
        ({"team": "x" * 81}, "team"),
        ({"owner": "\u202e"}, "owner"),
        ({"labels": {"k": "x" * 201}}, "labels.k"),
        ({"labels": {f"k{n}": "" for n in range(101)}}, "labels"),
        ({"labels": ["run"]}, "labels"),
        ({"starts_at": "soon"}, "starts_at"),
        ({"starts_at": "2026-11-05T12:00:00"}, "starts_at"),
        ({"starts_at": 1_793_880_000}, "starts_at"),
        ({"ends_at": "9999-01-01"}, "ends_at"),
        ({"price": "1"}, "price"),
    ],
)
def test_a_body_that_is_none_is_refused_by_its_field(client, changes, field):
    answer = client.post(PATH, json=BOUGHT | changes)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert listed(client) == []


@pytest.mark.parametrize("missing", ["name", "zone", "generation", "chips", "starts_at", "ends_at"])
def test_what_was_bought_has_to_be_said(client, missing):
    body = {key: value for key, value in BOUGHT.items() if key != missing}
    answer = client.post(PATH, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": missing, "message": "this field is required"}]


def test_a_wrong_record_is_withdrawn_with_a_reason_and_charges_nothing(
    client, units, clock, record
):
    one = record()
    clock.pass_(2 * HOUR)
    metered(units, clock)
    assert len(ledger(client, f"{PATH}/{one['id']}")) == 2
    answer = withdrawn(client, one)
    assert answer.status_code == 200
    gone = answer.json()
    assert (gone["state"], gone["reason"]) == ("withdrawn", "bought twice")
    assert gone["withdrawn_at"] == to_rfc3339(clock.now)
    assert (gone["cost"], gone["unused"], gone["whole"]) == ("0.000000000",) * 3
    assert (gone["usd_per_chip_hour"], gone["price_id"]) == (None, None)
    metered(units, clock)
    entries = ledger(client, f"{PATH}/{one['id']}")
    assert [entry["kind"] for entry in entries] == ["usage", "usage", "adjustment", "adjustment"]
    assert sum(parse_usd(entry["amount"]) for entry in entries) == 0
    assert listed(client) == [gone]
    costs = client.get("/v1/costs", params={"window": "7d", "aggregate": "node"}).json()
    assert costs["rows"] == []


def test_it_is_withdrawn_once_and_can_be_written_down_rightly_then(client, clock, record):
    one = record()
    first = withdrawn(client, one).json()
    clock.pass_(60)
    second = withdrawn(client, one, "no, for another reason")
    assert second.status_code == 200
    assert second.json() == first | {"as_of": to_rfc3339(clock.now)}
    right = record(chips=32)
    assert {each["id"] for each in listed(client)} == {one["id"], right["id"]}


@pytest.mark.parametrize("reason", [None, "", "   ", "x" * 201, "a\nb"])
def test_why_it_is_wrong_has_to_be_said(client, record, reason):
    one = record()
    query = {} if reason is None else {"reason": reason}
    answer = client.delete(f"{PATH}/{one['id']}", params=query)
    assert answer.status_code == 422
    problem = answer.json()
    assert "reason" in (problem.get("field"), *(e["field"] for e in problem.get("errors", ())))
    assert shown(client, one) == one


def test_what_nobody_wrote_down_cannot_be_withdrawn(client):
    assert withdrawn(client, {"id": NOBODYS}).status_code == 404
    assert withdrawn(client, {"id": "x"}).status_code == 422


def test_where_no_price_is_known_nothing_is_called_free(client, clock, record):
    one = record(zone="us-east5-c", generation="v5p")
    clock.pass_(HOUR)
    now = shown(client, one)
    assert (now["usd_per_chip_hour"], now["price_id"], now["whole"]) == (None, None, None)
    assert (now["cost"], now["unpriced_seconds"], now["chip_seconds"]) == ("0.000000000", HOUR, 0)


def test_a_price_that_is_entered_counts_from_then_on(client, clock, record):
    one = record(zone="us-east5-c", generation="v5p")
    clock.pass_(HOUR)
    price = {"provisioning_model": "reserved", "region": "us-east5", "generation": "v5p"}
    answer = client.post("/v1/prices", json=price | {"usd": "3", "source": "our contract"})
    assert answer.status_code == 201, answer.text
    clock.pass_(HOUR)
    now = shown(client, one)
    assert parse_usd(now["cost"]) == 64 * 3 * NANOS
    assert (now["usd_per_chip_hour"], now["unpriced_seconds"]) == ("3.000000000", HOUR)
    assert now["whole"] is None
