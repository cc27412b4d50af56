"""Writes the shell lines that reach a node, ready to paste. Pure.

Names and addresses come from checked alphabets, or from the cloud. All parts of a shell line are
quoted nevertheless.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from service.domain.catalog.images import Image, list_images, vm_software
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import Conflict
from service.domain.nodes.legacy import not_included
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.recipes import (
    SCRIPT,
    Recipe,
    Target,
    beside_node,
    devices_expected,
    on_vm,
)
from service.domain.nodes.slices import slice_as_node, slice_numbers

LEGACY_PORT = 8470
"""The port of a legacy TPU Node if the cloud does not state it."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: the cloud's name of its node or slice, its number there, and its addresses."""

    cloud_id: str
    worker: int
    ip: str
    port: int
    external_ip: str


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a node.

    `ssh` opens a shell on the first worker, `everywhere` runs a command on all workers, `upload`
    copies a file to all workers; they are empty for a legacy TPU Node. `vm_software` is the
    software that the user's own VM must run. It and `address` are empty for a TPU VM.
    """

    architecture: Architecture
    summary: str
    ssh: str
    everywhere: str
    upload: str
    address: str
    vm_software: str
    workers: tuple[Worker, ...]
    recipes: tuple[Recipe, ...]
    not_included: tuple[str, ...]


LINE_TITLES: Mapping[str, str] = {
    "ssh": "A shell on the first worker",
    "everywhere": "A command on every worker",
    "upload": "Your program to every worker",
    "address": "Its address",
    "vm_software": "Your own VM has to run",
}
"""The lines of a connection in the order in which they are shown, with their titles."""


def connection_to(node: Node) -> Connection:
    """The connection to a node: the lines that reach it. Raises Conflict while the node is not
    READY, or has no address yet."""
    if node.state != NodeState.READY:
        raise Conflict(
            f"node {node.id} is {node.state}: only a READY node can be reached", state=node.state
        )
    workers = tuple(
        Worker(piece.cloud_id, number, at.ip, at.port or LEGACY_PORT, at.external_ip)
        for piece in (slice_as_node(node, number) for number in slice_numbers(node))
        for number, at in enumerate(piece.endpoints)
    )
    if not workers:
        raise Conflict(f"the cloud shows no address of node {node.id} yet; retry in a moment")
    image = next(
        (image for image in list_images() if image.name == node.spec.runtime_version), None
    )
    if node.spec.architecture is Architecture.NODE:
        addresses = [f"{worker.ip}:{worker.port}" for worker in workers]
        target = _make_target(node, len(workers) > 1, str, str)
        network = node.spec.network or "default"
        return Connection(
            architecture=Architecture.NODE,
            summary=(
                "A legacy TPU Node has no machine to log in to. Run your program on your own VM in"
                f" the network {network}, in {node.zone}. It reaches the node over gRPC."
            ),
            ssh="",
            everywhere="",
            upload="",
            address=f"grpc://{addresses[0]}",
            vm_software=vm_software(image) if image is not None else "",
            workers=workers,
            recipes=beside_node(target, addresses, image),
            not_included=not_included(node),
        )
    return _connect_to_vm(node, workers, image)


def _connect_to_vm(node: Node, workers: tuple[Worker, ...], image: Image | None) -> Connection:
    inside = not all(worker.external_ip for worker in workers)
    everywhere = partial(_ssh_line, node, "all", inside=inside)
    first = partial(_ssh_line, node, "0", inside=inside)
    several = len(workers) > 1
    target = _make_target(node, several, everywhere, first)
    summary = "Log in with ssh, and run your program on the node itself."
    if several:
        summary = "Bring your program to all its workers, and run it with the lines below."
    if inside:
        summary += (
            " It has no external address: gcloud reaches it through Identity-Aware Proxy, which a"
            " firewall rule has to let in on port 22 from 35.235.240.0/20."
        )
    scp = [*_gcloud_command(node, "scp", inside=inside), SCRIPT, f"{node.cloud_id}:"]
    scp += [*_location_flags(node), "--worker=all"]
    scp += ["--node=all"] if node.spec.slices > 1 else []
    return Connection(
        architecture=Architecture.VM,
        summary=summary,
        ssh=first(""),
        everywhere=everywhere("hostname"),
        upload=shlex.join(scp),
        address="",
        vm_software="",
        workers=workers,
        recipes=on_vm(target, image),
        not_included=not_included(node),
    )


def _make_target(
    node: Node, several: bool, everywhere: Callable[[str], str], first: Callable[[str], str]
) -> Target:
    spec = node.spec
    return Target(
        cloud_id=node.cloud_id,
        zone=node.zone,
        project=spec.project,
        several=several,
        devices=devices_expected(node),
        everywhere=everywhere,
        first=first,
    )


def _ssh_line(node: Node, worker: str, command: str, *, inside: bool) -> str:
    """The line that runs a command on a worker, or opens a shell if the command is empty.

    gcloud opens no shell on several workers at once, so `all` needs a command.
    """
    line = [*_gcloud_command(node, "ssh", inside=inside), node.cloud_id]
    line += [*_location_flags(node), f"--worker={worker}"]
    if node.spec.slices > 1:
        line.append("--node=all" if worker == "all" else "--node=0")
    return shlex.join([*line, *([f"--command={command}"] if command else [])])


def _gcloud_command(node: Node, verb: str, *, inside: bool) -> list[str]:
    """The start of a gcloud line. Several slices are reached by their queued resource.

    For TPU VMs, only the alpha commands know --tunnel-through-iap (gcloud 528).
    """
    tunnel = ["--tunnel-through-iap"] if inside else []
    if node.spec.slices > 1:
        return ["gcloud", "compute", "tpus", "queued-resources", verb, *tunnel]
    track = ["alpha"] if inside else []
    return ["gcloud", *track, "compute", "tpus", "tpu-vm", verb, *tunnel]


def _location_flags(node: Node) -> list[str]:
    return [f"--project={node.spec.project}", f"--zone={node.zone}"]
