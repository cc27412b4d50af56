"""What is sent to Google for each method of the port, to the last argument."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any
from unittest.mock import call

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf.field_mask_pb2 import FieldMask

from service.cloud.google import nodes, pages
from service.cloud.google.retries import PATIENT
from service.cloud.google.tpus import GoogleTpus
from service.cloud.ports import TpuCloud
from service.cloud.rate_limit import Pace
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import (
    AlreadyExists,
    CloudNotFound,
    CloudUnavailable,
    InvalidRequest,
    RateLimited,
)
from tests.cloud.google import given
from tests.cloud.google.given import OPERATION, PLACE, Pager

ZONE = "projects/lab/locations/us-east5-b"


def read(request: Any) -> Any:
    return call(request=request, timeout=30, retry=PATIENT.read.retry)


def listed(request: Any) -> Any:
    return call(request=request, timeout=60, retry=PATIENT.listing.retry)


def offered(request: Any) -> Any:
    return call(request=request, timeout=10, retry=None)


def written(request: Any) -> Any:
    return call(request=request, timeout=30, retry=None)


@pytest.fixture
def answering(client: Any) -> Any:
    """The client with a plausible answer to everything."""
    future = SimpleNamespace(operation=given.operation())
    for name in ("create_node", "delete_node", "start_node", "stop_node", "update_node"):
        getattr(client, name).return_value = future
    client.list_nodes.return_value = Pager(given.page(given.node()))
    client.get_node.return_value = tpu_v2.Node.wrap(given.node())
    client.get_operation.return_value = given.operation()
    client.list_operations.return_value = operations_pb2.ListOperationsResponse()
    client.get_guest_attributes.return_value = tpu_v2.GetGuestAttributesResponse()
    client.list_queued_resources.return_value = Pager(tpu_v2.ListQueuedResourcesResponse())
    client.get_queued_resource.return_value = tpu_v2.QueuedResource()
    client.delete_queued_resource.return_value = future
    client.create_queued_resource.return_value = future
    client.list_runtime_versions.return_value = Pager(tpu_v2.ListRuntimeVersionsResponse())
    client.list_accelerator_types.return_value = Pager(tpu_v2.ListAcceleratorTypesResponse())
    return client


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "inventory": ("lab",),
    "get": (PLACE,),
    "metadata": (PLACE,),
    "create": (given.order(),),
    "delete": (PLACE,),
    "start": (PLACE,),
    "stop": (PLACE,),
    "operation": (OPERATION,),
    "operations": ("lab", "us-east5-b"),
    "update_metadata": (PLACE, {"k": "v"}),
    "guest_attributes": (PLACE, "steward"),
    "queue": ("lab",),
    "queued": (PLACE,),
    "dequeue": (PLACE,),
    "runtime_versions": ("lab", "us-east5-b"),
    "accelerator_types": ("lab", "us-east5-b"),
}


NAMED: dict[str, dict[str, Any]] = {"dequeue": {"force": True}}


THROUGH_OTHERS = {"reimage", "queue_model"}
"""What goes out through another client: see test_legacy.py, and test_queue.py for REST."""


def test_every_method_of_the_port_is_called_in_this_file():
    assert {*ARGUMENTS, *THROUGH_OTHERS} == {
        name
        for name, _ in inspect.getmembers(TpuCloud, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("method", ARGUMENTS)
def test_no_call_goes_out_without_a_timeout_and_a_word_on_retrying(method, answering, tpus):
    getattr(tpus, method)(*ARGUMENTS[method], **NAMED.get(method, {}))
    assert len(answering.method_calls) == 1
    for _, positional, named in answering.method_calls:
        assert positional == ()
        assert 0 < named["timeout"] <= 60
        assert "retry" in named


@pytest.mark.parametrize(
    "method", ["create", "delete", "dequeue", "start", "stop", "update_metadata"]
)
def test_what_changes_something_is_sent_once(method, answering, tpus):
    getattr(tpus, method)(*ARGUMENTS[method], **NAMED.get(method, {}))
    assert answering.method_calls[0].kwargs["retry"] is None


def test_inventory_asks_for_all_zones_in_large_pages(answering, tpus):
    tpus.inventory("lab")
    request = tpu_v2.ListNodesRequest(parent="projects/lab/locations/-", page_size=1000)
    [sent] = answering.list_nodes.mock_calls
    headers = sent.kwargs.pop("metadata")
    assert [sent] == [listed(request)]
    assert headers == (("x-goog-fieldmask", ",".join(pages.INVENTORY)),)
    assert "nodes.metadata" not in pages.INVENTORY


def test_inventory_asks_for_every_field_that_is_read():
    """A node with every field set reads the same with and without what the mask leaves out."""
    node = given.node(
        health_description="sick",
        scheduling_config={"spot": True},
        network_configs=[{"network": "a"}, {"network": "b"}],
        queued_resource="projects/lab/locations/z/queuedResources/q",
        metadata={"startup-script": "x"},
    )
    asked = {path.removeprefix("nodes.") for path in pages.INVENTORY if path.startswith("nodes.")}
    bare = type(node)()
    for field, value in node.ListFields():
        if field.json_name in asked:
            bare.MergeFrom(type(node)(**{field.name: value}))
    assert dict(bare.metadata) == {}
    assert nodes.from_message(bare) == nodes.from_message(node)


def test_metadata_is_read_with_a_get_of_the_node(answering, tpus):
    answering.get_node.return_value = tpu_v2.Node.wrap(given.node(metadata={"k": "v"}))
    assert tpus.metadata(PLACE) == {"k": "v"}
    assert answering.get_node.mock_calls == [read(tpu_v2.GetNodeRequest(name=PLACE.path))]


def test_get_asks_for_the_node_by_its_full_name(answering, tpus):
    assert tpus.get(PLACE).state == "READY"
    assert answering.get_node.mock_calls == [read(tpu_v2.GetNodeRequest(name=PLACE.path))]


def test_create_sends_the_order_and_answers_with_the_open_operation(answering, tpus):
    operation = tpus.create(given.order())
    [sent] = answering.create_node.mock_calls
    assert (sent.kwargs["timeout"], sent.kwargs["retry"]) == (60, None)
    request = sent.kwargs["request"]
    assert (request.parent, request.node_id) == (ZONE, PLACE.cloud_id)
    assert dict(request.node.labels) == {"steward-id": "n1", "team": "vision"}
    assert (operation.name, operation.verb, operation.done) == (OPERATION, "create", False)


def test_delete_start_and_stop_name_the_node(answering, tpus):
    tpus.delete(PLACE)
    tpus.start(PLACE)
    tpus.stop(PLACE)
    assert answering.delete_node.mock_calls == [written(tpu_v2.DeleteNodeRequest(name=PLACE.path))]
    assert answering.start_node.mock_calls == [written(tpu_v2.StartNodeRequest(name=PLACE.path))]
    assert answering.stop_node.mock_calls == [written(tpu_v2.StopNodeRequest(name=PLACE.path))]


def test_update_metadata_touches_nothing_but_the_metadata(answering, tpus):
    tpus.update_metadata(PLACE, {"steward-job": "j1"})
    assert answering.update_node.mock_calls == [
        written(
            tpu_v2.UpdateNodeRequest(
                node=tpu_v2.Node(name=PLACE.path, metadata={"steward-job": "j1"}),
                update_mask=FieldMask(paths=["metadata"]),
            )
        )
    ]


def test_operation_is_looked_at_by_its_name(answering, tpus):
    assert tpus.operation(OPERATION).target == PLACE.path
    assert answering.get_operation.mock_calls == [
        read(operations_pb2.GetOperationRequest(name=OPERATION))
    ]


def test_operations_are_read_to_the_last_page(client, tpus):
    client.list_operations.side_effect = [
        operations_pb2.ListOperationsResponse(
            operations=[given.operation("create")], next_page_token="more"
        ),
        operations_pb2.ListOperationsResponse(
            operations=[
                operations_pb2.Operation(name="of-something-else"),
                given.operation("delete"),
            ]
        ),
    ]
    assert [found.verb for found in tpus.operations("lab", "us-east5-b")] == ["create", "delete"]
    assert client.list_operations.mock_calls == [
        listed(operations_pb2.ListOperationsRequest(name=ZONE, page_size=1000, page_token=token))
        for token in ("", "more")
    ]


def test_operations_that_never_end_are_no_answer(client, tpus):
    client.list_operations.return_value = operations_pb2.ListOperationsResponse(next_page_token="x")
    with pytest.raises(CloudUnavailable, match="does not end"):
        tpus.operations("lab", "us-east5-b")
    assert client.list_operations.call_count == 2


def test_guest_attributes_come_in_the_order_of_the_workers(client, tpus):
    def worker(**written: str) -> tpu_v2.GuestAttributes:
        items = [
            tpu_v2.GuestAttributesEntry(namespace="steward", key=key, value=value)
            for key, value in written.items()
        ]
        value = tpu_v2.types.GuestAttributesValue(items=items)
        return tpu_v2.GuestAttributes(query_path="steward/", query_value=value)

    client.get_guest_attributes.return_value = tpu_v2.GetGuestAttributesResponse(
        guest_attributes=[worker(exit="0", log="done"), worker(), worker(exit="1")]
    )
    assert tpus.guest_attributes(PLACE, "steward") == [
        {"exit": "0", "log": "done"},
        {},
        {"exit": "1"},
    ]
    request = tpu_v2.GetGuestAttributesRequest(name=PLACE.path, query_path="steward/")
    once = call(request=request, timeout=10, retry=None)
    assert client.get_guest_attributes.mock_calls == [once], "each try counts against the limit"


def test_guest_attributes_are_empty_as_long_as_nobody_wrote_any(client, tpus):
    client.get_guest_attributes.side_effect = exceptions.InvalidArgument(
        'Cloud TPU received an invalid argument. The "GuestAttributes" value "" was not found.'
    )
    assert tpus.guest_attributes(PLACE, "steward") == []


def test_guest_attributes_of_a_malformed_question_are_refused(client, tpus):
    client.get_guest_attributes.side_effect = exceptions.InvalidArgument("bad query path")
    with pytest.raises(InvalidRequest):
        tpus.guest_attributes(PLACE, "")


def test_runtime_versions_and_accelerator_types_are_read_from_all_pages(client, tpus):
    client.list_runtime_versions.return_value = Pager(
        tpu_v2.ListRuntimeVersionsResponse(
            runtime_versions=[tpu_v2.RuntimeVersion(version="v2-alpha-tpuv6e")], next_page_token="2"
        ),
        tpu_v2.ListRuntimeVersionsResponse(
            runtime_versions=[tpu_v2.RuntimeVersion(version="tpu-ubuntu2204-base")]
        ),
    )
    client.list_accelerator_types.return_value = Pager(
        tpu_v2.ListAcceleratorTypesResponse(
            accelerator_types=[tpu_v2.AcceleratorType(type_="v6e-8", name=f"{ZONE}/x/v6e-8")]
        )
    )
    assert tpus.runtime_versions("lab", "us-east5-b") == ["v2-alpha-tpuv6e", "tpu-ubuntu2204-base"]
    assert tpus.accelerator_types("lab", "us-east5-b") == ["v6e-8"]
    assert client.list_runtime_versions.mock_calls == [
        offered(tpu_v2.ListRuntimeVersionsRequest(parent=ZONE, page_size=1000))
    ]
    assert client.list_accelerator_types.mock_calls == [
        offered(tpu_v2.ListAcceleratorTypesRequest(parent=ZONE, page_size=1000))
    ]


def test_a_zone_that_did_not_answer_does_not_pass_for_one_that_offers_nothing(client, tpus):
    client.list_runtime_versions.return_value = Pager(
        tpu_v2.ListRuntimeVersionsResponse(unreachable=[ZONE])
    )
    with pytest.raises(CloudUnavailable, match="us-east5-b"):
        tpus.runtime_versions("lab", "us-east5-b")


def test_a_create_that_is_too_fast_is_refused_before_it_is_sent(answering):
    tpus = GoogleTpus(answering, Pace(lambda: 0.0, burst=1))
    tpus.create(given.order())
    with pytest.raises(RateLimited):
        tpus.create(given.order())
    assert answering.create_node.call_count == 1


def test_an_order_that_cannot_be_said_costs_no_turn(answering):
    tpus = GoogleTpus(answering, Pace(lambda: 0.0, burst=1))
    with pytest.raises(InvalidRequest):
        tpus.create(given.order(provisioning_model=ProvisioningModel.FLEX_START))
    tpus.create(given.order())


@pytest.mark.parametrize("method", ARGUMENTS)
def test_errors_come_out_as_ours_whatever_was_asked(method, client, tpus):
    error = exceptions.NotFound("Resource 'x' was not found")
    client.configure_mock(**{f"{name}.side_effect": error for name in CLIENT_METHODS})
    with pytest.raises(CloudNotFound) as raised:
        getattr(tpus, method)(*ARGUMENTS[method], **NAMED.get(method, {}))
    assert raised.value.__cause__ is error


CLIENT_METHODS = (
    "list_nodes",
    "get_node",
    "create_node",
    "delete_node",
    "list_queued_resources",
    "get_queued_resource",
    "delete_queued_resource",
    "start_node",
    "stop_node",
    "update_node",
    "get_operation",
    "list_operations",
    "get_guest_attributes",
    "list_runtime_versions",
    "list_accelerator_types",
)


def test_an_error_on_a_later_page_fails_the_whole_inventory(client, tpus):
    client.list_nodes.return_value = Pager(
        given.page(given.node(), token="2"), exceptions.ServiceUnavailable("try later")
    )
    with pytest.raises(CloudUnavailable, match="try later"):
        tpus.inventory("lab")


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("create", AlreadyExists),
        ("delete", RateLimited),
        ("stop", RateLimited),
        ("start", RateLimited),
        ("update_metadata", RateLimited),
    ],
)
def test_a_conflict_means_a_taken_name_to_a_create_and_a_busy_node_to_the_rest(
    method, error, client, tpus
):
    for name in CLIENT_METHODS:
        getattr(client, name).side_effect = exceptions.AlreadyExists("Requested entity exists")
    with pytest.raises(error):
        getattr(tpus, method)(*ARGUMENTS[method])
