"""Log entries: what the cloud writes, and what clients write."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud.audit import audit_log_pb2
from google.protobuf import json_format

from service.emulator.errors import Code
from service.emulator.nodes.nodes import instance_id
from service.emulator.surfaces import control
from service.emulator.telemetry import logs
from tests.emulator.entries import LOG, found, refusal, write
from tests.emulator.factories import START, configured, name_of, spot


def audit(entry) -> audit_log_pb2.AuditLog:
    unpacked = audit_log_pb2.AuditLog()
    assert entry.proto_payload.Unpack(unpacked)
    return unpacked


def methods(entries) -> list[str]:
    return [audit(entry).method_name.rpartition(".")[2] for entry in entries]


def test_each_long_call_leaves_an_entry_when_it_begins_and_when_it_ends(cloud):
    name = cloud.ready()
    cloud.ask("StopNode", name=name)
    cloud.wait(60)
    cloud.ask("StartNode", name=name)
    cloud.wait(60)
    cloud.ask("DeleteNode", name=name)
    cloud.wait(60)
    entries = found(cloud, 'logName="projects/lab/logs/cloudaudit.googleapis.com%2Factivity"')
    assert methods(entries) == [
        method for method in ("CreateNode", "StopNode", "StartNode", "DeleteNode") for _ in range(2)
    ]
    assert [entry.operation.first for entry in entries] == [True, False] * 4
    first = audit(entries[0])
    assert (first.service_name, first.resource_name) == ("tpu.googleapis.com", name)
    assert entries[0].resource.type == "audited_resource"
    assert entries[0].timestamp.seconds == int(START)


def test_a_create_that_finds_no_hardware_ends_with_its_error(cloud):
    control.add_fault(cloud.world, {"rpc": "CreateNode", "action": "stockout"})
    cloud.create()
    cloud.wait(20)
    (entry,) = found(cloud, "severity>=ERROR")
    status = audit(entry).status
    assert status.code == 8
    assert "There is no more capacity" in status.message


def test_a_preemption_is_one_entry_for_the_node_and_one_for_each_machine(cloud):
    name = cloud.ready("s", accelerator_type="v4-32", scheduling_config={"spot": True})
    record = cloud.world.nodes[name]
    control.preempt_node(cloud.world, {"name": name})
    (ended,) = found(cloud, 'protoPayload.methodName="tpu.nodes.terminate"')
    assert audit(ended).resource_name == name
    assert dict(audit(ended).metadata) == {"terminateReason": "PREEMPTED"}
    machines = found(cloud, 'protoPayload.methodName="compute.instances.preempted"')
    assert [entry.resource.type for entry in machines] == ["gce_instance"] * 4
    instances = {entry.resource.labels["instance_id"] for entry in machines}
    assert instances == {str(instance_id(record, worker)) for worker in range(4)}
    assert machines[0].log_name.endswith("/logs/cloudaudit.googleapis.com%2Fsystem_event")
    assert "/instances/t1v-n-" in audit(machines[0]).resource_name


TERMINATED = 'protoPayload.methodName="tpu.nodes.terminate"'


def test_the_end_of_a_preemptible_life_is_in_the_log_with_its_reason_and_its_instant(cloud):
    name = cloud.ready("p", scheduling_config={"preemptible": True})
    cloud.wait(24 * 3600)
    (ended,) = found(cloud, TERMINATED)
    assert (audit(ended).service_name, audit(ended).resource_name) == ("tpu.googleapis.com", name)
    assert dict(audit(ended).metadata) == {"terminateReason": "MAX_LIFETIME_REACHED"}
    assert ended.timestamp.seconds == cloud.bill()[0]["end"]


def test_an_entry_may_arrive_late_and_says_when_it_happened_and_when_it_came():
    cloud = configured(telemetry={"log_delay_seconds": 300})
    control.preempt_node(cloud.world, {"name": cloud.ready("s", scheduling_config={"spot": True})})
    preempted = int(cloud.now)
    cloud.wait(299)
    assert found(cloud, TERMINATED) == []
    cloud.wait(1)
    (ended,) = found(cloud, TERMINATED)
    assert ended.timestamp.seconds == preempted
    assert ended.receive_timestamp.seconds == preempted + 300


@pytest.mark.parametrize(("mishap", "entries"), [("log_lost_share", 0), ("log_twice_share", 2)])
def test_an_entry_may_be_missing_or_there_twice(mishap, entries):
    cloud = configured(telemetry={mishap: 1})
    control.preempt_node(cloud.world, {"name": cloud.ready("s", scheduling_config={"spot": True})})
    ended = found(cloud, TERMINATED)
    assert len(ended) == len({entry.insert_id for entry in ended}) == entries
    assert len({entry.timestamp.seconds for entry in ended}) <= 1


def test_mishaps_by_lot_strike_some_and_the_same_at_each_run():
    def lost():
        cloud = configured(telemetry={"log_lost_share": 0.5})
        names = [cloud.ready(f"s{n}", scheduling_config={"spot": True}) for n in range(20)]
        for name in names:
            control.preempt_node(cloud.world, {"name": name})
        return {audit(entry).resource_name for entry in found(cloud, TERMINATED)}

    assert 0 < len(lost()) < 20
    assert lost() == lost()


def test_a_node_preempted_before_it_was_up_has_no_machines_to_lose(cloud):
    cloud.ask("CreateNode", parent=name_of("x").partition("/nodes")[0], node_id="s", node=spot())
    control.preempt_node(cloud.world, {"name": name_of("s")})
    assert len(found(cloud, 'protoPayload.methodName="tpu.nodes.terminate"')) == 1
    assert found(cloud, 'protoPayload.methodName="compute.instances.preempted"') == []


def test_maintenance_ends_the_machines(cloud):
    control.maintain_node(cloud.world, {"name": cloud.ready()})
    (entry,) = found(cloud, 'protoPayload.methodName:"terminateOnHostMaintenance"')
    assert audit(entry).authentication_info.principal_email == "system@google.com"


def test_each_worker_says_when_it_is_up(cloud):
    name = cloud.ready("pod", accelerator_type="v4-16")
    entries = found(cloud, 'resource.type="tpu_worker"')
    assert [entry.resource.labels["worker_id"] for entry in entries] == ["0", "1"]
    node = str(cloud.world.nodes[name].message.id)
    assert {entry.resource.labels["node_id"] for entry in entries} == {node}


def test_a_workers_lines_are_found_by_its_node_and_number(cloud):
    record = cloud.world.nodes[cloud.ready("pod", accelerator_type="v4-16")]
    logs.write_lines(cloud.world, record, 1, ["step 1", {"loss": 0.5}], "WARNING", {"run": "r1"})
    where = f'resource.labels.node_id="{record.message.id}" AND resource.labels.worker_id="1"'
    text, structured = found(cloud, f"{where} AND severity=WARNING")
    assert text.text_payload == "step 1"
    assert dict(structured.json_payload) == {"loss": 0.5}
    assert text.labels["run"] == "r1"
    assert text.timestamp.seconds == int(cloud.now)
    assert found(cloud, "jsonPayload.loss<0.6") == [structured]


def test_the_newest_entries_are_kept():
    cloud = configured(telemetry={"log_entries": 3})
    record = cloud.world.nodes[cloud.ready()]
    for number in range(5):
        cloud.wait(1)
        logs.write_lines(cloud.world, record, 0, [str(number)])
    assert [entry.text_payload for entry in found(cloud)] == ["2", "3", "4"]


def test_what_is_written_comes_back_with_the_defaults_of_its_request(cloud):
    write(
        cloud,
        {"text_payload": "a", "labels": {"x": "own"}},
        {"json_payload": {"b": [1, {"c": True}]}, "log_name": "projects/lab/logs/other"},
        labels={"x": "all", "y": "all"},
    )
    first, second = found(cloud)
    assert (first.text_payload, first.log_name) == ("a", LOG)
    assert dict(first.labels) == {"x": "own", "y": "all"}
    assert (first.resource.type, first.severity) == ("global", 0)
    assert first.timestamp == first.receive_timestamp
    assert first.insert_id
    assert second.log_name == "projects/lab/logs/other"
    assert json_format.MessageToDict(second.json_payload) == {"b": [1, {"c": True}]}


def test_an_entry_that_is_sent_twice_is_kept_once(cloud):
    entry = {"text_payload": "a", "insert_id": "i", "timestamp": {"seconds": int(START)}}
    write(cloud, entry)
    write(cloud, entry, {**entry, "insert_id": "j"})
    assert [each.insert_id for each in found(cloud)] == ["i", "j"]


@pytest.mark.parametrize("days", [-31, 2])
def test_an_entry_out_of_its_time_is_dropped_without_a_word(cloud, days):
    write(cloud, {"text_payload": "a", "timestamp": {"seconds": int(START) + days * 86_400}})
    assert found(cloud) == []


WRONG = {
    "no log": {"log_name": ""},
    "a log that is no name": {"log_name": "mine"},
    "a log with a slash": {"log_name": "projects/lab/logs/"},
    "no resource": {"resource": {}},
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG)
def test_an_entry_of_nobody_is_refused(cloud, fields):
    error = refusal(write, cloud, {"text_payload": "a"}, **fields)
    assert error.code is Code.INVALID_ARGUMENT
    assert found(cloud) == []


@pytest.mark.parametrize(
    "entry",
    [
        {"text_payload": "x" * 300_000},
        {"severity": 55},
        {"timestamp": {"seconds": 10**15}},
        {"proto_payload": {"type_url": "type.googleapis.com/no.such.Thing", "value": b"x"}},
        {"json_payload": {"x": float("nan")}},
        {"labels": {str(number): "x" for number in range(65)}},
    ],
)
def test_one_bad_entry_spoils_all_unless_a_part_will_do(cloud, entry):
    good = {"text_payload": "good"}
    assert refusal(write, cloud, good, entry).code is Code.INVALID_ARGUMENT
    assert found(cloud) == []
    error = refusal(write, cloud, good, entry, partial_success=True)
    detail: Any = error.details[0]
    assert list(detail.log_entry_errors) == [1]
    assert [each.text_payload for each in found(cloud)] == ["good"]


def test_a_dry_run_writes_nothing(cloud):
    write(cloud, {"text_payload": "a"}, dry_run=True)
    assert found(cloud) == []
    assert refusal(write, cloud, {}, dry_run=True, resource={}).code is Code.INVALID_ARGUMENT
