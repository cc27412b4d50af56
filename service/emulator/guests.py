"""Guest attributes: small values that a node's workers publish and its owner reads."""

from __future__ import annotations

from service.emulator.errors import ApiError, Code, invalid_argument
from service.emulator.nodes import NodeRecord
from service.emulator.wire import NodeMessage, Tpu


def publish(record: NodeRecord, worker: int, namespace: str, key: str, value: str) -> None:
    """Set a value as the worker itself would; raises ApiError for a worker it does not have."""
    _check_worker(record, str(worker))
    record.guest_attributes.setdefault(worker, {})[namespace, key] = value


def read(record: NodeRecord, query_path: str, worker_ids: list[str]) -> list[NodeMessage]:
    """List the values under `namespace/` or `namespace/key`, one message for each worker."""
    for worker in worker_ids:
        _check_worker(record, worker)
    workers = [int(each) for each in worker_ids] or list(range(record.accelerator.hosts))
    found = [_values(record, worker, query_path) for worker in workers]
    if not any(each.query_value.items for each in found):
        raise invalid_argument('The "GuestAttributes" value "" was not found.')
    return found


def _values(record: NodeRecord, worker: int, query_path: str) -> NodeMessage:
    namespace, _, key = query_path.partition("/")
    values = sorted(record.guest_attributes.get(worker, {}).items())
    entries = [
        Tpu.GuestAttributesEntry(namespace=space, key=name, value=value)
        for (space, name), value in values
        if namespace in {"", space} and key in {"", name}
    ]
    return Tpu.GuestAttributes(
        query_path=query_path, query_value=Tpu.GuestAttributesValue(items=entries)
    )


def _check_worker(record: NodeRecord, worker: str) -> None:
    known = [str(index) for index in range(record.accelerator.hosts)]
    if worker not in known:
        raise ApiError(
            Code.INVALID_ARGUMENT,
            f'Worker "{worker}" does not exist; {record.name} has {len(known)} workers.',
        )
