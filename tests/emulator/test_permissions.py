"""Callers that lack a permission, and errors that carry details, as Google's clients see them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from google.api_core import exceptions
from google.rpc import error_details_pb2

from service.emulator.api.calls.dispatch import answer_message
from service.emulator.api.methods import RPCS
from service.emulator.errors import ApiError, Code
from service.emulator.faults.error_details import MAX_BYTES
from service.emulator.permissions import NEEDED
from service.emulator.surfaces import control
from tests.emulator.factories import METHODS, PARENT, Cloud, configured, name_of, node
from tests.emulator.google_clients import finish, grpc_client, rest_client

OBJECTS = "/storage/v1/b/ckpt/o"
READER = {"reader": {"granted": ["tpu.nodes.get", "tpu.nodes.list"]}}
WANTED = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"}
# The calls of the price list, and one for which Google documents no permission.
FREE = {"ListServices", "ListSkus", "GenerateServiceIdentity"}
METADATA = {"permission": "tpu.nodes.create", "resource": PARENT}
ERROR_INFO: dict[str, Any] = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "IAM_PERMISSION_DENIED",
    "domain": "iam.googleapis.com",
    "metadata": METADATA,
}
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}
QUOTA_FAILURE = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"subject": "project:lab", "description": "Limit: 8."}],
}


@pytest.fixture(params=[grpc_client, rest_client], ids=["grpc", "rest"])
def client(request, emulator):
    with request.param(emulator) as connected:
        yield connected


def as_caller(token: str) -> dict[str, Any]:
    """What makes a client send a token."""
    return {"metadata": [("authorization", f"Bearer {token}")]}


def ask(cloud: Cloud, rpc: str, token: str, **fields: Any) -> Any:
    told = answer_message(cloud.world, METHODS[rpc], METHODS[rpc].request(**fields), token=token)
    if told.error is not None:
        raise told.error
    return told.response


def get(url: str, token: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as found:
            return found.status, json.load(found)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_every_call_needs_a_permission_or_is_known_to_need_none():
    assert set(RPCS) == set(NEEDED) | FREE


def test_a_caller_has_what_is_granted_and_nothing_else(client, web):
    web.ask("PATCH", "/_emulator/config", {"permissions": READER})
    create = {"parent": PARENT, "node_id": "a", "node": WANTED}
    with pytest.raises(exceptions.Forbidden) as caught:
        client.create_node(**create, **as_caller("reader"))
    error = caught.value
    assert error.message.endswith(
        f"Permission 'tpu.nodes.create' denied on resource '//tpu.googleapis.com/{PARENT}'"
        " (or it may not exist)."
    )
    assert (error.reason, error.domain) == ("IAM_PERMISSION_DENIED", "iam.googleapis.com")
    assert error.metadata == METADATA
    assert len(error.details) == 1
    finish(client.create_node(**create, **as_caller("owner")))
    assert client.get_node(name=name_of("a"), **as_caller("reader")).name == name_of("a")


def test_a_star_stands_for_callers_without_a_name_of_their_own():
    cloud = configured(permissions={"*": {"denied": ["tpu.nodes.delete"]}, "owner": {}})
    cloud.ready()
    for token in ("", "somebody"):
        with pytest.raises(ApiError) as caught:
            ask(cloud, "DeleteNode", token, name=name_of("a"))
        assert caught.value.code is Code.PERMISSION_DENIED
        assert name_of("a") in caught.value.message
    assert cloud.state() == "READY"
    ask(cloud, "DeleteNode", "owner", name=name_of("a"))
    assert cloud.state() == "DELETING"


@pytest.mark.parametrize(
    ("said", "permitted"),
    [
        ({"granted": ["*"], "denied": ["tpu.nodes.*"]}, False),
        ({"granted": ["tpu.*"]}, True),
        ({"granted": ["tpu.nodes.*"]}, True),
        ({"granted": ["tpu.nodes.create"]}, False),
        ({"granted": []}, False),
        ({"denied": ["tpu.nodes.get"]}, True),
        ({"denied": ["tpu.queuedResources.*", "tpu.locations.*"]}, True),
    ],
)
def test_a_permission_may_be_named_by_its_beginning(said, permitted):
    cloud = configured(permissions={"t": said})
    request = METHODS["ListNodes"].request(parent=PARENT)
    told = answer_message(cloud.world, METHODS["ListNodes"], request, token="t")
    assert (told.error is None) is permitted
    assert told.error is None or told.error.code is Code.PERMISSION_DENIED


def test_a_denied_call_uses_up_no_fault(cloud):
    control.change_config(cloud.world, {"permissions": READER})
    control.add_fault(cloud.world, {"rpc": "CreateNode", "action": "stockout"})
    with pytest.raises(ApiError):
        ask(cloud, "CreateNode", "reader", parent=PARENT, node_id="a", node=node())
    assert control.list_faults(cloud.world)["faults"][0]["hits"] == 0


def test_what_the_configuration_shows_can_be_said_again(web):
    _, config = web.ask("PATCH", "/_emulator/config", {"permissions": READER})
    assert config["permissions"] == {"reader": {**READER["reader"], "denied": []}}
    again = {"permissions": config["permissions"]}
    assert web.ask("PATCH", "/_emulator/config", again) == (200, config)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ([], "permissions must be a JSON object"),
        ({"t": []}, "permissions of 't' must be a JSON object"),
        ({"t": {"lacks": []}}, "unknown key of permissions lacks; known: granted, denied"),
        ({"t": {"granted": "tpu.nodes.get"}}, "granted must be a list of texts"),
        ({"t": {"granted": ["tpu nodes"]}}, "'tpu nodes' is not a permission"),
        ({"t": {"denied": ["tpu.nodes.creat"]}}, "nothing here needs 'tpu.nodes.creat'; known: "),
    ],
)
def test_permissions_that_make_no_sense_are_refused(cloud, said, text):
    with pytest.raises(ApiError, match=text):
        control.change_config(cloud.world, {"permissions": said})


def test_cloud_storage_denies_in_its_own_words(web):
    said = {"t": {"denied": ["storage.objects.list"]}}
    web.ask("PATCH", "/_emulator/config", {"permissions": said})
    status, told = get(web.url + OBJECTS, "t")
    assert status == 403
    assert "Permission 'storage.objects.list' denied" in told["error"]["message"]
    assert get(web.url + OBJECTS)[0] == 200
    asked = "permissions=storage.objects.list&permissions=storage.objects.get"
    _, told = get(f"{web.url}/storage/v1/b/ckpt/iam/testPermissions?{asked}", "t")
    assert told["permissions"] == ["storage.objects.get"]


@pytest.mark.parametrize(
    ("service", "path"),
    [
        ("monitoring", "/v3/projects/lab/metricDescriptors"),
        ("logging", "/v2/projects/lab/logs"),
    ],
)
def test_other_products_deny_as_well(web, service, path):
    said = {"*": {"denied": [f"{service}.*"]}}
    web.ask("PATCH", "/_emulator/config", {"permissions": said})
    status, told = get(web.url + path)
    (info,) = told["error"]["details"]
    assert (status, info["reason"]) == (403, "IAM_PERMISSION_DENIED")
    assert info["metadata"]["resource"] == "projects/lab"


def test_a_fault_carries_details_of_every_kind(client, web):
    details = [ERROR_INFO, RETRY_INFO, QUOTA_FAILURE]
    fault = {"rpc": "GetNode", "action": "error", "code": "RESOURCE_EXHAUSTED", "details": details}
    status, shown = web.ask("POST", "/_emulator/faults", fault)
    assert (status, shown["details"]) == (200, details)
    with pytest.raises(exceptions.TooManyRequests) as caught:
        client.get_node(name=name_of("a"), retry=None)
    error = caught.value
    assert (error.reason, error.metadata) == ("IAM_PERMISSION_DENIED", METADATA)
    assert [told_by(each) for each in error.details] == [
        "iam.googleapis.com",
        "30s",
        "Limit: 8.",
    ]


def told_by(detail: Any) -> Any:
    """Read one field of a detail, which is a message over gRPC and JSON over REST."""
    match detail:
        case error_details_pb2.ErrorInfo():
            return detail.domain
        case error_details_pb2.RetryInfo():
            return f"{detail.retry_delay.seconds}s"
        case error_details_pb2.QuotaFailure():
            return detail.violations[0].description
        case {"domain": told} | {"retryDelay": told} | {"violations": [{"description": told}]}:
            return told
        case _:
            raise AssertionError(detail)


def test_an_operation_may_fail_with_details(cloud):
    order = {"rpc": "CreateNode", "action": "fail_operation", "code": 8, "details": [RETRY_INFO]}
    control.add_fault(cloud.world, order)
    operation = cloud.create()
    cloud.wait(100)
    (packed,) = cloud.operation(operation).error.details
    retry = error_details_pb2.RetryInfo()
    assert packed.Unpack(retry)
    assert retry.retry_delay.seconds == 30


def test_a_quota_fault_has_the_details_that_it_is_given(cloud):
    order = {"rpc": "CreateNode", "action": "quota", "details": [RETRY_INFO]}
    control.add_fault(cloud.world, order)
    with pytest.raises(ApiError) as caught:
        cloud.create()
    assert [type(each) for each in caught.value.details] == [error_details_pb2.RetryInfo]


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({}, "details must be a list"),
        (["x"], r"details\[0\] must be a JSON object"),
        ([{"retryDelay": "3s"}], r"unknown @type '' of details\[0\]; known: google.rpc.BadRequest"),
        ([{"@type": "google.protobuf.Empty"}], "unknown @type 'google.protobuf.Empty'"),
        ([{**RETRY_INFO, "retryDelay": 3}], "whose fields are: retryDelay"),
        ([{**RETRY_INFO, "delay": "3s"}], "whose fields are: retryDelay"),
        ([{**ERROR_INFO, "reason": "x" * MAX_BYTES}], f"{MAX_BYTES} bytes at most"),
    ],
)
def test_details_that_make_no_sense_are_refused(cloud, details, text):
    order = {"rpc": "GetNode", "action": "error", "details": details}
    with pytest.raises(ApiError, match=text):
        control.add_fault(cloud.world, order)


def test_the_largest_details_reach_a_client_over_grpc(emulator, web):
    info = {**ERROR_INFO, "metadata": {"x": "y" * (MAX_BYTES - 60)}}
    fault = {"rpc": "GetNode", "action": "error", "message": "é" * 600, "code": "ABORTED"}
    assert web.ask("POST", "/_emulator/faults", {**fault, "details": [info]})[0] == 200
    with grpc_client(emulator) as client, pytest.raises(exceptions.Aborted) as caught:
        client.get_node(name=name_of("a"), retry=None)
    assert caught.value.metadata == info["metadata"]
