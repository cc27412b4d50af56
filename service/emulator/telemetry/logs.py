"""What is written to the log of a world, by the workers of a node and by the cloud about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from service.emulator.nodes.nodes import NodeRecord, instance_id
from service.emulator.nodes.worker import Worker
from service.emulator.world.log_buffer import moment_text, nanoseconds
from service.emulator.world.world import World


@dataclass(frozen=True)
class Sender:
    """The log that an entry goes to, and the monitored resource that it speaks of."""

    log: str
    resource: Mapping[str, Any]


WORKER_LOG = "tpu.googleapis.com%2Fruntime_monitor"


def write(
    world: World,
    record: NodeRecord,
    worker: int,
    lines: Iterable[str | Mapping[str, Any]],
    severity: str = "DEFAULT",
    labels: Mapping[str, str] | None = None,
) -> None:
    """Write lines as a worker's logging agent would, at the present moment.

    A text becomes a `textPayload`, a mapping (of what JSON can hold) a `jsonPayload`. Severities
    are those of `google.logging.type.LogSeverity`.
    """
    at = world.clock()
    for line in lines:
        payload: dict[str, Any] = (
            {"textPayload": line} if isinstance(line, str) else {"jsonPayload": dict(line)}
        )
        payload["labels"] = {**worker_labels(record, worker), **(labels or {})}
        sender = Sender(WORKER_LOG, worker_resource(record, worker))
        put(world, record, sender, payload, at, severity)


def put(
    world: World,
    record: NodeRecord,
    sender: Sender,
    payload: Mapping[str, Any],
    at: float,
    severity: str = "DEFAULT",
) -> None:
    """Write one entry about a node, unless none are to be kept: now, or late, or never, or twice,
    as the configuration says."""
    settings = world.config.telemetry
    if not settings.log_entries or _strikes(settings.log_lost_share, "lost", record, at):
        return
    nanos = nanoseconds(at)
    plain = {
        "logName": f"projects/{record.place.project}/logs/{sender.log}",
        "resource": sender.resource,
        "timestamp": moment_text(nanos),
        "severity": severity,
        **payload,
    }
    copies = 2 if _strikes(settings.log_twice_share, "twice", record, at) else 1

    def arrive(received: float) -> None:
        # What is found out late did not happen late: the clock has no part in it.
        arrived = {**plain, "receiveTimestamp": moment_text(nanoseconds(received))}
        for _ in range(copies):
            world.logs.add(dict(arrived), nanos, world.config.telemetry.log_entries)

    if settings.log_delay_seconds:
        due = at + settings.log_delay_seconds
        world.timeline.schedule(due, record.name, "log entry", arrive, fate=True)
    else:
        arrive(at)


def _strikes(share: float, what: str, record: NodeRecord, at: float) -> bool:
    """Say whether a mishap strikes: by lot, but the same at each run and with nobody else's luck.

    What is written of one node at one moment shares its fate.
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
    """Give what a logging agent adds to each entry of its machine."""
    return {
        "compute.googleapis.com/resource_name": Worker(record, worker).name,
        "tpu.googleapis.com/node_name": record.name.rpartition("/")[2],
    }
