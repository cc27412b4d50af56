"""Field masks leave out what a caller does not want, over gRPC, REST and the local channel."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import grpc
import pytest
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.domain.nodes.node import Place
from service.emulator.api.calls import dispatch
from service.emulator.api.calls.field_masks import Chosen, chosen_of, resolve_selection
from service.emulator.errors import ApiError
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.wire import Tpu
from tests.emulator.factories import EVERYWHERE, METHODS, PARENT, Cloud, name_of, node

TEN_KB = {"steward-supervisor": "x" * 10_000}


def raw(cloud: Cloud, rpc: str, mask: str, **fields: Any) -> Any:
    request = METHODS[rpc].request(**fields).SerializeToString()
    told = dispatch.answer_bytes(cloud.world, METHODS[rpc], request, mask)
    if told.error is not None:
        raise told.error
    return told.response


def test_a_list_and_a_get_hold_the_chosen_fields_alone():
    cloud = Cloud()
    cloud.ready(metadata=TEN_KB, labels={"a": "b"})
    mask = "nodes.name,nodes.labels,nodes.schedulingConfig.spot,nextPageToken,unreachable"
    page = raw(cloud, "ListNodes", mask, parent=EVERYWHERE)
    assert page == Tpu.ListNodesResponse(
        nodes=[{"name": name_of("a"), "labels": {"a": "b"}, "scheduling_config": {}}]
    )
    got = raw(cloud, "GetNode", "metadata,health_description", name=name_of("a"))
    assert got == Tpu.Node(metadata=TEN_KB)


@pytest.mark.parametrize("mask", ["", "*", " "])
def test_no_mask_is_everything(mask):
    cloud = Cloud()
    cloud.ready(metadata=TEN_KB)
    whole = raw(cloud, "ListNodes", mask, parent=EVERYWHERE)
    assert whole.nodes[0] == cloud.get()


def test_answers_are_kept_for_each_mask():
    cloud = Cloud()
    cloud.ready(metadata=TEN_KB)
    for mask, size in (("nodes.name", 1), ("", 10_000), ("nodes.name", 1), ("", 10_000)):
        assert raw(cloud, "ListNodes", mask, parent=EVERYWHERE).ByteSize() >= size
    assert raw(cloud, "ListNodes", "nodes.name", parent=EVERYWHERE).ByteSize() < 100


@pytest.mark.parametrize("mask", ["nodes", "nodes,nodes.name", "nodes.name,nodes", "nodes.name"])
def test_a_path_includes_what_is_below(mask):
    chosen = chosen_of(mask)
    assert chosen == ({"nodes": {"name": {}}} if mask == "nodes.name" else {"nodes": {}})


def list_mask(mask: str) -> Chosen:
    return resolve_selection(Tpu.ListNodesResponse.DESCRIPTOR, chosen_of(mask), mask)


@pytest.mark.parametrize(
    ("mask", "chosen"),
    [
        ("nodes(name,state)", {"nodes": {"name": {}, "state": {}}}),
        ("nodes.network_config.network", {"nodes": {"networkConfig": {"network": {}}}}),
        ("nodes.networkConfig,nodes.network_config.network", {"nodes": {"networkConfig": {}}}),
        ("*,nodes.name", {"nodes": {}, "nextPageToken": {}, "unreachable": {}}),
        ("*/name,unreachable", {"nodes": {"name": {}}, "unreachable": {}}),
    ],
)
def test_a_mask_is_resolved_to_the_names_of_json(mask, chosen):
    assert list_mask(mask) == chosen


def test_an_unknown_field_over_grpc_changes_nothing(cloud):
    with pytest.raises(ApiError, match="Request contains an invalid argument"):
        raw(cloud, "CreateNode", "nmae", parent=PARENT, node_id="a", node=node())
    assert cloud.state("a") == "GONE"


@pytest.mark.parametrize(
    "mask",
    [
        "node.name",
        "nodes.nmae",
        "nodes.name.x",
        "nodes.metadata.key",
        "nodes..name",
        ",",
        "a" * 501,
    ],
)
def test_a_path_that_leads_nowhere_is_refused(mask):
    with pytest.raises(ApiError, match="Request contains an invalid argument") as caught:
        list_mask(mask)
    details: Any = caught.value.details[0]
    (violation,) = details.field_violations
    assert violation.field == mask
    assert "Cannot find matching fields for path" in violation.description


def test_more_paths_than_any_message_has_are_refused():
    with pytest.raises(ApiError, match="Request contains an invalid argument"):
        chosen_of(",".join(["name"] * 501))


def test_the_header_is_honoured_over_grpc_and_rest(web, emulator):
    assert (
        web.ask(
            "POST",
            f"/v2/{EVERYWHERE.replace('-', 'us-central2-b')}/nodes?nodeId=a",
            {
                "acceleratorType": "v4-8",
                "runtimeVersion": "tpu-ubuntu2204-base",
                "metadata": TEN_KB,
            },
        )[0]
        == 200
    )
    web.ask("POST", "/_emulator/settle")
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
        header = [("x-goog-fieldmask", "nodes.name,nodes.state")]
        (node,) = client.list_nodes(parent=EVERYWHERE, metadata=header)
        assert (node.name, node.state.name, dict(node.metadata)) == (name_of("a"), "READY", {})
    request = urllib.request.Request(
        f"{emulator.rest_url}/v2/{EVERYWHERE}/nodes",
        headers={"X-Goog-FieldMask": "nodes.name,nodes.scheduling_config.spot"},
    )
    with urllib.request.urlopen(request) as answer:
        shown = json.load(answer)
    assert shown == {"nodes": [{"name": name_of("a"), "schedulingConfig": {"spot": False}}]}


class CountingChannel(LocalChannel):
    """A local channel that counts the bytes of all answers."""

    received = 0

    def _answer_call(self, *arguments: Any) -> Any:
        answer = super()._answer_call(*arguments)
        assert answer.response is not None
        self.received += answer.response.ByteSize()
        return answer


@pytest.mark.deep
def test_a_look_at_ten_thousand_nodes_with_a_supervisor_costs_what_it_costs_without():
    cloud = Cloud()
    for number in range(10_000):
        cloud.create(f"n-{number}")
    cloud.wait(60)
    channel = CountingChannel(cloud.world)
    client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
    tpus = GoogleTpus(client, Pace(lambda: 0.0), ONCE)
    without = tpus.inventory("lab"), channel.received
    for record in cloud.world.nodes.values():
        record.message.metadata.update(TEN_KB)
    cloud.world.clear_cache()
    channel.received = 0
    carrying = tpus.inventory("lab"), channel.received
    assert carrying[1] == without[1]
    assert carrying[0].digest == without[0].digest
    assert tpus.metadata(Place.from_path(name_of("n-0"))) == TEN_KB
