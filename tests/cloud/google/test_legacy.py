"""Legacy TPU Nodes through API version 1, in an emulated cloud whose clock is a value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pytest
from google.cloud import tpu_v1, tpu_v2

from service.cloud.google import pages
from service.cloud.google.channel import legacy_client, tpu_client
from service.cloud.google.legacy import LegacyTpus
from service.cloud.google.retries import ONCE, PATIENT
from service.cloud.google.tpus import GoogleTpus
from service.cloud.ports import Order
from service.cloud.rate_limit import Pace
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import (
    AlreadyExists,
    CapacityUnavailable,
    CloudNotFound,
    CloudUnavailable,
    InvalidRequest,
    NotAllowed,
    RateLimited,
)
from service.domain.nodes.node import NodeSpec, NodeState, Place
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from tests.cloud.google import given
from tests.cloud.google.given import Pager
from tests.emulator.factories import Cloud

PLACE = Place("lab", "us-central1-b", "old-1a2b3c4d")
SPEC = NodeSpec(
    project="lab",
    accelerator_type="v2-8",
    generation="v2",
    chips=4,
    hosts=1,
    zones=(PLACE.zone,),
    runtime_version="2.12.0",
    architecture=Architecture.NODE,
)


def order(**changes: Any) -> Order:
    """An order for a v2-8 of the legacy architecture; `changes` are fields of its spec."""
    return Order(PLACE, replace(SPEC, **changes), {"steward-id": "n1", "team": "vision"})


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def tpus(cloud: Cloud) -> GoogleTpus:
    channel = LocalChannel(cloud.world)
    legacy = LegacyTpus(legacy_client(channel), ONCE)
    return GoogleTpus(tpu_client(channel), Pace(lambda: 0.0), ONCE, legacy=legacy)


def fault(cloud: Cloud, rpc: str, action: str, **more: Any) -> None:
    control.add_fault(cloud.world, {"rpc": rpc, "action": action, **more})


def ready(cloud: Cloud, tpus: GoogleTpus, **changes: Any) -> None:
    tpus.create(order(**changes))
    cloud.wait(20)
    assert tpus.get(PLACE).state == NodeState.READY


def test_what_was_ordered_is_what_is_seen(cloud, tpus):
    creation = tpus.create(
        order(provisioning_model=ProvisioningModel.PREEMPTIBLE, network="global/networks/old")
    )
    assert (creation.verb, creation.target, creation.done) == ("create", PLACE.path, False)
    assert tpus.get(PLACE).state == NodeState.CREATING
    cloud.wait(20)
    assert tpus.operation(creation.name).has_succeeded
    seen = tpus.get(PLACE)
    assert (seen.place, seen.state) == (PLACE, NodeState.READY)
    assert (seen.accelerator_type, seen.runtime_version) == ("v2-8", "2.12.0")
    assert seen.provisioning_model is ProvisioningModel.PREEMPTIBLE
    assert seen.labels == {"steward-id": "n1", "team": "vision"}
    [endpoint] = seen.endpoints
    assert (endpoint.port, endpoint.external_ip) == (8470, "")
    record = cloud.ask("v1.GetNode", name=PLACE.path)
    assert record.network == "global/networks/old"
    assert record.api_version == tpu_v1.Node.ApiVersion.V1
    assert not record.use_service_networking


def test_the_inventory_shows_it_beside_the_others(cloud, tpus):
    ready(cloud, tpus)
    shown = tpus.inventory("lab").sightings()
    assert shown[PLACE.path].decode() == tpus.get(PLACE)


def test_v2_stops_starts_and_deletes_what_v1_has_made(cloud, tpus):
    ready(cloud, tpus)
    tpus.stop(PLACE)
    cloud.wait(10)
    assert tpus.get(PLACE).state == NodeState.STOPPED
    tpus.start(PLACE)
    cloud.wait(15)
    assert tpus.get(PLACE).state == NodeState.READY
    tpus.delete(PLACE)
    cloud.wait(8)
    with pytest.raises(CloudNotFound):
        tpus.get(PLACE)
    verbs = sorted(each.verb for each in tpus.operations("lab", PLACE.zone))
    assert verbs == ["create", "delete", "start", "stop"]


def test_a_reimage_is_an_operation_with_both_its_ends(cloud, tpus):
    ready(cloud, tpus)
    begun = tpus.reimage(PLACE, "2.16.1")
    assert (begun.verb, begun.target, begun.done) == ("reimage", PLACE.path, False)
    assert tpus.get(PLACE).state == NodeState.REIMAGING
    cloud.wait(30)
    ended = tpus.operation(begun.name)
    assert ended.has_succeeded
    assert ended.ended_at == begun.created_at + 30
    assert (tpus.get(PLACE).state, tpus.get(PLACE).runtime_version) == (NodeState.READY, "2.16.1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runtime_version": "2.4"}, 'The field "TensorflowVersion" cannot be "2.4"'),
        ({"runtime_version": "tpu-vm-base"}, 'The field "TensorflowVersion" cannot be'),
        ({"accelerator_type": ""}, 'The field "AcceleratorType" cannot be ""'),
        ({"accelerator_type": "v5litepod-8"}, "accelerator v5litepod-8 was not found in zone"),
    ],
)
def test_what_v1_refuses_is_refused_for_good(changes, said, tpus):
    with pytest.raises(InvalidRequest, match=said):
        tpus.create(order(**changes))


@pytest.mark.parametrize("model", [ProvisioningModel.SPOT, ProvisioningModel.FLEX_START])
def test_what_v1_has_no_words_for_is_not_sent(model, cloud, tpus):
    with pytest.raises(InvalidRequest, match=f"not sold as {model}"):
        tpus.create(order(provisioning_model=model))
    assert tpus.operations("lab", PLACE.zone) == []


def test_a_version_that_is_none_and_a_node_that_is_busy_are_not_reimaged(cloud, tpus):
    ready(cloud, tpus)
    with pytest.raises(InvalidRequest, match=r'The field "TensorflowVersion" cannot be "9\.9"'):
        tpus.reimage(PLACE, "9.9")
    tpus.reimage(PLACE, "2.16.1")
    with pytest.raises(InvalidRequest, match="not supported while in state REIMAGING"):
        tpus.reimage(PLACE, "2.15.0")
    with pytest.raises(CloudNotFound):
        tpus.reimage(replace(PLACE, cloud_id="nothing"), "2.16.1")


def test_a_tpu_vm_is_not_reimaged(cloud, tpus):
    tpus.create(given.order())
    cloud.wait(20)
    with pytest.raises(InvalidRequest, match="not supported for TPU VMs"):
        tpus.reimage(given.PLACE, "2.16.1")


def test_a_stock_out_arrives_late_and_a_lost_answer_is_not_known_to_have_failed(cloud, tpus):
    fault(cloud, "CreateNode", "stockout")
    creation = tpus.create(order())
    cloud.wait(20)
    assert isinstance(tpus.operation(creation.name).error, CapacityUnavailable)
    fault(cloud, "CreateNode", "lose_response")
    with pytest.raises(CloudUnavailable):
        tpus.create(order())
    with pytest.raises(AlreadyExists):
        tpus.create(order())


def test_a_reimage_whose_answer_is_lost_has_taken_effect(cloud, tpus):
    ready(cloud, tpus)
    fault(cloud, "ReimageNode", "lose_response")
    with pytest.raises(CloudUnavailable):
        tpus.reimage(PLACE, "2.16.1")
    assert tpus.get(PLACE).state == NodeState.REIMAGING


def test_each_architecture_has_its_own_offers(tpus, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_SIZE", 7)
    where = "lab", PLACE.zone
    versions = tpus.runtime_versions(*where, Architecture.NODE)
    assert {"1.15", "2.16.1", "pytorch-1.13"} < set(versions)
    assert len(set(versions)) == len(versions) > 7
    assert "2.16.1" not in tpus.runtime_versions(*where)
    legacy = set(tpus.accelerator_types(*where, Architecture.NODE))
    assert "v2-8" in legacy
    assert legacy <= set(tpus.accelerator_types(*where))


def test_the_pace_counts_both_architectures_together(cloud):
    channel = LocalChannel(cloud.world)
    legacy = LegacyTpus(legacy_client(channel), ONCE)
    tpus = GoogleTpus(tpu_client(channel), Pace(lambda: 0.0, burst=1), ONCE, legacy=legacy)
    tpus.create(given.order())
    with pytest.raises(RateLimited):
        tpus.create(order())


@pytest.fixture
def client() -> Any:
    """Google's v1 client as a mock that knows the real signatures and answers each call."""
    made = create_autospec(tpu_v1.TpuClient, instance=True, spec_set=True)
    made.create_node.return_value.operation = given.operation()
    made.reimage_node.return_value.operation = given.operation("reimage")
    made.list_tensor_flow_versions.return_value = Pager(tpu_v1.ListTensorFlowVersionsResponse())
    made.list_accelerator_types.return_value = Pager(tpu_v1.ListAcceleratorTypesResponse())
    return made


