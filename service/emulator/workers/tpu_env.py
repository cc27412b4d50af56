"""What the metadata of a TPU VM says about its TPU, in the formats that JAX and libtpu read."""

from __future__ import annotations

from itertools import zip_longest

from service.emulator.catalog import Accelerator
from service.emulator.nodes.worker import Worker
from service.emulator.wire import Node

# Chips of one host, as `x,y,z`.
HOST_SHAPES = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
SOLID = {"v4", "v5p"}


def endpoints(worker: Worker) -> str:
    """List the primary address of every worker: `unknown:unknown:<ip>`, joined by commas."""
    every = worker.node.network_endpoints
    step = len(every) // worker.record.accelerator.hosts
    return ",".join(f"unknown:unknown:{each.ip_address}" for each in every[::step])


def text(worker: Worker) -> str:
    """Write the attribute `tpu-env`: lines of `KEY: 'value'`, as read off a real TPU VM."""
    values = _values(worker)
    return "".join(f"{key}: '{values[key]}'\n" for key in sorted(values))


def _values(worker: Worker) -> dict[str, object]:
    record, accelerator = worker.record, worker.record.accelerator
    host = HOST_SHAPES[worker.chips]
    hosts = [side // each for side, each in zip(_sides(accelerator), host, strict=True)]
    return {
        "ACCELERATOR_TYPE": accelerator.name,
        "ALT": "false",
        "CHIPS_PER_HOST_BOUNDS": _bounds(host),
        "CONSUMER_PROJECT_ID": record.place.project,
        "CONSUMER_PROJECT_NUMBER": worker.project_number,
        "ENABLE_ICI_RESILIENCY": "true" if accelerator.generation in SOLID else "false",
        "HOST_BOUNDS": _bounds(hosts),
        "INFERENCE_MODE": "false",
        "INTERNAL": "false",
        "NODE_ID": worker.node_id,
        "PREEMPTIBLE": "true" if record.provisioning_model == "preemptible" else "false",
        "RUNTIME_VERSION": record.message.runtime_version,
        "SERVICE_NAME": "tpu.googleapis.com",
        "TOPOLOGY": accelerator.topology,
        "TPU_CHIPS_PER_PROCESS_BOUNDS": _bounds(host),
        "TPU_PROCESS_BOUNDS": _bounds(hosts),
        "TPU_RUNTIME_METRICS_PORTS": "8431,8432,8433,8434",
        "TPU_TOPOLOGY_ALT": "false",
        "TPU_TOPOLOGY_WRAP": _wrap(accelerator),
        "TYPE": _kind(worker),
        "UID": worker.uid,
        "WORKER_ID": worker.number,
        "WRAP": _wrap(accelerator),
        "ZONE": record.place.zone,
    }


def _kind(worker: Worker) -> str:
    types = Node.DESCRIPTOR.fields_by_name["accelerator_config"].message_type
    values = types.fields_by_name["type_"].enum_type.values_by_number
    return str(values[worker.record.accelerator.config_type].name)


def _sides(accelerator: Accelerator) -> tuple[int, int, int]:
    sides = [int(side) for side in accelerator.topology.split("x")]
    x, y, z = (side for side, _ in zip_longest(sides, range(3), fillvalue=1))
    return x, y, z


def _bounds(sides: tuple[int, ...] | list[int]) -> str:
    return ",".join(str(side) for side in sides)


def _wrap(accelerator: Accelerator) -> str:
    """Say along which sides the links close to a ring: cubes of four, or sixteen in the plane."""
    ring = 4 if accelerator.generation in SOLID else 16
    return ",".join("true" if side % ring == 0 else "false" for side in _sides(accelerator))
