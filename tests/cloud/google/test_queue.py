"""Queued resources through Google's client, and flex-start beside it, against the emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import requests

from service.cloud.google import queue
from service.cloud.google.calls import FIELD_MASK
from service.cloud.google.channel import open_channel, rest_session, tpu_client
from service.cloud.google.flex import FlexStart
from service.cloud.google.retries import ONCE, PATIENT
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
)
from service.domain.nodes.node import NodeState
from service.domain.nodes.queued_resource import QueuedResource, QueueState
from service.emulator.app import build_world
from service.emulator.surfaces.channel import LocalChannel
from tests.cloud.google import given
from tests.cloud.google.emulated import Cloud
from tests.cloud.google.given import PLACE
from tests.hands import NOON


@pytest.fixture
def tpus(cloud: Cloud) -> GoogleTpus:
    channel = open_channel(cloud.emulator.grpc_address)
    flex = FlexStart(lambda: rest_session("emulator"), cloud.emulator.rest_url)
    return GoogleTpus(tpu_client(channel), Pace(lambda: 0.0, burst=1_000), flex=flex)


def order(valid_until: int | None = None, **changes: object) -> Order:
    return replace(given.order(queued=True, **changes), valid_until=valid_until)


def state(tpus: GoogleTpus) -> str:
    return tpus.queued(PLACE).state


def test_a_queued_node_is_asked_for_seen_granted_and_deleted(cloud, tpus):
    asked = tpus.create(order())
    assert (asked.verb, asked.target) == ("create", PLACE.queue_path)
    cloud.settle()
    seen = tpus.queued(PLACE)
    assert (seen.place, seen.state) == (PLACE, QueueState.ACTIVE)
    assert seen.nodes == (PLACE.cloud_id,)
    assert seen.labels == {"steward-id": "n1", "team": "vision"}
    assert tpus.get(PLACE).state == NodeState.READY
    assert tpus.get(PLACE).queued_resource == PLACE.queue_path
    with pytest.raises(InvalidRequest):
        tpus.dequeue(PLACE, force=False)
    assert tpus.dequeue(PLACE, force=True).verb == "delete"
    cloud.settle()
    for gone in (tpus.queued, tpus.get):
        with pytest.raises(CloudNotFound):
            gone(PLACE)


@pytest.mark.parametrize("strict", [False, True])
def test_a_spot_node_is_granted_however_the_cloud_takes_a_model_of_a_node(cloud, tpus, strict):
    cloud.set(strict_queued_scheduling=strict)
    tpus.create(order(provisioning_model=ProvisioningModel.SPOT))
    cloud.settle()
    assert tpus.queued(PLACE).state == QueueState.ACTIVE
    assert tpus.get(PLACE).provisioning_model is ProvisioningModel.SPOT


def test_the_same_order_sent_twice_is_one(tpus):
    first = tpus.create(order())
    assert tpus.create(order()).name == first.name
    assert list(tpus.queue("lab").entries()) == [PLACE.queue_path]


def test_a_name_that_somebody_else_has_in_the_queue_is_taken(cloud, tpus):
    url = f"{cloud.emulator.rest_url}/v2/projects/lab/locations/{PLACE.zone}/queuedResources"
    node = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
    parent = f"projects/lab/locations/{PLACE.zone}"
    spec = {"parent": parent, "nodeId": PLACE.cloud_id, "node": node}
    params = {"queuedResourceId": PLACE.cloud_id}
    requests.post(
        url, params=params, json={"tpu": {"nodeSpec": [spec]}}, timeout=10
    ).raise_for_status()
    with pytest.raises(AlreadyExists):
        tpus.create(order())


@pytest.mark.parametrize(
    ("model", "seen"),
    [
        (ProvisioningModel.SPOT, ProvisioningModel.SPOT),
        (ProvisioningModel.ON_DEMAND, ProvisioningModel.ON_DEMAND),
    ],
)
def test_the_tier_is_the_tickets_and_not_the_nodes(cloud, tpus, model, seen):
    tpus.create(order(provisioning_model=model))
    cloud.settle()
    assert state(tpus) == QueueState.ACTIVE
    assert tpus.get(PLACE).provisioning_model == seen


@pytest.mark.parametrize("named", ["", "ours", "projects/lab/locations/us-east5-b/reservations/r"])
def test_what_is_reserved_names_its_reservation(named):
    reserved = order(provisioning_model=ProvisioningModel.RESERVED, reservation=named)
    request = queue.create_request(reserved)
    wanted = request.queued_resource
    assert "guaranteed" in wanted
    assert wanted.reservation_name.rpartition("/")[2] == (named.rpartition("/")[2] or "-")
    assert wanted.reservation_name.startswith("projects/lab/locations/us-east5-b/reservations/")


def test_google_itself_gives_up_what_was_not_granted_in_time(tpus):
    tpus.create(order(valid_until=4_000_000_000))
    request = queue.create_request(order(valid_until=4_000_000_000))
    until: Any = request.queued_resource.queueing_policy.valid_until_time
    assert int(until.timestamp()) == 4_000_000_000


def test_several_slices_are_nodes_of_their_own_under_one_ticket(cloud, tpus):
    tpus.create(order(slices=2))
    cloud.settle()
    assert state(tpus) == QueueState.ACTIVE
    names = [f"{PLACE.cloud_id}-{number}" for number in range(2)]
    assert tpus.queued(PLACE).nodes == tuple(names)
    assert sorted(name.rpartition("/")[2] for name in tpus.inventory("lab").sightings()) == names


def test_why_a_ticket_failed_is_told_apart(cloud, tpus):
    cloud.fault("CreateQueuedResource", "fail_provisioning", times=1)
    tpus.create(order())
    cloud.settle()
    seen = tpus.queued(PLACE)
    assert seen.state == QueueState.FAILED
    assert seen.error is not None


def test_a_delete_in_provisioning_is_taken_and_fails_inside_its_operation():
    now = NOON
    world = build_world(clock=lambda: float(now))
    tpus = GoogleTpus(tpu_client(LocalChannel(world)), Pace(lambda: 0.0), ONCE)
    tpus.create(order())
    while state(tpus) != QueueState.PROVISIONING:
        now += 1
    operation = tpus.dequeue(PLACE, force=True)
    now += 2
    assert isinstance(tpus.operation(operation.name).error, InvalidRequest)
    assert state(tpus) == QueueState.PROVISIONING


def test_a_zone_that_does_not_answer_is_told_of(cloud, tpus):
    tpus.create(order())
    assert tpus.queue("lab").is_reachable(PLACE.zone)
    cloud.fault("ListQueuedResources", "partial_list", match={"zone": PLACE.zone})
    found = tpus.queue("lab")
    assert not found.is_reachable(PLACE.zone)
    assert found.is_reachable("us-west4-a")


def test_the_same_queue_has_the_same_digest_and_another_another(cloud, tpus):
    tpus.create(order())
    cloud.settle()
    first = tpus.queue("lab").digest
    assert tpus.queue("lab").digest == first
    tpus.dequeue(PLACE, force=True)
    assert tpus.queue("lab").digest != first


@pytest.mark.parametrize("slices", [1, 3])
def test_the_list_holds_all_that_is_read_and_no_metadata(cloud, tpus, slices):
    tpus.create(order(slices=slices, metadata={"steward-supervisor": "x" * 10_000}))
    cloud.settle()
    assert tpus.queue("lab").entries() == {PLACE.queue_path: tpus.queued(PLACE)}
    client = tpu_client(open_channel(cloud.emulator.grpc_address))
    pager = client.list_queued_resources(
        parent="projects/lab/locations/-", metadata=((FIELD_MASK, ",".join(queue.LISTED)),)
    )
    [page] = pager.pages
    [spec] = page.queued_resources[0].tpu.node_spec
    assert dict(spec.node.metadata) == {}
    assert dict(spec.node.labels)


def flex(**changes: Any) -> Order:
    return order(provisioning_model=ProvisioningModel.FLEX_START, **changes)


def test_flex_start_is_asked_for_over_rest_and_seen_over_grpc(cloud, tpus):
    asked = tpus.create(flex(ttl_seconds=7_200))
    assert asked.verb == "create"
    assert tpus.operation(asked.name).name == asked.name
    shown = requests.get(
        f"{cloud.emulator.rest_url}/v2alpha1/{PLACE.queue_path}", timeout=10
    ).json()
    assert shown["provisioningModel"] == "FLEX_START"
    assert shown["runDuration"] == {"maxRunDuration": "7200s"}
    cloud.settle()
    assert state(tpus) == QueueState.ACTIVE


@pytest.mark.parametrize(
    ("bought", "listed", "model"),
    [
        (ProvisioningModel.FLEX_START, "", "flex_start"),
        (ProvisioningModel.ON_DEMAND, "", "on_demand"),
        (ProvisioningModel.SPOT, "spot", None),
    ],
)
def test_the_model_of_a_queued_resource_is_told_where_lists_do_not_tell_it(
    tpus, bought, listed, model
):
    wanted = order(provisioning_model=bought)
    tpus.create(wanted)
    assert tpus.queued(wanted.place).provisioning_model == listed
    (entry,) = tpus.queue(wanted.place.project).entries().values()
    assert entry.provisioning_model == listed
    if model is not None:
        assert tpus.queue_model(wanted.place) == model


def test_the_model_of_a_queued_resource_that_is_not_there_is_not_found(tpus):
    with pytest.raises(CloudNotFound):
        tpus.queue_model(order().place)


@pytest.mark.parametrize(
    ("body", "model"),
    [({}, "on_demand"), ({"provisioningModel": "NEWEST"}, ""), ({"provisioningModel": 7}, "")],
)
def test_a_model_that_nobody_knows_is_no_model(body, model):
    server = FlexStart(lambda: Answering(200, body), "http://nowhere")
    assert server.read_model(order().place, PATIENT.read) == model


def test_flex_start_asked_for_twice_is_one(tpus):
    assert tpus.create(flex()).name == tpus.create(flex()).name


def test_flex_start_over_rest_is_refused_in_our_words(cloud, tpus):
    cloud.fault("CreateQueuedResource", "error", code="PERMISSION_DENIED", times=1)
    with pytest.raises(NotAllowed):
        tpus.create(flex())


def test_flex_start_without_an_answer_leaves_open_what_became_of_it(cloud):
    nowhere = FlexStart(lambda: rest_session("emulator"), "http://127.0.0.1:9")
    channel = open_channel(cloud.emulator.grpc_address)
    with pytest.raises(CloudUnavailable):
        GoogleTpus(tpu_client(channel), Pace(lambda: 0.0), flex=nowhere).create(flex())


def test_flex_start_needs_an_address(cloud):
    channel = open_channel(cloud.emulator.grpc_address)
    with pytest.raises(NotAllowed, match="REST"):
        GoogleTpus(tpu_client(channel), Pace(lambda: 0.0)).create(flex())


class Answering:
    """A session whose server answers whatever it likes."""

    def __init__(self, status: int, body: object) -> None:
        self.status_code, self._body = status, body

    def post(self, *_: object, **__: object) -> Answering:
        return self

    def get(self, *_: object, **__: object) -> Answering:
        return self

    def json(self) -> object:
        return self._body


@pytest.mark.parametrize("body", [None, [], {}, {"name": "x"}, {"name": "x", "metadata": 7}, "hm"])
def test_an_answer_that_is_no_operation_is_no_answer(body):
    server = FlexStart(lambda: Answering(200, body), "http://nowhere")
    with pytest.raises(CloudUnavailable):
        server.create_queued_resource(flex(), PATIENT.create)


RawQueue = type(queue.create_request(order()).queued_resource).pb()


def test_a_ticket_that_nobody_understands_is_kept_as_it_is():
    shown = RawQueue(name="nonsense")
    shown.state.state = 99
    seen = queue.from_message(shown)
    assert isinstance(seen, QueuedResource)
    assert (seen.state, seen.place.cloud_id, seen.nodes) == ("STATE_99", "nonsense", ())


def test_why_a_ticket_failed_is_read_from_its_state():
    shown = RawQueue(name=PLACE.queue_path)
    shown.state.state = 4
    shown.state.failed_data.error.code = 8
    shown.state.failed_data.error.message = "There is no more capacity in the zone"
    assert isinstance(queue.from_message(shown).error, CapacityUnavailable)