@pytest.mark.parametrize(
    ("ask", "allowance"),
    [
        (lambda legacy: legacy.create_node(order()), PATIENT.create),
        (lambda legacy: legacy.reimage_node(PLACE, "2.16.1"), PATIENT.write),
        (lambda legacy: legacy.runtime_versions("lab", PLACE.zone), PATIENT.offers),
        (lambda legacy: legacy.accelerator_types("lab", PLACE.zone), PATIENT.offers),
    ],
)
def test_no_call_goes_out_without_a_timeout_and_a_word_on_retrying(ask, allowance, client):
    ask(LegacyTpus(client))
    [call] = client.method_calls
    assert (call.kwargs["timeout"], call.kwargs["retry"]) == (allowance.timeout, allowance.retry)


def test_what_changes_something_is_sent_once():
    assert PATIENT.create.retry is None
    assert PATIENT.write.retry is None


def test_a_zone_that_did_not_answer_does_not_pass_for_one_that_offers_nothing(client):
    lacking = tpu_v1.ListTensorFlowVersionsResponse(unreachable=[PLACE.zone])
    client.list_tensor_flow_versions.return_value = Pager(lacking)
    with pytest.raises(CloudUnavailable, match=PLACE.zone):
        LegacyTpus(client).runtime_versions("lab", PLACE.zone)


def test_without_the_client_of_version_1_there_are_no_legacy_nodes():
    client = create_autospec(tpu_v2.TpuClient, instance=True, spec_set=True)
    tpus = GoogleTpus(client, Pace(lambda: 0.0))
    for ask in (
        lambda: tpus.create(order()),
        lambda: tpus.reimage(PLACE, "2.16.1"),
        lambda: tpus.runtime_versions("lab", PLACE.zone, Architecture.NODE),
    ):
        with pytest.raises(NotAllowed, match="version 1"):
            ask()
    assert client.method_calls == []
