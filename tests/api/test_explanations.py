"""Every dollar of the ledger is explained: the sum, the price, the evidence, and who is charged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.controllers.posting import post
from service.domain.metering import Evidence
from service.domain.node import NodeState
from tests import factories
from tests.hands import NOON


@pytest.fixture
def books(units):
    """Posts what a node used since noon; answers its id."""

    def posted(now=NOON + 7_200, **changes):
        node = factories.node(state=NodeState.READY, ready_at=NOON, team="vision", owner="ada")
        usage = factories.usage(node_id=node.id, **changes)
        with units() as unit:
            unit.nodes.add(node)
            unit.usage.save(usage)
            unit.beliefs.add(usage, NOON)
            post(unit, usage, factories.book(), now)
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
        "the price test/0 is no longer in the book",
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
        "it ended between 2026-11-05T12:01:25Z and 2026-11-05T12:01:40Z, two looks 15 s apart; all"
        " of that is charged, and said to be uncertain"
    )


def test_an_adjustment_names_the_line_that_it_adjusts(client, books, units):
    node_id, usage = books()
    late = replace(usage, end=NOON + 5_400, end_lo=NOON + 5_400, dirty=True)
    with units() as unit:
        unit.usage.save(late)
        post(unit, late, factories.book(), NOON + 9_000)
    found = explained(client, node_id, -1)
    assert found["entry"]["corrects"] == explained(client, node_id, 1)["entry"]["number"]
    assert found["explanation"][0] == ("8 chips x -1,800 s x $1.20 a chip-hour / 3,600 = -$4.80")
    assert "it adjusts line" in found["explanation"][2]


@pytest.mark.parametrize("number", ["999999", "0", "-1", "first"])
def test_a_line_that_is_not_there_is_said_to_be_so(client, books, number):
    node_id, _ = books()
    assert client.get(f"/v1/nodes/{node_id}/ledger/{number}").status_code in (404, 422)


def test_a_line_of_another_node_is_not_shown(client, books):
    first, _ = books()
    second, _ = books()
    number = client.get(f"/v1/nodes/{first}/ledger").json()["entries"][0]["number"]
    assert client.get(f"/v1/nodes/{second}/ledger/{number}").status_code == 404
