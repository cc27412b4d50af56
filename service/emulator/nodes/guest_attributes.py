"""Guest attributes: small values that a node's workers publish and its owner reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from service.emulator.errors import ApiError, Code, invalid_argument
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.query_allowance import Allowance
from service.emulator.wire import NodeMessage, Tpu

SWITCH = "enable-guest-attributes"
# A namespace or a key, as Google documents the keys of metadata.
NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
MAX_VALUE = 256 * 1024


def is_enabled(record: NodeRecord) -> bool:
    """Whether workers may publish: yes, unless the node's metadata says no.

    On Compute Engine, guest attributes are off by default. TPU VMs publish their host keys by
    default, and gcloud reads them.
    """
    return str(record.message.metadata.get(SWITCH, "TRUE")).upper() != "FALSE"


def publish_value(record: NodeRecord, worker: int, namespace: str, key: str, value: str) -> None:
    """Set a value, as the worker itself would; raises ApiError for an invalid name or value."""
    check_worker(record, str(worker))
    for name in (namespace, key):
        if NAME.fullmatch(name) is None:
            raise ApiError(
                Code.INVALID_ARGUMENT, f'"{name[:140]}" does not match "{NAME.pattern}".'
            )
    if len(value.encode()) > MAX_VALUE:
        raise ApiError(Code.INVALID_ARGUMENT, f"The value is longer than {MAX_VALUE} bytes.")
    record.guest_attributes.setdefault(worker, {})[namespace, key] = value


def delete_value(record: NodeRecord, worker: int, namespace: str, key: str) -> bool:
    """Drop a value. Returns False if there was none."""
    return record.guest_attributes.get(worker, {}).pop((namespace, key), None) is not None


def of_worker(record: NodeRecord, worker: int) -> Mapping[tuple[str, str], str]:
    """Return a worker's values by namespace and key."""
    return record.guest_attributes.get(worker, {})


def count_query(
    record: NodeRecord, worker: int, now: float, speed: float, *, is_read: bool = False
) -> bool:
    """Count a query of a worker's attributes by an outside reader or by the worker itself.

    Returns False if the query exceeds the rate limit.
    """
    allowance = record.guest_queries.setdefault(worker, Allowance(at=now))
    return allowance.take_query(now, speed, is_read=is_read)


def query_times(record: NodeRecord, worker: int) -> list[float]:
    """Return the times of the newest queries of a worker's attributes, in unix seconds."""
    allowance = record.guest_queries.get(worker)
    return list(allowance.times) if allowance else []


def read_times(record: NodeRecord, worker: int) -> list[float]:
    """Return the times of outside readers' queries of a worker's attributes, in unix seconds."""
    allowance = record.guest_queries.get(worker)
    return list(allowance.reads) if allowance else []


def workers_of(record: NodeRecord, worker_ids: list[str]) -> list[int]:
    """Return the numbers of the named workers, or of all if none is named; raises ApiError."""
    # gcloud sends an empty worker id for all workers.
    named = [worker for worker in dict.fromkeys(worker_ids) if worker]
    for worker in named:
        check_worker(record, worker)
    return [int(worker) for worker in named] or list(range(record.accelerator.hosts))


def read_values(record: NodeRecord, query_path: str, workers: list[int]) -> list[NodeMessage]:
    """Return the values under `namespace/` or `namespace/key`, one message for each worker.

    Raises ApiError if there are none.
    """
    namespace, _, key = query_path.partition("/")
    found = []
    for worker in workers:
        entries = [
            Tpu.GuestAttributesEntry(namespace=space, key=name, value=value)
            for (space, name), value in sorted(record.guest_attributes.get(worker, {}).items())
            if namespace in {"", space} and key in {"", name}
        ]
        values = Tpu.GuestAttributesValue(items=entries)
        found.append(Tpu.GuestAttributes(query_path=query_path, query_value=values))
    if not any(attributes.query_value.items for attributes in found):
        raise invalid_argument('The "GuestAttributes" value "" was not found.')
    return found


def check_worker(record: NodeRecord, worker: str) -> None:
    """Raise ApiError for a worker that the node does not have."""
    hosts = record.accelerator.hosts
    known = worker.isascii() and worker.isdecimal() and len(worker) <= len(str(hosts))
    if not known or int(worker) >= hosts or str(int(worker)) != worker:
        raise ApiError(
            Code.INVALID_ARGUMENT,
            f'Worker "{worker}" does not exist; {record.name} has {hosts} workers.',
        )
