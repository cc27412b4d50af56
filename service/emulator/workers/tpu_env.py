"""The metadata of a TPU VM about its TPU, in the formats that JAX and libtpu read."""

from __future__ import annotations

from itertools import zip_longest

from service.emulator.catalog import Accelerator
from service.emulator.nodes.worker import Worker
from service.emulator.wire import Node

# Sides of one host in chips, `x,y,z`, by its number of chips.
HOST_SHAPES = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
SOLID = {"v4", "v5p"}


def format_endpoints(worker: Worker) -> str:
    """Return the primary address of every worker: `unknown:unknown:<ip>`, joined by commas."""
    endpoints_of_all = worker.node.network_endpoints
    step = len(endpoints_of_all) // worker.record.accelerator.hosts
    primary = endpoints_of_all[::step]
    return ",".join(f"unknown:unknown:{endpoint.ip_address}" for endpoint in primary)


def format_lines(worker: Worker) -> str:
    """Return the attribute `tpu-env`: lines of `KEY: 'value'`, as on a real TPU VM."""
    record, accelerator = worker.record, worker.record.accelerator
    host = HOST_SHAPES[worker.chips]
    hosts = [side // chips for side, chips in zip(_parse_sides(accelerator), host, strict=True)]
    config = Node.DESCRIPTOR.fields_by_name["accelerator_config"].message_type
    types = config.fields_by_name["type_"].enum_type.values_by_number
    values: dict[str, object] = {
        "ACCELERATOR_TYPE": accelerator.name,
        "ALT": "false",
        "CHIPS_PER_HOST_BOUNDS": _format_bounds(host),
        "CONSUMER_PROJECT_ID": record.place.project,
        "CONSUMER_PROJECT_NUMBER": worker.project_number,
        "ENABLE_ICI_RESILIENCY": "true" if accelerator.generation in SOLID else "false",
        "HOST_BOUNDS": _format_bounds(hosts),
        "INFERENCE_MODE": "false",
        "INTERNAL": "false",
        "NODE_ID": worker.node_id,
        "PREEMPTIBLE": "true" if record.provisioning_model == "preemptible" else "false",
        "RUNTIME_VERSION": record.message.runtime_version,
        "SERVICE_NAME": "tpu.googleapis.com",
        "TOPOLOGY": accelerator.topology,
        "TPU_CHIPS_PER_PROCESS_BOUNDS": _format_bounds(host),
        "TPU_PROCESS_BOUNDS": _format_bounds(hosts),
        "TPU_RUNTIME_METRICS_PORTS": "8431,8432,8433,8434",
        "TPU_TOPOLOGY_ALT": "false",
        "TPU_TOPOLOGY_WRAP": _format_wrap(accelerator),
        "TYPE": str(types[accelerator.config_type].name),
        "UID": worker.uid,
        "WORKER_ID": worker.number,
        "WRAP": _format_wrap(accelerator),
        "ZONE": record.place.zone,
    }
    return "".join(f"{key}: '{values[key]}'\n" for key in sorted(values))


def _parse_sides(accelerator: Accelerator) -> tuple[int, int, int]:
    sides = [int(side) for side in accelerator.topology.split("x")]
    x, y, z = (side for side, _ in zip_longest(sides, range(3), fillvalue=1))
    return x, y, z


def _format_bounds(sides: tuple[int, ...] | list[int]) -> str:
    return ",".join(str(side) for side in sides)


def _format_wrap(accelerator: Accelerator) -> str:
    """Whether the links of each side form a ring: multiples of 4 in a cube, of 16 in a plane."""
    ring = 4 if accelerator.generation in SOLID else 16
    return ",".join("true" if side % ring == 0 else "false" for side in _parse_sides(accelerator))
