"""Queued resources in the hand: asking for one, looking at it, bringing it into any state."""

from __future__ import annotations

from typing import Any

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.wire import Tpu
from tests.emulator.factories import PARENT, Cloud, name_of

State = Tpu.QueuedResourceState.State
Initiator = Tpu.QueuedResourceState.StateInitiator
# Seconds after its creation at which an undisturbed queued resource comes into a state.
ARRIVES = {
    "CREATING": 0,
    "ACCEPTED": 3,
    "WAITING_FOR_RESOURCES": 5,
    "PROVISIONING": 10,
    "ACTIVE": 32,
}
STATES = (*ARRIVES, "FAILED", "SUSPENDING", "SUSPENDED", "DELETING")


def queued_name(queued_id: str = "q", parent: str = PARENT) -> str:
    return f"{parent}/queuedResources/{queued_id}"


def spec(node_id: str = "n", parent: str = PARENT, count: int = 0, **node: Any) -> dict[str, Any]:
    """Ask for a v4-8, or for several of them with names that begin with `node_id`."""
    wanted = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base", **node}
    if count:
        params = {"node_count": count, "node_id_prefix": node_id}
        return {"parent": parent, "multislice_params": params, "node": wanted}
    return {"parent": parent, "node_id": node_id, "node": wanted}


def resource(*specs: dict[str, Any], **tier: Any) -> dict[str, Any]:
    return {"tpu": {"node_spec": list(specs) or [spec()]}, **tier}


def submit(
    cloud: Cloud,
    queued_id: str = "q",
    *specs: dict[str, Any],
    parent: str = PARENT,
    request_id: str = "",
    **tier: Any,
) -> Any:
    """Create a queued resource; returns the operation."""
    return cloud.ask(
        "CreateQueuedResource",
        parent=parent,
        queued_resource_id=queued_id,
        queued_resource=resource(*(specs or (spec(parent=parent),)), **tier),
        request_id=request_id,
    )


def look(cloud: Cloud, queued_id: str = "q", parent: str = PARENT) -> Any:
    return cloud.ask("GetQueuedResource", name=queued_name(queued_id, parent))


def state(cloud: Cloud, queued_id: str = "q") -> str:
    """Name the state that a GET shows, or GONE."""
    try:
        return str(State.Name(look(cloud, queued_id).state.state))
    except ApiError as error:
        if error.code is Code.NOT_FOUND:
            return "GONE"
        raise


def initiator(cloud: Cloud, queued_id: str = "q") -> str:
    return str(Initiator.Name(look(cloud, queued_id).state.state_initiator))


def remove(cloud: Cloud, queued_id: str = "q", **how: Any) -> Any:
    return cloud.ask("DeleteQueuedResource", name=queued_name(queued_id), **how)


def renew(cloud: Cloud, queued_id: str = "q") -> Any:
    return cloud.ask("ResetQueuedResource", name=queued_name(queued_id))


def active(cloud: Cloud, queued_id: str = "q", *specs: dict[str, Any], **tier: Any) -> str:
    """Create a queued resource and wait until it is ACTIVE; returns its name."""
    submit(cloud, queued_id, *specs, **tier)
    cloud.wait(ARRIVES["ACTIVE"])
    assert state(cloud, queued_id) == "ACTIVE"
    return queued_name(queued_id)


def preempt(cloud: Cloud, node_id: str = "n") -> None:
    control.preempt_node(cloud.world, {"name": name_of(node_id)})


def order(cloud: Cloud, rpc: str, action: str, **more: Any) -> None:
    control.add_fault(cloud.world, {"rpc": rpc, "action": action, **more})


def bring(cloud: Cloud, wanted: str) -> None:
    """Bring a spot queued resource `q` with the node `n` into a state."""
    if wanted == "FAILED":
        order(cloud, "CreateQueuedResource", "fail_provisioning")
    submit(cloud, spot={})
    cloud.wait(ARRIVES.get(wanted, ARRIVES["ACTIVE"]))
    if wanted.startswith("SUSPEND"):
        preempt(cloud)
        cloud.wait(5 if wanted == "SUSPENDED" else 0)
    if wanted == "FAILED":
        cloud.wait(100)
    if wanted == "DELETING":
        remove(cloud, force=True)
    assert state(cloud) == wanted
