"""Where hardware was to be had lately, over HTTP; and nodes of any of several types."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from service.domain.nodes.placement import HardwareKey, Outcome, Placement
from service.domain.placement.quota import Limit, Size, Tier
from tests import factories
from tests.hands import NOON

HERE = HardwareKey("us-west4-a", "v5litepod-8", "v5e", "spot")
THERE = HardwareKey("us-east5-a", "v6e-8", "v6e", "on_demand")


@pytest.fixture
def tried(units):
    """Write attempts down: what, when it began in seconds before noon, and how it ended."""
    node, numbers = factories.node(), count(1)
    with units() as unit:
        unit.nodes.add(node)

    def write(key, ago, outcome, ready=None, lived=None):
        number, began = next(numbers), NOON - ago
        ready_at = None if ready is None else began + ready
        ended = None if outcome is Outcome.READY else (ready_at or began) + (lived or 5)
        one = Placement(
            node.id,
            number,
            key.zone,
            key.model,
            f"c-{number}",
            began,
            outcome,
            ended_at=ended,
            project="lab",
            accelerator_type=key.accelerator_type,
            generation=key.generation,
            ready_at=ready_at,
        )
        with units() as unit:
            unit.placements.add(one)

    return write


def capacity(client, **query):
    answer = client.get("/v1/catalog/capacity", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["capacity"]


def test_what_became_of_the_attempts_is_told_with_what_is_left_alone(client, tried):
    tried(HERE, 7_200, Outcome.PREEMPTED, ready=100, lived=3_600)
    tried(HERE, 45, Outcome.STOCK_OUT)
    (one,) = capacity(client)
    assert one == {
        "project": "lab",
        "zone": "us-west4-a",
        "accelerator_type": "v5litepod-8",
        "generation": "v5e",
        "provisioning_model": "spot",
        "attempts": 2,
        "ready": 1,
        "stock_outs": 1,
        "quota_refusals": 0,
        "denied": 0,
        "failed": 0,
        "median_seconds_to_ready": 100,
        "preempted": 1,
        "median_seconds_lived": 3_600,
        "last_attempt_at": "2026-11-05T11:59:15Z",
        "back_off_until": "2026-11-05T12:00:20Z",
        "reason": "was out of capacity 40 s ago",
    }


def test_what_is_free_has_no_reason(client, tried):
    tried(THERE, 600, Outcome.READY, ready=90)
    (one,) = capacity(client)
    assert (one["back_off_until"], one["reason"], one["median_seconds_lived"]) == (None, "", None)


NOTHING = Limit(
    "lab", "TPUV5s", "us-west4", "v5e", Tier.PREEMPTIBLE, Size.ANY, 4, NOON - 1_200, "Limit: 4."
)


def test_what_a_believed_quota_bars_is_left_alone_as_long_as_that_is_believed(
    client, tried, learned, clock
):
    tried(HERE, 1_200, Outcome.QUOTA)
    tried(THERE, 1_200, Outcome.QUOTA)
    learned(NOTHING)
    free, barred = capacity(client)
    assert (free["zone"], free["back_off_until"]) == ("us-east5-a", None)
    assert barred["back_off_until"] == "2026-11-06T11:40:00Z"
    assert barred["reason"] == ("may not have 8 chips (Google's limit TPUV5s is 4 in us-west4)")
    clock.pass_(86_400 - 1_201)
    assert capacity(client)[1]["back_off_until"] == "2026-11-06T11:40:00Z"
    clock.pass_(1)
    assert capacity(client)[1]["back_off_until"] is None


@pytest.mark.parametrize(
    "other",
    [
        {"allowed": 8},
        {"project": "theirs"},
        {"tier": Tier.ON_DEMAND},
        {"generation": "v6e"},
        {"place": "us-west4-b"},
    ],
)
def test_a_quota_that_does_not_bar_it_leaves_it_free(client, tried, learned, other):
    tried(HERE, 1_200, Outcome.QUOTA)
    learned(replace(NOTHING, **other))
    (one,) = capacity(client)
    assert (one["back_off_until"], one["reason"]) == (None, "")


@pytest.mark.parametrize(
    ("query", "zones"),
    [
        ({}, ["us-east5-a", "us-west4-a"]),
        ({"zone": "us-west4-a"}, ["us-west4-a"]),
        ({"accelerator_type": "v6e-8"}, ["us-east5-a"]),
        ({"generation": "v5e"}, ["us-west4-a"]),
        ({"provisioning_model": "on_demand"}, ["us-east5-a"]),
        ({"project": "lab", "window": "today"}, ["us-east5-a", "us-west4-a"]),
        ({"project": "other"}, []),
        ({"window": "1h"}, ["us-east5-a"]),
        ({"window": "2026-11-04,2026-11-05T11:00:00Z"}, ["us-west4-a"]),
    ],
)
def test_only_what_is_asked_for_counts(client, tried, query, zones):
    tried(HERE, 7_200, Outcome.STOCK_OUT)
    tried(THERE, 60, Outcome.READY, ready=30)
    assert [zone["zone"] for zone in capacity(client, **query)] == zones


def test_pages_follow_each_other(client, tried):
    tried(HERE, 60, Outcome.STOCK_OUT)
    tried(THERE, 60, Outcome.STOCK_OUT)
    first = client.get("/v1/catalog/capacity?page_size=1").json()
    token = first["next_page_token"]
    rest = client.get(f"/v1/catalog/capacity?page_size=1&page_token={token}").json()
    assert [zone["zone"] for page in (first, rest) for zone in page["capacity"]] == [
        "us-east5-a",
        "us-west4-a",
    ]
    assert rest["next_page_token"] == ""


def test_any_of_several_types_is_shown_with_the_one_that_is_tried_first(client):
    body = {"accelerator_types": ["v6e-8", "v5litepod-8"], "regions": ["us-east5"]}
    answer = client.post("/v1/nodes", json=body)
    assert answer.status_code == 201, answer.text
    node = answer.json()
    assert node["accelerator_type"] == node["accelerator_types"][0]
    assert set(node["accelerator_types"]) == set(body["accelerator_types"])
    assert all(zone.startswith("us-east5-") for zone in node["zones"])
    event, *_ = client.get(f"/v1/nodes/{node['id']}/events").json()["events"]
    assert event["message"].startswith(f"requested: {' or '.join(node['accelerator_types'])}, ")


def test_a_type_that_is_left_out_is_told_as_a_warning(client):
    body = {"accelerator_types": ["v4-8", "v6e-8"], "zone": "us-east5-a"}
    node = client.post("/v1/nodes", json=body).json()
    assert node["accelerator_types"] == ["v6e-8"]
    assert node["warnings"][0].startswith("v4-8 is left out: v4-8 is not offered in us-east5-a")
