"""An inventory has everything, or says what it lacks, or is none."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from service.cloud.google.pages import all_of, build_inventory
from service.domain.errors import CloudUnavailable
from tests.cloud.google import given
from tests.cloud.google.given import RawPage

ZONE = "projects/lab/locations/us-east5-b"


def raw_page(*nodes: Any, token: str = "", unreachable: tuple[str, ...] = ()) -> Any:
    return RawPage(nodes=nodes, next_page_token=token, unreachable=unreachable)


def named(name: str, **fields: Any) -> Any:
    return given.node(name=f"{ZONE}/nodes/{name}", **fields)


def test_the_nodes_of_all_pages_are_there_by_their_full_names():
    found = build_inventory(
        "lab", [raw_page(named("a"), named("b"), token="2"), raw_page(named("c"))]
    )
    assert set(found.sightings()) == {f"{ZONE}/nodes/{name}" for name in "abc"}
    assert (found.project, found.pages, found.unreachable) == ("lab", 2, frozenset())
    assert found.sightings()[f"{ZONE}/nodes/b"].decode().place.cloud_id == "b"


def test_a_node_that_comes_twice_counts_once():
    found = build_inventory("lab", [raw_page(named("a"), token="2"), raw_page(named("a", state=5))])
    assert [sighting.decode().state for sighting in found.sightings().values()] == ["DELETING"]


def test_a_legacy_tpu_node_is_left_in():
    found = build_inventory("lab", [raw_page(named("a", api_version=2))])
    assert len(found.sightings()) == 1


@pytest.mark.parametrize(
    "entry", ["us-east5-b", ZONE, "projects/123/locations/us-east5-b", f"{ZONE}/nodes/a"]
)
def test_a_zone_that_did_not_answer_is_named(entry):
    found = build_inventory("lab", [raw_page(token="2"), raw_page(unreachable=(entry,))])
    assert found.unreachable == {"us-east5-b"}
    assert not found.is_reachable("us-east5-b")
    assert found.is_reachable("us-east5-a")


@pytest.mark.parametrize("entry", ["", "-", "projects/lab/locations/-", "us-east5"])
def test_what_it_lacks_must_be_a_zone_or_it_is_no_inventory(entry):
    with pytest.raises(CloudUnavailable, match="no zone"):
        build_inventory("lab", [raw_page(named("a"), unreachable=(entry,))])


def test_pages_that_lead_back_are_no_inventory():
    fetched = []

    def circle() -> Any:
        for turn in count():
            fetched.append(turn)
            yield raw_page(named(f"n{turn}"), token="ab"[turn % 2])

    with pytest.raises(CloudUnavailable, match="does not end"):
        build_inventory("lab", circle())
    assert len(fetched) == 3


def test_there_is_an_end_even_to_tokens_that_never_repeat():
    endless = (raw_page(token=str(turn)) for turn in count())
    with pytest.raises(CloudUnavailable, match="does not end"):
        for _ in all_of(endless):
            pass


def digest(node: Any) -> bytes:
    [sighting] = build_inventory("lab", [raw_page(node)]).sightings().values()
    return sighting.digest


def test_equal_nodes_have_equal_digests_whatever_the_order_of_their_maps():
    pairs = {f"key-{n}": str(n) for n in range(30)}
    backwards = dict(reversed(pairs.items()))
    one = named("a", labels=pairs, metadata=pairs)
    other = named("a", labels=backwards, metadata=backwards)
    assert digest(one) == digest(other)
    assert len(digest(one)) == 8


@pytest.mark.parametrize(
    "changed",
    [
        {"state": 5},
        {"health": 5},
        {"labels": {"steward-id": "n2"}},
        {"metadata": {"startup-script": "true"}},
        {"network_endpoints": []},
        {"id": 1},
    ],
    ids=str,
)
def test_whatever_changes_changes_the_digest(changed):
    assert digest(named("a")) != digest(named("a", **changed))
