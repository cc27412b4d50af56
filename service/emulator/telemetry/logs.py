"""Log entries that the emulated workers write, and that the cloud writes about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from service.emulator.nodes.nodes import NodeRecord, instance_id
from service.emulator.nodes.worker import Worker
from service.emulator.world.log_buffer import moment_text, to_nanoseconds
from service.emulator.world.world import World


@dataclass(frozen=True)
class Sender:
    """The log of an entry, and its monitored resource."""

    log: str
    resource: Mapping[str, Any]


WORKER_LOG = "tpu.googleapis.com%2Fruntime_monitor"


def write_lines(
    world: World,
    record: NodeRecord,
    worker: int,
    lines: Iterable[str | Mapping[str, Any]],
    severity: str = "DEFAULT",
    labels: Mapping[str, str] | None = None,
) -> None:
    """Write lines as a worker's logging agent does, at the present moment.

    A text becomes a `textPayload`, a mapping of JSON values a `jsonPayload`. `severity` is a name
    of `google.logging.type.LogSeverity`.
    """
    at = world.clock()
    for line in lines:
        payload: dict[str, Any] = (
            {"textPayload": line} if isinstance(line, str) else {"jsonPayload": dict(line)}
        )
        payload["labels"] = {**worker_labels(record, worker), **(labels or {})}
        sender = Sender(WORKER_LOG, worker_resource(record, worker))
        write_entry(world, record, sender, payload, at, severity)


def write_entry(
    world: World,
    record: NodeRecord,
    sender: Sender,
    payload: Mapping[str, Any],
    at: float,
    severity: str = "DEFAULT",
) -> None:
    """Write one entry about a node. By the configuration the entry is late, lost or duplicated;
    nothing is written if `log_entries` is 0."""
    settings = world.config.telemetry
    if not settings.log_entries or _is_hit(settings.log_lost_share, "lost", record, at):
        return
    nanos = to_nanoseconds(at)
    plain = {
        "logName": f"projects/{record.place.project}/logs/{sender.log}",
        "resource": sender.resource,
        "timestamp": moment_text(nanos),
        "severity": severity,
        **payload,
    }
    copies = 2 if _is_hit(settings.log_twice_share, "twice", record, at) else 1

    def add_copies(received: float) -> None:
        # A late entry keeps its own time; only `receiveTimestamp` is late.
        arrived = {**plain, "receiveTimestamp": moment_text(to_nanoseconds(received))}
        for _ in range(copies):
            world.logs.add(dict(arrived), nanos, world.config.telemetry.log_entries)

    if settings.log_delay_seconds:
        due = at + settings.log_delay_seconds
        world.timeline.schedule_event(due, record.name, "log entry", add_copies, fate=True)
    else:
        add_copies(at)


def _is_hit(share: float, what: str, record: NodeRecord, at: float) -> bool:
    """Whether a log fault hits: drawn from the node and the moment, so equal at each run.

    All entries of one node at one moment have the same result.
    """
    if not share:
        return False
    lot = Random(f"{what}/{record.message.id}/{at}")  # noqa: S311 - repeatable on purpose
    return lot.random() < share


def worker_resource(record: NodeRecord, worker: int) -> dict[str, Any]:
    place = record.place
    labels = {
        "project_id": place.project,
        "zone": place.zone,
        "node_id": str(record.message.id),
        "worker_id": str(worker),
    }
    return {"type": "tpu_worker", "labels": labels}


def instance_resource(record: NodeRecord, worker: int) -> dict[str, Any]:
    place = record.place
    labels = {
        "project_id": place.project,
        "zone": place.zone,
        "instance_id": str(instance_id(record, worker)),
    }
    return {"type": "gce_instance", "labels": labels}


def worker_labels(record: NodeRecord, worker: int) -> dict[str, str]:
    """Return the labels that a logging agent adds to each entry of its machine."""
    return {
        "compute.googleapis.com/resource_name": Worker(record, worker).name,
        "tpu.googleapis.com/node_name": record.name.rpartition("/")[2],
    }
