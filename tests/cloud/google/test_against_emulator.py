"""Our adapter and Google's client against the emulator, over loopback: what mocks cannot show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.cloud.google import pages
from service.cloud.google.channel import open_channel, tpu_client
from service.cloud.google.retries import ONCE, PATIENT, Allowance
from service.cloud.google.tpus import GoogleTpus
from service.cloud.ports import Order
from service.cloud.rate_limit import Pace
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import (
    AlreadyExists,
    CapacityUnavailable,
    CloudNotFound,
    CloudUnavailable,
    InvalidRequest,
    NotAllowed,
    QuotaExceeded,
)
from service.domain.nodes.node import NodeState, Place
from service.domain.placement.quota import Tier, learn_limit
from tests.cloud.google import given
from tests.cloud.google.emulated import Cloud
from tests.cloud.google.given import PLACE
from tests.hands import NOON

ZONE = PLACE.zone


@pytest.fixture
def tpus(cloud: Cloud) -> GoogleTpus:
    return cloud.tpus()


def another(name: str, **changes: Any) -> Order:
    """An order under another name, with changes to its spec."""
    order = given.order(**changes)
    return replace(order, place=replace(order.place, cloud_id=name))


def test_a_node_is_created_seen_stopped_started_and_deleted(cloud, tpus):
    creation = tpus.create(given.order())
    assert (creation.verb, creation.target, creation.done) == ("create", PLACE.path, False)
    assert tpus.get(PLACE).state == NodeState.CREATING
    cloud.settle()
    creation = tpus.operation(creation.name)
    assert creation.has_succeeded
    assert creation.ended_at is not None
    assert creation.ended_at >= creation.created_at
    assert tpus.get(PLACE).state == NodeState.READY
    for change, verb, state in [
        (tpus.stop, "stop", NodeState.STOPPED),
        (tpus.start, "start", NodeState.READY),
    ]:
        assert change(PLACE).verb == verb
        cloud.settle()
        assert tpus.get(PLACE).state == state
    assert tpus.delete(PLACE).verb == "delete"
    assert tpus.get(PLACE).state == NodeState.DELETING
    cloud.settle()
    with pytest.raises(CloudNotFound):
        tpus.get(PLACE)
    with pytest.raises(CloudNotFound):
        tpus.delete(PLACE)
    assert tpus.inventory("lab").sightings() == {}


def test_the_cloud_remembers_what_was_done_in_a_zone(cloud, tpus):
    tpus.create(given.order())
    cloud.settle()
    tpus.delete(PLACE)
    found = tpus.operations("lab", ZONE)
    assert sorted(operation.verb for operation in found) == ["create", "delete"]
    assert {operation.target for operation in found} == {PLACE.path}


def test_what_was_ordered_is_what_is_seen(cloud, tpus):
    tpus.create(
        given.order(
            provisioning_model=ProvisioningModel.SPOT,
            external_ip=True,
            service_account="tpu@lab.iam.gserviceaccount.com",
            data_disks=("scratch",),
            metadata={"a": "b"},
            startup_script="#!/bin/sh",
            network="prod",
        )
    )
    cloud.settle()
    seen = tpus.get(PLACE)
    assert seen.place == PLACE
    assert (seen.accelerator_type, seen.runtime_version) == ("v6e-8", "v2-alpha-tpuv6e")
    assert (seen.provisioning_model, seen.health) == (ProvisioningModel.SPOT, "HEALTHY")
    assert seen.labels == {"steward-id": "n1", "team": "vision"}
    assert seen.uid.isdecimal()
    assert seen.created_at is not None
    [endpoint] = seen.endpoints
    assert endpoint.ip.startswith("10.")
    assert endpoint.port == 8470
    assert endpoint.external_ip


def test_an_inventory_spans_zones_and_pages_and_decodes_what_get_shows(cloud, tpus, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    places = [Place("lab", zone, f"n{n}") for n in range(3) for zone in (ZONE, "us-east1-d")]
    for place in places:
        tpus.create(replace(given.order(), place=place))
    cloud.settle()
    found = tpus.inventory("lab")
    assert set(found.sightings()) == {place.path for place in places}
    assert (found.pages, found.unreachable) == (3, frozenset())
    assert all(found.sightings()[place.path].decode() == tpus.get(place) for place in places)


def test_a_digest_stays_until_something_changes(cloud, tpus):
    def digest() -> bytes:
        return tpus.inventory("lab").sightings()[PLACE.path].digest

    tpus.create(given.order(metadata={str(n): "x" for n in range(20)}))
    creating = digest()
    assert creating == digest()
    cloud.settle()
    assert creating != digest()


def test_a_stock_out_arrives_late_inside_the_operation(cloud, tpus):
    cloud.fault("CreateNode", "stockout", match={"zone": ZONE})
    creation = tpus.create(given.order())
    assert creation.error is None
    cloud.settle()
    creation = tpus.operation(creation.name)
    assert creation.done
    assert isinstance(creation.error, CapacityUnavailable)
    assert ZONE in str(creation.error)


def test_a_node_that_is_preempted_while_it_comes_up_has_found_no_hardware(cloud, tpus):
    creation = tpus.create(given.order(provisioning_model=ProvisioningModel.SPOT))
    cloud.tell("nodes/preempt", {"name": PLACE.path})
    assert isinstance(tpus.operation(creation.name).error, CapacityUnavailable)


def test_a_quota_is_refused_at_once_and_says_where(cloud, tpus):
    cloud.fault("CreateNode", "quota", match={"zone": ZONE})
    with pytest.raises(QuotaExceeded) as refusal:
        tpus.create(given.order(provisioning_model=ProvisioningModel.SPOT))
    assert refusal.value.facts == {
        "limit": "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI",
        "allowed": 0,
        "region": "us-east5",
    }


@pytest.mark.parametrize(
    ("key", "place", "model", "tier"),
    [
        ("us-east5/v6e", "us-east5", ProvisioningModel.SPOT, Tier.PREEMPTIBLE),
        (f"{ZONE}/v6e/on_demand", ZONE, ProvisioningModel.ON_DEMAND, Tier.ON_DEMAND),
    ],
)
def test_a_limit_is_understood_as_it_is_said(cloud, tpus, key, place, model, tier):
    cloud.set(quotas={key: 4})
    order = given.order(provisioning_model=model)
    with pytest.raises(QuotaExceeded) as refusal:
        tpus.create(order)
    limit = learn_limit(order.spec, ZONE, refusal.value, NOON)
    assert limit is not None
    assert (limit.allowed, limit.place, limit.generation, limit.tier) == (4, place, "v6e", tier)
    assert limit.name == refusal.value.facts["limit"]
    assert limit.said.startswith("Quota limit 'TPUV6E")


def test_a_create_whose_answer_was_lost_is_not_sent_again_and_has_taken_effect(cloud, tpus):
    cloud.fault("CreateNode", "lose_response")
    with pytest.raises(CloudUnavailable):
        tpus.create(given.order())
    assert tpus.get(PLACE).labels["steward-id"] == "n1"
    with pytest.raises(AlreadyExists):
        tpus.create(given.order())


def test_a_create_that_takes_too_long_is_not_known_to_have_failed(cloud):
    tpus = cloud.tpus(replace(PATIENT, create=Allowance(0.2)))
    cloud.fault("CreateNode", "delay", delay_seconds=5)
    with pytest.raises(CloudUnavailable):
        tpus.create(given.order())


@pytest.mark.parametrize("action", ["error", "lose_response"])
def test_a_read_is_tried_again(action, cloud, tpus):
    tpus.create(given.order())
    cloud.fault("GetNode", action, code="UNAVAILABLE", times=2)
    assert tpus.get(PLACE).place == PLACE
    cloud.fault("ListNodes", action, code="UNAVAILABLE", times=1)
    assert PLACE.path in tpus.inventory("lab").sightings()


def test_without_patience_nothing_is_tried_again(cloud):
    cloud.fault("ListNodes", "error", code="UNAVAILABLE")
    tpus = cloud.tpus(ONCE)
    with pytest.raises(CloudUnavailable):
        tpus.inventory("lab")
    assert tpus.inventory("lab").sightings() == {}


def test_a_list_that_lacks_a_zone_says_so(cloud, tpus):
    tpus.create(given.order())
    cloud.fault("ListNodes", "partial_list", match={"zone": ZONE})
    found = tpus.inventory("lab")
    assert found.sightings() == {}
    assert not found.is_reachable(ZONE)
    assert found.is_reachable("us-east1-d")
    assert PLACE.path in tpus.inventory("lab").sightings()


@pytest.mark.parametrize(
    ("code", "ours"),
    [
        ("PERMISSION_DENIED", NotAllowed),
        ("UNAUTHENTICATED", NotAllowed),
        ("INVALID_ARGUMENT", InvalidRequest),
        ("INTERNAL", CloudUnavailable),
        ("NOT_FOUND", CloudNotFound),
    ],
)
def test_refusals_come_out_as_ours(code, ours, cloud, tpus):
    cloud.fault("DeleteNode", "error", code=code, message="on command")
    with pytest.raises(ours, match="on command"):
        tpus.delete(PLACE)


def test_a_type_that_the_zone_lacks_and_a_zone_that_is_none_are_told_apart(tpus):
    with pytest.raises(InvalidRequest, match="v4-8"):
        tpus.create(given.order(accelerator_type="v4-8"))
    with pytest.raises(NotAllowed) as refusal:
        tpus.get(replace(PLACE, zone="us-nowhere1-a"))
    assert refusal.value.facts == {"reason": "LOCATION_POLICY_VIOLATED"}


def test_a_slice_cannot_be_stopped(cloud, tpus):
    tpus.create(given.order(accelerator_type="v6e-16", chips=16, hosts=4))
    cloud.settle()
    assert len(tpus.get(PLACE).endpoints) == 4
    with pytest.raises(InvalidRequest):
        tpus.stop(PLACE)


def test_metadata_is_replaced(cloud, tpus):
    tpus.create(given.order(metadata={"old": "1"}))
    cloud.settle()
    assert tpus.metadata(PLACE) == {"old": "1"}
    before = tpus.inventory("lab").digest
    assert tpus.update_metadata(PLACE, {"new": "2"}).verb == "update"
    cloud.settle()
    assert tpus.metadata(PLACE) == {"new": "2"}
    assert tpus.inventory("lab").digest == before


def test_metadata_of_a_node_that_is_not_there_is_not_found(tpus):
    with pytest.raises(CloudNotFound):
        tpus.metadata(PLACE)


def test_guest_attributes_are_empty_on_a_node_that_wrote_none(cloud, tpus):
    tpus.create(given.order())
    cloud.settle()
    assert tpus.guest_attributes(PLACE, "steward") == []


def test_a_zone_says_what_it_offers(tpus):
    assert "v6e-8" in tpus.accelerator_types("lab", ZONE)
    assert "v2-alpha-tpuv6e" in tpus.runtime_versions("lab", ZONE)


def test_an_operation_that_the_cloud_does_not_know_is_not_found(tpus):
    with pytest.raises(CloudNotFound):
        tpus.operation(f"projects/lab/locations/{ZONE}/operations/operation-1-2-3-4")


def test_a_channel_that_was_closed_is_no_refusal(cloud):
    channel = open_channel(cloud.emulator.grpc_address)
    tpus = GoogleTpus(tpu_client(channel), Pace(lambda: 0.0))
    channel.close()
    with pytest.raises(CloudUnavailable, match="closed channel"):
        tpus.create(given.order())


def test_a_server_that_is_not_there_gives_no_usable_answer():
    tpus = GoogleTpus(tpu_client(open_channel("127.0.0.1:1")), Pace(lambda: 0.0), ONCE)
    with pytest.raises(CloudUnavailable):
        tpus.inventory("lab")
