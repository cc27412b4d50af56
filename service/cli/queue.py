"""What is said of a node's queued resource, of its slices, and of how long it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.cli.terminal.formatting import NOTHING, age, counted, moment
from service.cli.terminal.render import cleaned, state, table
from service.domain.catalog.provisioning_modes import gives_up_at
from service.domain.clock import parse_rfc3339, rfc3339
from service.domain.nodes.node import ENDED, NodeState
from service.domain.nodes.queued_resource import meaning

View = Mapping[str, Any]

READY = str(NodeState.READY)


def queue_line(node: View) -> str:
    """What was last seen of its queued resource, and what that means; empty without one."""
    seen = node["queue_state"]
    if not seen:
        return "not shown by Google yet" if node["state"] == NodeState.QUEUED else ""
    means = meaning(seen)
    return cleaned(f"{seen}: {means}" if means else seen)


def bought(node: View) -> str:
    """The provisioning model, and whether it is waited for in the queue."""
    return f"{node['provisioning_model']}{', through the queue' if node['queued'] else ''}"


def made_of(node: View) -> str:
    """The accelerator type, and how many of it."""
    kind = str(node["accelerator_type"])
    return kind if node["slices"] == 1 else f"{node['slices']:,} slices of {kind}"


def slices_ready(node: View) -> str:
    """How many of its slices are READY; empty where it is not made of several."""
    if not node["slice_states"]:
        return ""
    ready = sum(one["state"] == READY for one in node["slice_states"])
    return f"{ready:,} of {counted(node['slices'], 'slice')} READY"


def gives_up(node: View, now: int) -> str:
    """When nobody needs it any more, unless it is READY by then; empty once it was."""
    if node["ready_at"] is not None or node["state"] in ENDED:
        return ""
    until = node["valid_until"]
    end = gives_up_at(
        parse_rfc3339(node["created_at"]),
        node["max_wait_seconds"],
        None if until is None else parse_rfc3339(until),
    )
    if end is None:
        return ""
    return f"{moment(rfc3339(end))} UTC{f', in {age(end - now)}' if end > now else ''}"


def show_slices(node: View) -> None:
    """A line for each slice."""
    table(
        [">SLICE", "STATE", "HEALTH", "IN THE CLOUD"],
        (
            [str(one["slice"]), state(one["state"]), one["health"] or NOTHING, one["cloud_id"]]
            for one in node["slice_states"]
        ),
    )
