"""Names, ids and prices of what is in the cloud and not in our books."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.nodes.node import NodeState, Place
from service.domain.orphans.orphan import hourly_cost, orphan_id, owner_hints, place_in
from tests import factories
from tests.garbage import shown
from tests.hands import NOON

HERE = "projects/lab/locations/us-west4-a"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"{HERE}/nodes/run-1", Place("lab", "us-west4-a", "run-1")),
        (f"{HERE}/queuedResources/run-1", Place("lab", "us-west4-a", "run-1")),
        (f"{HERE}/nodes/", None),
        (f"{HERE}/nodes/a/b", None),
        (f"{HERE}/nodes/a\n", None),
        (f"{HERE}/nodes/a\0", None),
        (f"{HERE}/nodes/{'a' * 101}", None),
        (f"{HERE}/disks/a", None),
        (f"/{HERE}/nodes/a", None),
        ("", None),
    ],
)
def test_a_full_name_is_read_and_nothing_else_is(path, place):
    assert place_in(path) == place


@given(st.text())
def test_no_text_that_the_cloud_may_send_is_an_error(text):
    place = place_in(text)
    assert place is None or place.cloud_id in text


def test_a_queued_resource_and_its_node_of_the_same_name_are_two():
    ids = {orphan_id(shown(queued=queued).path) for queued in (True, False)}
    assert len(ids) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", id_) for id_ in ids)


@pytest.mark.parametrize(
    ("changes", "nanos"),
    [
        ({}, 9_600_000_000),
        ({"accelerator_type": "v5litepod-64"}, 76_800_000_000),
        ({"accelerator_type": "v99-8"}, None),
        ({"provisioning_model": "reserved"}, None),
        ({"queued": True}, None),
        *(({"state": state}, None) for state in NodeState if state != NodeState.READY),
    ],
)
def test_what_is_ready_costs_what_its_chips_cost(changes, nanos):
    assert hourly_cost(shown(**changes), factories.book(), NOON) == nanos


def test_the_labels_that_say_whose_it_may_be_are_picked_out():
    assert owner_hints({"run": "17", "owner": "ada", "team": ""}) == {"owner": "ada"}


def test_labels_of_other_tools_are_hints_after_those_of_people():
    labels = {"ray-cluster-name": "r1", "skypilot-user": "ada", "dstack_user": "bob", "email": "c"}
    found = owner_hints(labels)
    assert found == labels
    assert next(iter(found)) == "email"
