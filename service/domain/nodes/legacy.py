"""The legacy TPU Node: which requests are valid, and which of its costs are not counted. Pure.

It has no virtual machine. The user's own VM reaches it over gRPC, and the user makes, sets up and
pays that VM (reference/pricing.md section 1).
"""

from __future__ import annotations

from collections.abc import Collection

from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.catalog.runtime_reasons import NODE_GENERATIONS
from service.domain.errors import Rejected
from service.domain.nodes.node import Node

NOT_INCLUDED = "the VM that drives the legacy TPU Node is billed by Compute Engine"
"""The notice for a node without `vm`: the caller has not named the machine."""

VM_INCLUDED = (
    "Compute Engine bills the VM of a legacy TPU Node from its start to its stop, and"
    " also its disks. Here it is charged for the time of the TPU"
)

_ITS_OWN_VM = "set it on your own VM beside the node"

_NOT_HERE = {
    "startup_script": _ITS_OWN_VM,
    "metadata": _ITS_OWN_VM,
    "data_disks": _ITS_OWN_VM,
    "service_account": _ITS_OWN_VM,
    "external_ip": _ITS_OWN_VM,
    "subnetwork": "Google chooses its addresses; give only the network",
    "queued": "Google's queue takes TPU VMs only; leave it out",
    "slices": "several slices are made of TPU VMs only; leave it out",
    "reservation": "its API takes from any reservation of the project; leave it out",
}
"""Fields of a request that need a virtual machine or a later API, and what to do about each."""

_MODELS = {
    ProvisioningModel.SPOT: "use preemptible instead",
    ProvisioningModel.FLEX_START: "use on_demand, preemptible or reserved",
}
"""Provisioning models that legacy TPU Nodes do not have, and what to do about each."""


def check_request(
    said: Collection[str], accelerator: AcceleratorType, model: ProvisioningModel
) -> None:
    """Raise Rejected, with the field and the remedy, for a request that a legacy TPU Node cannot
    meet.

    `said` names the fields that the request fills.
    """
    if accelerator.generation not in NODE_GENERATIONS:
        raise Rejected(
            f"the legacy TPU Node exists for {' and '.join(NODE_GENERATIONS)} only, not for"
            f" {accelerator.generation}; use architecture vm",
            field="architecture",
            generations=list(NODE_GENERATIONS),
        )
    for field, advice in _NOT_HERE.items():
        if field in said:
            raise Rejected(
                f"{field} is not for a legacy TPU Node: {advice}, or use architecture vm",
                field=field,
            )
    if model in _MODELS:
        raise Rejected(
            f"a legacy TPU Node is not sold as {model}: {_MODELS[model]}",
            field="provisioning_model",
        )


def not_included(node: Node) -> tuple[str, ...]:
    """The costs of a legacy TPU Node that are not counted, as sentences."""
    if node.spec.architecture is not Architecture.NODE:
        return ()
    return (NOT_INCLUDED if node.spec.vm is None else VM_INCLUDED,)
