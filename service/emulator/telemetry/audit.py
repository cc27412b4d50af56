"""The audit log: calls about nodes, and events of the cloud on their machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from service.emulator.nodes.activity import Interruption
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.worker import Worker
from service.emulator.telemetry import logs
from service.emulator.telemetry.logs import Sender
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

ACTIVITY_LOG = "cloudaudit.googleapis.com%2Factivity"
SYSTEM_LOG = "cloudaudit.googleapis.com%2Fsystem_event"
AUDIT_TYPE = "type.googleapis.com/google.cloud.audit.AuditLog"
TPU_SERVICE, COMPUTE_SERVICE = "tpu.googleapis.com", "compute.googleapis.com"
SYSTEM = "system@google.com"

# Long-running calls have two entries: one at the start and one at the end.
BEGINNINGS = {"CREATING": "CreateNode", "DELETING": "DeleteNode", "STOPPING": "StopNode"}
ENDINGS = {
    "CREATING": ("CreateNode", "READY"),
    "DELETING": ("DeleteNode", ""),
    "STOPPING": ("StopNode", "STOPPED"),
    "STARTING": ("StartNode", "READY"),
}


@dataclass(frozen=True)
class AuditEvent:
    """An event on a node's machines, with the names of Compute Engine and of the metric."""

    method: str
    message: str
    type: str
    reason: str


PREEMPTION = AuditEvent(
    "compute.instances.preempted", "Instance was preempted.", "PreemptionEvent", "Eviction"
)
EVENTS = {
    "PREEMPTED": PREEMPTION,
    # A preemptible machine at the end of its life is preempted like any other.
    "TERMINATED": PREEMPTION,
    "REPAIRING": AuditEvent(
        "compute.instances.terminateOnHostMaintenance",
        "Instance was terminated during Compute Engine maintenance.",
        "MaintenanceEvent",
        "HW/SW Maintenance",
    ),
    "RESTARTING": AuditEvent(
        "compute.instances.hostError",
        "Instance was terminated by Compute Engine due to a host error.",
        "TerminationEvent",
        "HostError",
    ),
}
TERMINATE_REASONS = {"PREEMPTED": "PREEMPTED", "TERMINATED": "MAX_LIFETIME_REACHED"}


def log_transition(world: World, transition: Transition) -> None:
    """Write the log entries that a change of a node's state causes."""
    record = world.nodes.get(transition.name) or world.past[-1]
    before, after, at = transition.before, transition.after, transition.at
    if after in EVENTS:
        _log_interruption(world, record, before, after, at)
        return
    method, wanted = ENDINGS.get(before, ("", ""))
    if method and after != "DELETING":
        _log_call(world, record, method, at, done=True, failed=after != wanted)
    begun = "StartNode" if after == "STARTING" else BEGINNINGS.get(after, "")
    # A failed deletion returns a node to its former state; no call begins there.
    if begun and before != "DELETING":
        _log_call(world, record, begun, at, done=False, failed=False)
    if after == "READY":
        for worker in range(record.accelerator.hosts):
            payload = {
                "jsonPayload": {"message": "The TPU runtime is up.", "worker": str(worker)},
                "labels": logs.worker_labels(record, worker),
            }
            sender = Sender(logs.WORKER_LOG, logs.worker_resource(record, worker))
            logs.write_entry(world, record, sender, payload, at, "INFO")


def _log_interruption(world: World, record: NodeRecord, before: str, after: str, at: float) -> None:
    """Write the entries of an interruption: one for a preempted or terminated node, and one for
    each machine of a node that was READY. The interruption also counts for the metric."""
    place = record.place
    audit: dict[str, Any]
    if after in TERMINATE_REASONS:
        method = "tpu.nodes.terminate"
        audit = {
            "@type": AUDIT_TYPE,
            "serviceName": TPU_SERVICE,
            "methodName": method,
            "resourceName": record.name,
            "authenticationInfo": {"principalEmail": SYSTEM},
            "metadata": {"terminateReason": TERMINATE_REASONS[after]},
        }
        labels = {"project_id": place.project, "service": TPU_SERVICE, "method": method}
        sender = Sender(SYSTEM_LOG, {"type": "audited_resource", "labels": labels})
        logs.write_entry(world, record, sender, {"protoPayload": audit}, at, "INFO")
    if before != "READY":
        return

    event = EVENTS[after]
    record.activity.interruptions.append(Interruption(at, event.type, event.reason))
    for worker in range(record.accelerator.hosts):
        name = Worker(record, worker).name
        audit = {
            "@type": AUDIT_TYPE,
            "status": {"message": event.message},
            "authenticationInfo": {"principalEmail": SYSTEM},
            "serviceName": COMPUTE_SERVICE,
            "methodName": event.method,
            "resourceName": f"projects/{place.project}/zones/{place.zone}/instances/{name}",
            "request": {"@type": f"type.googleapis.com/{event.method}"},
        }
        operation = {
            "id": f"systemevent-{int(at * 1000)}-{record.message.id}-{worker}",
            "producer": event.method,
            "first": True,
            "last": True,
        }
        payload = {"protoPayload": audit, "operation": operation}
        sender = Sender(SYSTEM_LOG, logs.instance_resource(record, worker))
        logs.write_entry(world, record, sender, payload, at, "INFO")


def _log_call(
    world: World, record: NodeRecord, method: str, at: float, *, done: bool, failed: bool
) -> None:
    name = f"google.cloud.tpu.v2.Tpu.{method}"
    project = record.place.project
    audit: dict[str, Any] = {
        "@type": AUDIT_TYPE,
        "serviceName": TPU_SERVICE,
        "methodName": name,
        "resourceName": record.name,
        "authenticationInfo": {"principalEmail": f"caller@{project}.iam.gserviceaccount.com"},
    }
    if failed and record.operation is not None and record.operation.HasField("error"):
        audit["status"] = json_format.MessageToDict(record.operation.error)
    payload = {
        "protoPayload": audit,
        "operation": {
            "id": f"{method}-{record.message.id}",
            "producer": TPU_SERVICE,
            "last" if done else "first": True,
        },
    }
    labels = {"project_id": project, "service": TPU_SERVICE, "method": name}
    resource = {"type": "audited_resource", "labels": labels}
    severity = "ERROR" if failed else "NOTICE"
    logs.write_entry(world, record, Sender(ACTIVITY_LOG, resource), payload, at, severity)
