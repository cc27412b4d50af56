"""Requests that are meant to break something: each gets a Google-style refusal, and soon."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from service.emulator.api.calls.dispatch import answer_bytes
from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.telemetry.messages import Logging
from service.emulator.wire import Tpu
from tests.emulator.factories import METHODS, PARENT, name_of, node

CPU = 'metric.type="tpu.googleapis.com/cpu/utilization"'


def refused(cloud: Any, rpc: str, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        cloud.ask(rpc, **fields)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value


@pytest.mark.parametrize("field", ["filter", "order_by"])
@pytest.mark.parametrize("text", [" " * 1_000_000 + "x", "a." * 1_000_000])
def test_a_list_is_not_kept_busy_by_how_it_is_to_be_sorted_or_filtered(cloud, field, text):
    refused(cloud, "ListAcceleratorTypes", parent=PARENT, **{field: text})


@pytest.mark.parametrize("text", ["a" * 20_001, "severity>=" + "9" * 5000])
def test_a_filter_of_logs_that_is_too_long_is_refused(cloud, text):
    refused(cloud, "ListLogEntries", resource_names=["projects/lab"], filter=text)


@pytest.mark.parametrize(
    "overdone",
    [
        {"network_configs": [{}] * 9},
        {"description": "x" * 513},
        {"metadata": {f"key-{number}": "x" * 200_000 for number in range(3)}},
        {"tags": ["x" * 1000] * 2000},
    ],
)
def test_a_node_has_bounds(cloud, overdone):
    refused(cloud, "CreateNode", parent=PARENT, node_id="a", node=node(**overdone))


def test_a_description_cannot_grow_by_an_update_either(cloud):
    wanted = {"name": cloud.ready(), "description": "x" * 513}
    refused(cloud, "UpdateNode", node=wanted, update_mask={"paths": ["description"]})


@pytest.mark.parametrize("worker", ["4", "00", "-1", "x", "²", "9" * 5000])
def test_a_worker_that_does_not_exist_has_no_guest_attributes(cloud, worker):
    name = cloud.ready(accelerator_type="v4-32")
    told = refused(cloud, "GetGuestAttributes", name=name, worker_ids=[worker])
    assert told.message.startswith("Worker ")


def test_a_worker_named_a_million_times_answers_once(cloud):
    record = cloud.world.get_node(cloud.ready())
    record.guest_attributes[0] = {("a", "b"): "x" * 1000}
    told = cloud.ask("GetGuestAttributes", name=record.name, worker_ids=["0"] * 1_000_000)
    assert len(told.guest_attributes) == 1


@pytest.mark.parametrize("content", ["[]", "x", '["a", "b", "c"]', "[" * 100_000, "[1, 2, 1e400]"])
def test_a_page_token_that_somebody_forged_is_refused(cloud, content):
    asked: Any = METHODS["ListTimeSeries"].request(
        name="projects/lab", filter=CPU, interval={"end_time": {"seconds": 1}}
    )
    of = asked.SerializeToString(deterministic=True).hex()
    mark = hashlib.sha256(f"{of}\n{content}".encode()).hexdigest()[:16]
    asked.page_token = base64.urlsafe_b64encode(f"{mark}{content}".encode()).decode()
    method = METHODS["ListTimeSeries"]
    told = answer_bytes(cloud.world, method, asked.SerializeToString())
    assert told.error is not None
    assert told.error.code is Code.INVALID_ARGUMENT


def test_an_entry_with_a_payload_that_is_no_message_is_refused(cloud):
    kind = "type.googleapis.com/google.cloud.audit.AuditLog"
    payload = AnyMessage(type_url=kind, value=b"\xff\xff")
    entry = {"log_name": "projects/lab/logs/a", "resource": {"type": "global"}}
    refused(cloud, "WriteLogEntries", entries=[{**entry, "proto_payload": payload}])


def test_what_can_be_ordered_is_a_number_that_can_be_reckoned_with(cloud):
    for patch in (
        {"capacity": {"us-central2-b/v4": 10**400}},
        {"odds": {"preemptions_per_hour": {"*": float("nan")}}},
        {"durations": {"create": float("inf")}},
        {"prices": {"spot_price_changes": [
            {"generation": "v4", "region": "us-central2", "usd": 1, "at": -1e300}
        ]}},
    ):  # fmt: skip
        with pytest.raises(ApiError):
            control.change_config(cloud.world, patch)


def test_a_fault_with_an_endless_number_is_not_found(web):
    status, _ = web.ask("DELETE", f"/_emulator/faults?id={'9' * 5000}")
    assert status == 404


def test_a_parameter_that_goes_too_deep_is_unknown(web):
    deep = "entries.jsonPayload.fields.value" + ".structValue.fields.value" * 2300
    status, told = web.ask("POST", f"/v2/entries:write?{deep}=1", {})
    assert status == 400
    assert "Unknown name" in told["error"]["message"]


@pytest.mark.parametrize("name", ["é" * 1_000_000, "\U0001f600" * 100_000, "x" * 1_000_000])
def test_a_refusal_is_short_enough_to_reach_who_asked(emulator, name):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/GetNode", None, None)
        with pytest.raises(grpc.RpcError) as caught:
            call(Tpu.GetNodeRequest(name=name).SerializeToString())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = caught.value.details()
    assert details is not None
    assert name[:50] in details


def test_many_bad_log_entries_are_refused_by_the_first_of_them(emulator):
    entries = [Logging.LogEntry(log_name="x")] * 5000
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        call = channel.unary_unary(
            "/google.logging.v2.LoggingServiceV2/WriteLogEntries", None, None
        )
        with pytest.raises(grpc.RpcError) as caught:
            call(Logging.WriteLogEntriesRequest(entries=entries).SerializeToString())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_call_that_is_larger_than_google_takes_is_refused(emulator):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/GetNode", None, None)
        with pytest.raises(grpc.RpcError) as caught:
            call(Tpu.GetNodeRequest(name=name_of("x" * 20_000_000)).SerializeToString())
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
