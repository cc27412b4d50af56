"""`nodes top`: the nodes that cost most, what they do, and when they end."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.given import ID, OTHER, Api, node, page, steward

THIRD = ID[:-1] + "9"
FLEET = {
    "hourly_cost": "113.246400000",
    "unused_reservations_hourly_cost": "90.000000000",
    "coming_nodes": 0,
    "coming_hourly_cost": "0.000000000",
    "coming_unpriced_nodes": 0,
    "as_of": "2026-11-05T12:00:00Z",
}
AT_WORK = {"state": "ACTIVE", "verdict": {"since": None, "waste": ""}, "due_at": None}
IDLE = {
    "state": "NOTIFIED",
    "verdict": {"since": "2026-11-05T08:48:00Z", "waste": ""},
    "due_at": "2026-11-05T12:04:10Z",
}
BY_TTL = {"ender": "ttl", "at": "2026-11-05T13:58:00Z", "held_by": []}
BY_BUDGET = {"ender": "budget", "at": "2026-11-05T12:08:00Z", "held_by": []}
BY_IDLENESS = {"ender": "idle", "at": "2026-11-05T12:04:10Z", "held_by": []}
LOOPING = {
    "state": "CANDIDATE",
    "verdict": {"since": "2026-11-05T11:40:00Z", "waste": "crash_loop"},
    "due_at": None,
}


@pytest.fixture
def busy(api: Api) -> Api:
    """An API with three nodes: active, idle, and one whose deletion fails. The signals of the last
    one are not judged any more."""
    big = node(id=OTHER, name="big", hourly_cost="14.000000000", deletes_at=None)
    failing = {"asked": "absent", "last_error": "unavailable", "team": ""}
    api.when("GET", "/v1/nodes", page(node(), big, node(id=THIRD, name="odd", **failing)))
    api.when("GET", f"/v1/nodes/{ID}/idle", AT_WORK)
    api.when("GET", f"/v1/nodes/{OTHER}/idle", IDLE)
    api.when("GET", f"/v1/nodes/{THIRD}/idle", LOOPING)
    api.when("GET", f"/v1/nodes/{ID}/policy", {"ends": [BY_TTL]})
    api.when("GET", f"/v1/nodes/{OTHER}/policy", {"ends": [BY_IDLENESS]})
    api.when("GET", f"/v1/nodes/{THIRD}/policy", {"ends": []})
    api.when("GET", "/v1/fleet", FLEET)
    return api


def test_the_most_expensive_come_first_and_their_rates_add_up(busy):
    total, unused, as_of, _, heading, *rows = steward("nodes", "top").stdout.splitlines()
    assert heading.split() == [
        *("NAME", "STATE", "TYPE", "PER", "HOUR", "SO", "FAR", "ACTIVITY"),
        *("DELETES", "IN", "TEAM"),
    ]
    assert [re.split(" {2,}", row) for row in rows] == [
        [
            *("big", "READY", "v5litepod-8", "$14.00", "$0.15"),
            *("idle 3h12m", "4m10s", "vision"),
        ],
        ["trainer", "READY", "v5litepod-8", "$4.63", "$0.15", "active", "1h58m", "vision"],
        [
            *("odd", "DELETING (failing)", "v5litepod-8", "$4.62", "$0.15"),
            *("-", "failing", "-"),
        ],
    ]
    assert total == "3 nodes ready at $23.25 an hour"
    assert unused == "reserved chips that no node uses cost $90.00 an hour more"
    assert as_of == "as of 2026-11-05 12:00:00 UTC"
    assert busy.calls[0].query["state"] == ["READY"]


def test_a_crash_loop_is_told_with_its_age(busy):
    busy.when("GET", "/v1/nodes", page(node(id=THIRD, name="odd")))
    *_, row = steward("nodes", "top").stdout.splitlines()
    assert "crash loop 20m00s" in row


def test_the_deletion_by_an_exceeded_budget_counts_as_well(busy):
    busy.when("GET", f"/v1/nodes/{ID}/policy", {"ends": [BY_BUDGET, BY_TTL]})
    [row] = [line for line in steward("nodes", "top").stdout.splitlines() if "trainer" in line]
    assert re.split(" {2,}", row)[-3:] == ["active", "8m00s", "vision"]


def test_what_comes_is_told_with_its_cost(busy):
    coming = {"coming_nodes": 2, "coming_hourly_cost": "38.400000000"}
    busy.when("GET", "/v1/fleet", {**FLEET, **coming})
    told = "coming: 2 nodes, $38.40 an hour more once READY"
    assert told in steward("nodes", "top").stdout.splitlines()
    busy.when("GET", "/v1/fleet", {**FLEET, **coming, "coming_unpriced_nodes": 1})
    assert f"{told}; 1 at an unknown price" in steward("nodes", "top").stdout.splitlines()


def test_only_so_many_are_shown_and_the_others_are_summed(busy):
    shown = steward("nodes", "top", "-n", "1").stdout.splitlines()
    assert shown[:2] == ["3 nodes ready at $23.25 an hour", "not shown: 2 nodes at $9.25 an hour"]
    assert shown[-1].split()[:4] == ["big", "READY", "v5litepod-8", "$14.00"]
    assert not [call for call in busy.calls if call.path == f"/v1/nodes/{ID}/idle"]


def test_a_script_reads_the_same(busy):
    found = json.loads(steward("nodes", "top", "-n", "2", "--json").stdout)
    assert [(node["node"]["name"], node["idle"]["state"]) for node in found["nodes"]] == [
        ("big", "NOTIFIED"),
        ("trainer", "ACTIVE"),
    ]
    assert (found["others"], found["fleet"]) == (1, FLEET)


@pytest.mark.parametrize(
    ("due", "at", "held_by", "said"),
    [
        (True, "2026-11-05T12:15:00Z", ["rails"], "15m00s"),
        (True, None, ["pause"], "held"),
        (True, None, ["rails", "mode"], "-"),
        (True, "2026-11-05T12:15:00Z", ["keep"], "-"),
        (False, None, ["pause"], "-"),
    ],
)
def test_an_idle_node_ends_when_nothing_holds_it_any_more(busy, due, at, held_by, said):
    end = {"ender": "idle", "at": at, "held_by": held_by}
    busy.when("GET", f"/v1/nodes/{OTHER}/policy", {"ends": [end]})
    busy.when("GET", f"/v1/nodes/{OTHER}/idle", IDLE | ({} if due else {"due_at": None}))
    rows = steward("nodes", "top").stdout.splitlines()[-3:]
    assert re.split(" {2,}", rows[0])[6] == said


@pytest.mark.parametrize(
    ("sort_by", "order"),
    [
        ("", ["big", "trainer", "odd"]),
        ("name", ["big", "odd", "trainer"]),
        ("-name", ["trainer", "odd", "big"]),
        ("deletes-in", ["odd", "big", "trainer"]),
        ("-deletes-in", ["trainer", "big", "odd"]),
    ],
)
def test_the_nodes_come_in_the_order_of_a_column(busy, sort_by, order):
    rows = steward("nodes", "top", "--sort-by", sort_by).stdout.splitlines()[-3:]
    assert [row.split()[0] for row in rows] == order


def test_a_script_gets_the_order_of_a_field(busy):
    found = json.loads(steward("nodes", "top", "--json", "--sort-by", "-name").stdout)
    assert [node["node"]["name"] for node in found["nodes"]] == ["trainer", "odd", "big"]
    assert [node["idle"]["state"] for node in found["nodes"]] == ["ACTIVE", "CANDIDATE", "NOTIFIED"]


def test_an_unknown_column_is_refused_with_the_names_of_the_others(busy):
    refused = steward("nodes", "top", "--sort-by", "colour")
    assert refused.exit_code == 2
    assert "deletes-in" in refused.output


def test_no_nodes_are_a_sum_all_the_same(api):
    api.when("GET", "/v1/nodes", page())
    api.when("GET", "/v1/fleet", {**FLEET, "unused_reservations_hourly_cost": "0.000000000"})
    assert steward("nodes", "top").stdout.splitlines() == [
        "0 nodes ready at $0.00 an hour",
        "as of 2026-11-05 12:00:00 UTC",
    ]
