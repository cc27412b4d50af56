"""A worker of a node as a Compute Engine instance: its names, addresses and machine type."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass

from service.emulator.errors import ApiError, Code
from service.emulator.nodes.nodes import NodeRecord, instance_id
from service.emulator.wire import Node, NodeMessage

# Machine types by generation and the chips of a host.
MACHINE_TYPES = {
    "v2": "ct2-hightpu-4t",
    "v3": "ct3-hightpu-4t",
    "v4": "ct4p-hightpu-4t",
    "v5e": "ct5lp-hightpu-{}t",
    "v5p": "ct5p-hightpu-4t",
    "v6e": "ct6e-standard-{}t",
}
# An informed guess.
CPU_PLATFORMS = {
    "v2": "Intel Skylake",
    "v3": "Intel Skylake",
    "v4": "AMD Rome",
    "v5e": "AMD Milan",
    "v5p": "Intel Sapphire Rapids",
    "v6e": "AMD Genoa",
}
# The states in which a worker's machine responds. The machine of a preempted node still responds,
# so that an outside observer can read that it was preempted.
UP = {"READY", "STOPPING", "RESTARTING", "REPAIRING", "REIMAGING", "PREEMPTED", "DELETING"}
# Nodes of the first API, whose users work on a separate machine.
LEGACY = {Node.ApiVersion.V1_ALPHA1, Node.ApiVersion.V1}


@dataclass(frozen=True)
class Worker:
    """One host of a node."""

    record: NodeRecord
    number: int

    @property
    def node(self) -> NodeMessage:
        return self.record.message

    @property
    def uid(self) -> int:
        return int(self.node.id)

    @property
    def node_id(self) -> str:
        return self.record.name.rpartition("/")[2]

    @property
    def instance_id(self) -> int:
        return instance_id(self.record, self.number)

    @property
    def name(self) -> str:
        """The name of the machine, as TPU VMs were seen to have: `t1v-n-<hash>-w-<number>`."""
        digest = hashlib.sha256(str(self.uid).encode()).hexdigest()
        return f"t1v-n-{digest[:8]}-w-{self.number}"

    @property
    def hostname(self) -> str:
        # The project `example.com:lab` has the domain `lab.example.com`.
        domain = ".".join(reversed(self.record.place.project.split(":")))
        return f"{self.name}.{self.record.place.zone}.c.{domain}.internal"

    @property
    def project_number(self) -> int:
        return zlib.crc32(self.record.place.project.encode())

    @property
    def machine_type(self) -> str:
        pattern = MACHINE_TYPES[self.record.accelerator.generation]
        return pattern.format(self.chips)

    @property
    def cpu_platform(self) -> str:
        return CPU_PLATFORMS[self.record.accelerator.generation]

    @property
    def chips(self) -> int:
        return self.record.accelerator.chips // self.record.accelerator.hosts

    @property
    def is_up(self) -> bool:
        return self.record.state in UP and bool(self.node.network_endpoints)

    @property
    def endpoints(self) -> list[NodeMessage]:
        """The worker's network interfaces, the primary one first."""
        each = len(self.node.network_endpoints) // self.record.accelerator.hosts
        return list(self.node.network_endpoints)[self.number * each : (self.number + 1) * each]

    @property
    def ip(self) -> str:
        return str(self.endpoints[0].ip_address)


def get_worker(record: NodeRecord, number: int) -> Worker:
    """Return a worker of a node by its number; raises ApiError."""
    if record.message.api_version in LEGACY:
        raise ApiError(
            Code.FAILED_PRECONDITION,
            f"{record.name} is a TPU Node, whose hosts run nothing but Google's own software",
        )
    if not 0 <= number < record.accelerator.hosts:
        raise ApiError(
            Code.INVALID_ARGUMENT,
            f"{record.name} has workers 0 to {record.accelerator.hosts - 1}, not {number}",
        )
    return Worker(record, number)


def get_running_worker(record: NodeRecord, number: int) -> Worker:
    """Return a worker whose machine is up; raises ApiError."""
    worker = get_worker(record, number)
    if not worker.is_up:
        raise ApiError(
            Code.UNAVAILABLE,
            f"worker {number} of {record.name} is not running: the node is {record.state}",
        )
    return worker
