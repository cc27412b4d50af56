"""What Google said that the projects may have, over HTTP; and requests that cannot fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.nodes.node import NodeState
from service.domain.placement.quota import Limit, Size, Tier
from tests import factories
from tests.api.conftest import NODE_REQUEST
from tests.hands import NOON

LIMIT = Limit(
    "lab", "TPUV5s", "us-west4", "v5e", Tier.ON_DEMAND, Size.ANY, 0, NOON - 60, "Limit: 0 there."
)
EAST = replace(LIMIT, place="us-east5-a", generation="v5p", tier=Tier.PREEMPTIBLE, allowed=64)


def quotas(client, **query):
    answer = client.get("/v1/catalog/quotas", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["quotas"]


def test_a_limit_is_told_with_what_counts_against_it(client, learned):
    learned(LIMIT)
    assert quotas(client) == [
        {
            "id": LIMIT.id,
            "project": "lab",
            "limit": "TPUV5s",
            "where": "us-west4",
            "generation": "v5e",
            "tier": "on_demand",
            "size": "any",
            "allowed": 0,
            "used_chips": 0,
            "used_cores": 0,
            "held_chips": 0,
            "held_cores": 0,
            "dead_chips": 0,
            "dead_cores": 0,
            "observed_at": "2026-11-05T11:59:00Z",
            "standing": "fresh",
            "believed_until": "2026-11-06T11:59:00Z",
            "said": "Limit: 0 there.",
        }
    ]


@pytest.fixture
def holding(units):
    """A v5e node of eight chips that is there, with its attempt."""

    def make(**changes):
        node = factories.sent(**changes)
        with units() as unit:
            unit.nodes.add(node)
        return node

    return make


def told(client, **query):
    return [
        (quota["where"], quota["generation"], quota["tier"], quota["allowed"], quota["used_chips"])
        for quota in quotas(client, **query)
    ]


def test_what_is_held_is_told_though_google_has_named_no_limit(client, holding):
    holding(state=NodeState.READY)
    holding(state=NodeState.CREATING)
    assert quotas(client) == [
        {
            "id": None,
            "project": "lab",
            "limit": "",
            "where": "us-west4",
            "generation": "v5e",
            "tier": "on_demand",
            "size": "any",
            "allowed": None,
            "used_chips": 8,
            "used_cores": 8,
            "held_chips": 8,
            "held_cores": 8,
            "dead_chips": 0,
            "dead_cores": 0,
            "observed_at": None,
            "standing": None,
            "believed_until": None,
            "said": "",
        }
    ]


def test_what_was_taken_away_and_still_holds_quota_is_told_as_dead(client, holding):
    holding(state=NodeState.PREEMPTED)
    holding(state=NodeState.CREATING)
    (shown,) = quotas(client)
    assert (shown["held_chips"], shown["dead_chips"], shown["dead_cores"]) == (16, 8, 8)


def test_a_limit_of_the_region_tells_of_it_all_and_one_of_a_zone_does_not(client, holding, learned):
    holding(state=NodeState.READY)
    holding(state=NodeState.READY, zone="us-west4-b")
    learned(replace(LIMIT, place="us-west4-a", allowed=64))
    assert told(client) == [
        ("us-west4", "v5e", "on_demand", None, 16),
        ("us-west4-a", "v5e", "on_demand", 64, 8),
    ]
    learned(replace(LIMIT, allowed=64))
    assert told(client) == [
        ("us-west4", "v5e", "on_demand", 64, 16),
        ("us-west4-a", "v5e", "on_demand", 64, 8),
    ]


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ({}, 1),
        ({"project": "lab", "generation": "v5e", "region": "us-west4"}, 1),
        ({"region": "us-east5"}, 0),
        ({"generation": "v6e"}, 0),
    ],
)
def test_what_is_held_is_narrowed_like_the_limits(client, holding, query, number):
    holding(state=NodeState.READY)
    assert len(quotas(client, **query)) == number


def test_an_old_limit_is_told_but_refuses_nothing(client, learned, clock):
    learned(LIMIT)
    clock.pass_(86_400)
    (one,) = quotas(client)
    assert (one["standing"], one["believed_until"]) == ("old", None)
    answer = client.post("/v1/nodes", json=NODE_REQUEST)
    assert answer.status_code == 201
    assert "this limit is old" in answer.json()["warnings"][0]


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ({}, ["us-east5-a", "us-west4"]),
        ({"project": "lab"}, ["us-east5-a", "us-west4"]),
        ({"region": "us-west4"}, ["us-west4"]),
        ({"region": "us-east5"}, ["us-east5-a"]),
        ({"region": "us-east5-a"}, ["us-east5-a"]),
        ({"region": "asia-east1"}, []),
        ({"generation": "v5p"}, ["us-east5-a"]),
        ({"generation": "v5p", "region": "us-west4"}, []),
    ],
)
def test_only_what_is_asked_for_is_told(client, learned, query, places):
    learned(LIMIT, EAST, replace(LIMIT, project="theirs"))
    assert [quota["where"] for quota in quotas(client, **query)] == places


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("project=theirs", "is not a project of this service"),
        ("generation=v9", "there is no generation"),
        ("zone=us-west4-a", "known query parameters are generation, page_size, page_token"),
        ("page_size=0", "greater than or equal to 1"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client, query, said):
    answer = client.get(f"/v1/catalog/quotas?{query}")
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_pages_follow_each_other(client, learned):
    learned(LIMIT, EAST)
    first = client.get("/v1/catalog/quotas?page_size=1").json()
    rest = quotas(client, page_size=1, page_token=first["next_page_token"])
    assert [quota["where"] for quota in (*first["quotas"], *rest)] == ["us-east5-a", "us-west4"]


def test_a_request_that_cannot_fit_says_so_at_once_and_what_would(client, learned):
    learned(LIMIT, replace(LIMIT, place="us-central1"))
    answer = client.post("/v1/nodes", json=NODE_REQUEST)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "urn:tpu-steward:problem:quota-too-small"
    assert "us-west4-a cannot hold 8 chips: Google's limit TPUV5s is 0" in problem["detail"]
    assert "us-east5-a" in problem["other_zones"]
    assert "us-central1-a" not in problem["other_zones"], "it is known to be too small as well"
    (fact,) = problem["quotas"]
    assert (fact["allowed"], fact["needed_chips"], fact["where"]) == (0, 8, "us-west4")
    assert client.get("/v1/nodes").json()["nodes"] == []


def test_a_place_that_is_too_small_is_warned_of_where_another_is_left(client, learned):
    learned(LIMIT)
    body = NODE_REQUEST | {"zone": None, "zones": ["us-west4-a", "us-central1-a"]}
    answer = client.post("/v1/nodes", json={k: v for k, v in body.items() if v is not None})
    assert answer.status_code == 201
    node = answer.json()
    assert node["warnings"][0].startswith("not tried in us-west4-a until 2026-11-06T11:59:00Z")
    event, _ = client.get(f"/v1/nodes/{node['id']}/events").json()["events"]
    assert event["message"].startswith("requested")


def test_a_limit_that_was_raised_can_be_forgotten(client, learned):
    learned(LIMIT)
    answer = client.post(f"/v1/catalog/quotas/{LIMIT.id}:forget")
    assert answer.status_code == 200
    assert answer.json()["where"] == "us-west4"
    assert quotas(client) == []
    assert client.post("/v1/nodes", json=NODE_REQUEST).status_code == 201
    again = client.post(f"/v1/catalog/quotas/{LIMIT.id}:forget")
    assert again.status_code == 404
    assert "GET /v1/catalog/quotas lists them" in again.json()["detail"]


@pytest.mark.parametrize("name", ["x", "0" * 31, "0" * 33, "G" * 32])
def test_what_is_no_id_of_a_quota_is_refused(client, name):
    assert client.post(f"/v1/catalog/quotas/{name}:forget").status_code == 422
