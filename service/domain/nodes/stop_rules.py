"""The rules by which the cloud can stop a node, and why it cannot. Pure."""

from __future__ import annotations

from service.domain.catalog.accelerators import TAKEN_BACK, AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.provisioning_modes import QUEUED_ONLY
from service.domain.nodes.node import NodeSpec


def stop_obstacles(spec: NodeSpec) -> tuple[str, ...]:
    """All rules that forbid a stop of the node; empty if the cloud can stop it.

    Google stops only "single TPU nodes". A node that Google may take back is deleted and created
    again instead (reference/cloud-tpu-api.md section 3.1). A queued node is granted once: its
    queued resource holds the node until both are deleted.
    """
    found = []
    model = spec.provisioning_model
    if spec.slices > 1:
        found.append(f"it is made of {spec.slices} slices")
    elif spec.hosts > 1:
        found.append(f"it is a pod slice of {spec.hosts} hosts, and only one host can be stopped")
    if model in TAKEN_BACK:
        found.append(f"it is {model}, which the cloud can preempt and cannot stop")
    if model in QUEUED_ONLY:
        called = model.replace("_", "-")
        found.append(f"it is {called}, which a queued resource owns until it is deleted")
    elif spec.queued:
        found.append("it belongs to a queued resource, whose nodes the cloud does not stop")
    return tuple(found)


def is_stoppable(accelerator: AcceleratorType, model: ProvisioningModel) -> bool:
    """Whether the cloud can stop a node of this type: one host, and Google cannot take it back."""
    return accelerator.single_host and model not in TAKEN_BACK
