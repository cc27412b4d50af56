"""Every dollar of the ledger is explained: the sum, the price, the evidence, and who is charged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.controllers.recording.posting import post_usage
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.metering.meter import Evidence
from service.domain.money import parse_usd
from service.domain.nodes.node import NodeState
from tests import factories
from tests.hands import NOON
from tests.purchases import metered, ran_reserved


@pytest.fixture
def books(units):
    """Posts what a node used since noon; answers its id."""

    def posted(now=NOON + 7_200, **changes):
        node = factories.node(state=NodeState.READY, ready_at=NOON, team="vision", owner="ada")
        usage = factories.usage(node_id=node.id, **changes)
        with units() as unit:
            unit.nodes.add(node)
            usage = unit.usage.save(usage)
            unit.usage_versions.add(usage, NOON)
            usage = post_usage(unit, usage, factories.book(), now)
        return node.id, usage

    return posted


def explained(client, node_id, index=0):
    entries = client.get(f"/v1/nodes/{node_id}/ledger").json()["entries"]
    answer = client.get(f"/v1/nodes/{node_id}/ledger/{entries[index]['number']}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["entry"] == entries[index]
    return answer.json()


def test_a_whole_hour_is_a_sum_that_can_be_checked_by_hand(client, books):
    node_id, _ = books()
    found = explained(client, node_id)
    assert found["explanation"] == [
        "8 chips x 3,600 s x $1.20 a chip-hour / 3,600 = $9.60",
        "the price test/0 is no longer in the price book",
        "it began at 2026-11-05T12:00:00Z, by the cloud's record of the operation",
        "it has not ended",
        "it is charged to team vision, owner ada",
    ]
    assert (found["charged_to"]["team"], found["chips"]) == ("vision", 8)
    assert [belief["recorded_at"] for belief in found["beliefs"]] == ["2026-11-05T12:00:00Z"]


def test_a_line_that_is_rounded_with_its_interval_says_so(client, books):
    node_id, _ = books(start=NOON + 3_599, end=NOON + 3_601, end_lo=NOON + 3_601)
    sums = [explained(client, node_id, index)["explanation"][0] for index in range(2)]
    assert sums == [
        "8 chips x 1 s x $1.20 a chip-hour / 3,600 = $0.002666667",
        (
            "8 chips x 1 s x $1.20 a chip-hour / 3,600 = $0.002666666; by itself it would round to"
            " $0.002666667, but only the whole interval is rounded, so that its lines sum to it"
            " exactly"
        ),
    ]


def test_an_end_that_was_seen_between_two_looks_says_between_which(client, books):
    node_id, _ = books(end=NOON + 100, end_lo=NOON + 85, end_evidence=Evidence.OBSERVED)
    assert explained(client, node_id)["explanation"][3] == (
        "it ended between 2026-11-05T12:01:25Z and 2026-11-05T12:01:40Z, two polls 15 s apart;"
        " all of it is charged, and marked as uncertain"
    )


def test_an_adjustment_names_the_line_that_it_adjusts(client, books, units):
    node_id, usage = books()
    late = replace(usage, end=NOON + 5_400, end_lo=NOON + 5_400, dirty=True)
    with units() as unit:
        late = unit.usage.save(late)
        post_usage(unit, late, factories.book(), NOON + 9_000)
    found = explained(client, node_id, -1)
    assert found["entry"]["corrects"] == explained(client, node_id, 1)["entry"]["number"]
    assert found["explanation"][0] == ("8 chips x -1,800 s x $1.20 a chip-hour / 3,600 = -$4.80")
    assert "it adjusts line" in found["explanation"][2]


@pytest.mark.parametrize("number", ["999999", "0", "-1", "first"])
def test_a_line_that_is_not_there_is_said_to_be_so(client, books, number):
    node_id, _ = books()
    assert client.get(f"/v1/nodes/{node_id}/ledger/{number}").status_code in (404, 422)


def test_a_number_that_is_not_in_a_ledger_is_answered_with_those_that_are(client, books, units):
    books()  # so that the other does not begin with 1
    second, _ = books()
    with units() as unit:
        name = unit.nodes.get(second).name
    numbers = [
        entry["number"] for entry in client.get(f"/v1/nodes/{second}/ledger").json()["entries"]
    ]
    problem = client.get(f"/v1/nodes/{second}/ledger/1").json()
    assert problem["detail"] == (
        f"the ledger of {name} has no line 1; its lines are numbered from {numbers[0]} to"
        f" {numbers[-1]}"
    )
    assert (problem["first_line"], problem["last_line"]) == (numbers[0], numbers[-1])


def test_a_ledger_of_one_line_or_of_none_says_so(client, books, units):
    only, _ = books(now=NOON + 3_600)
    (entry,) = client.get(f"/v1/nodes/{only}/ledger").json()["entries"]
    detail = client.get(f"/v1/nodes/{only}/ledger/999").json()["detail"]
    assert detail.endswith(f" has no line 999; its only line is {entry['number']}")
    empty = factories.node()
    with units() as unit:
        unit.nodes.add(empty)
    detail = client.get(f"/v1/nodes/{empty.id}/ledger/1").json()["detail"]
    assert detail == f"the ledger of {empty.name} has no line 1: nothing is posted to it"


def test_a_line_of_another_node_is_not_shown(client, books):
    first, _ = books()
    second, _ = books()
    number = client.get(f"/v1/nodes/{first}/ledger").json()["entries"][0]["number"]
    assert client.get(f"/v1/nodes/{second}/ledger/{number}").status_code == 404


BOUGHT = {
    "name": "autumn",
    "zone": "us-west4-a",
    "generation": "v5e",
    "chips": 64,
    "starts_at": "2026-11-05T12:00:00Z",
    "ends_at": "2026-11-07T12:00:00Z",
    "team": "infra",
}
PRICE = {
    "generation": "v5e",
    "provisioning_model": "calendar",
    "region": "us-west4",
    "usd": "0.60",
    "source": "our contract",
}


@pytest.fixture
def bought(client, units, clock):
    """Two hours of 64 chips, in the first of which a node used eight for half an hour; answers the
    reservation and the node, everything posted."""
    assert client.post("/v1/prices", json=PRICE).status_code == 201
    one = client.post("/v1/reservations", json=BOUGHT).json()
    node = ran_reserved(units, NOON + 600, NOON + 2_400, reservation="autumn")
    clock.pass_(7_200)
    metered(units, clock)
    return one, node


@pytest.fixture
def bought_with_a_discount(client, units, clock):
    """Two hours of a reservation that nobody used, some of it for less; answers it."""
    assert client.post("/v1/prices", json=PRICE).status_code == 201
    negotiated(client, provisioning_model="calendar")
    one = client.post("/v1/reservations", json=BOUGHT).json()
    clock.pass_(7_200)
    metered(units, clock)
    return one


def told(client, path, index=0):
    entry = client.get(f"{path}/ledger").json()["entries"][index]
    answer = client.get(f"{path}/ledger/{entry['number']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_nobody_used_is_a_sum_that_can_be_checked_by_hand(client, bought):
    one, _ = bought
    first, second = (told(client, f"/v1/reservations/{one['id']}", index) for index in range(2))
    price, *rest = first["explanation"][1:]
    assert first["explanation"][0] == (
        "64 chips x 3,600 s = 230,400 chip-seconds reserved, of which nodes used 14,400, so that"
        " 216,000 were not used: 216,000 chip-seconds x $0.60 a chip-hour / 3,600 = $36.00"
    )
    assert price.startswith("$0.60 per chip-hour for v5e calendar in us-west4, in force from")
    assert price.endswith("our contract; in the reservation autumn")
    assert rest == [
        (
            "it was bought from 2026-11-05T12:00:00Z to 2026-11-07T12:00:00Z, and is paid for"
            " whether anything runs on it or not"
        ),
        "it is charged to team infra",
    ]
    assert second["explanation"][0] == (
        "64 chips x 3,600 s = 230,400 chip-seconds reserved, of which no node used any: 230,400"
        " chip-seconds x $0.60 a chip-hour / 3,600 = $38.40"
    )
    assert (first["entry"]["reservation_id"], first["entry"]["what"]) == (one["id"], "v5e")
    assert (first["price"]["provisioning_model"], first["chips"]) == ("calendar", 64)


def negotiated(client, **changes):
    """A discount of an eighth from 12:10:00 to 12:13:00."""
    body = {
        "generation": "v5e",
        "percent": "12.5",
        "effective_from": "2026-11-05T12:10:00Z",
        "effective_until": "2026-11-05T12:13:00Z",
        "source": "our contract",
    }
    assert client.post("/v1/prices/discounts", json=body | changes).status_code == 201


def test_a_line_of_several_stretches_names_each(client, units, clock):
    """The price of before the discount is that of after it."""
    negotiated(client)
    model = ProvisioningModel.ON_DEMAND
    node = ran_reserved(units, NOON + 77, NOON + 963, provisioning_model=model)
    clock.pass_(3_600)
    metered(units, clock)
    path = f"/v1/nodes/{node.id}"
    plain, less = sorted(
        (told(client, path, index) for index in range(2)), key=lambda one: -len(one["stretches"])
    )
    assert plain["explanation"][0] == "8 chips x 706 s x $1.20 a chip-hour / 3,600 = $1.882666667"
    assert plain["explanation"][2] == (
        "it is of 2 stretches, from 2026-11-05T12:01:17Z to 2026-11-05T12:10:00Z (523 s) and from"
        " 2026-11-05T12:13:00Z to 2026-11-05T12:16:03Z (183 s). Other lines of the ledger charge"
        " the time between them"
    )
    assert plain["stretches"] == [
        {"start": "2026-11-05T12:01:17Z", "end": "2026-11-05T12:10:00Z"},
        {"start": "2026-11-05T12:13:00Z", "end": "2026-11-05T12:16:03Z"},
    ]
    assert less["explanation"][0].startswith("8 chips x 180 s x $1.05 a chip-hour / 3,600 = $0.42")
    assert less["stretches"] == []


def test_its_adjustment_is_of_none_and_it_stays_of_them(client, units, clock):
    negotiated(client)
    model = ProvisioningModel.ON_DEMAND
    node = ran_reserved(units, NOON + 77, NOON + 963, provisioning_model=model)
    clock.pass_(3_600)
    metered(units, clock)
    with units() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
        unit.usage.save(replace(usage, end=NOON + 700, end_lo=NOON + 700, dirty=True))
    metered(units, clock)
    path = f"/v1/nodes/{node.id}"
    found = [told(client, path, index) for index in range(4)]
    assert [
        len(explanation["stretches"]) for explanation in found if explanation["entry"]["corrects"]
    ] == [0, 0]
    assert sorted(len(explanation["stretches"]) for explanation in found) == [0, 0, 0, 2]


def test_what_nobody_used_is_of_the_seconds_of_its_stretches(client, bought_with_a_discount):
    path = f"/v1/reservations/{bought_with_a_discount['id']}"
    found = [told(client, path, index) for index in range(3)]
    (plain,) = [explanation for explanation in found if explanation["stretches"]]
    assert plain["explanation"][0].startswith(
        "64 chips x 3,420 s = 218,880 chip-seconds reserved, of which no node used any: 218,880"
    )
    assert "(600 s) and from" in plain["explanation"][2]
    assert not any("nodes are now charged" in said for said in plain["explanation"])


def test_a_line_of_a_node_names_the_reservation_that_it_ran_in(client, bought):
    one, node = bought
    found = told(client, f"/v1/nodes/{node.id}")
    assert found["explanation"][0] == ("8 chips x 1,800 s x $0.60 a chip-hour / 3,600 = $2.40")
    assert found["explanation"][2] == (
        f"it ran in the reservation autumn ({one['id']}), at its price; what no node uses of it"
        " is charged under the reservation itself"
    )
    assert found["entry"]["reservation_id"] == one["id"]


def test_what_became_known_late_is_said_on_both_lines(client, units, clock, bought):
    one, _ = bought
    path = f"/v1/reservations/{one['id']}"
    number = told(client, path)["entry"]["number"]
    late = ran_reserved(units, NOON + 2_400, NOON + 3_600, reservation="autumn")
    metered(units, clock)
    assert told(client, f"/v1/nodes/{late.id}")["entry"]["amount"] == "1.600000000"
    first, adjustment = told(client, path), told(client, path, -1)
    assert first["explanation"][2] == (
        "nodes are now charged for 24,000 chip-seconds of it; later lines adjust this one"
    )
    assert adjustment["explanation"][0] == (
        "-9,600 chip-seconds x $0.60 a chip-hour / 3,600 = -$1.60"
    )
    assert adjustment["explanation"][2] == (
        f"it adjusts line {number}: more is known of what nodes used of it, or of its record"
    )


def test_a_record_that_was_withdrawn_says_why(client, units, clock, bought):
    one, node = bought
    path = f"/v1/reservations/{one['id']}"
    client.delete(path, params={"reason": "bought twice"})
    metered(units, clock)
    assert told(client, path)["explanation"][-2] == "its record was withdrawn: bought twice"
    assert told(client, path, -1)["explanation"][-2] == "its record was withdrawn: bought twice"
    found = told(client, f"/v1/nodes/{node.id}")
    assert found["explanation"][2].endswith("; its record was withdrawn: bought twice")
    lines = client.get(f"{path}/ledger").json()["entries"]
    assert sum(parse_usd(line["amount"]) for line in lines) == 0


def test_a_line_of_a_reservation_that_is_not_there_is_said_to_be_so(client, bought):
    one, node = bought
    lines = client.get(f"/v1/nodes/{node.id}/ledger").json()["entries"]
    for number in (lines[0]["number"], 999_999):
        answer = client.get(f"/v1/reservations/{one['id']}/ledger/{number}")
        assert answer.status_code == 404
