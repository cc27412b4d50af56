"""A node's queued resource, its slices and the end of its wait, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.cli.terminal.formatting import NOTHING, format_age, format_count, format_time
from service.cli.terminal.render import clean_text, print_table, style_state
from service.domain.catalog.provisioning_modes import gives_up_at
from service.domain.clock import parse_rfc3339, to_rfc3339
from service.domain.nodes.node import ENDED, NodeState
from service.domain.nodes.queued_resource import describe_state

View = Mapping[str, Any]

READY = str(NodeState.READY)


def queue_line(node: View) -> str:
    """Last seen state of the queued resource of a node, with its meaning. Empty without one."""
    seen = node["queue_state"]
    if not seen:
        return "not shown by Google yet" if node["state"] == NodeState.QUEUED else ""
    means = describe_state(seen)
    return clean_text(f"{seen}: {means}" if means else seen)


def describe_model(node: View) -> str:
    """Provisioning model of a node, marked when the node waits in the queue."""
    return f"{node['provisioning_model']}{', through the queue' if node['queued'] else ''}"


def made_of(node: View) -> str:
    """Accelerator type of a node, with the number of slices if there are several."""
    kind = str(node["accelerator_type"])
    return kind if node["slices"] == 1 else f"{node['slices']:,} slices of {kind}"


def slices_ready(node: View) -> str:
    """Number of READY slices. Empty for a node that is not made of slices."""
    if not node["slice_states"]:
        return ""
    ready = sum(slice_["state"] == READY for slice_ in node["slice_states"])
    return f"{ready:,} of {format_count(node['slices'], 'slice')} READY"


def gives_up(node: View, now: int) -> str:
    """Time at which the request is given up if the node is not READY. Empty without such a time,
    and once the node was READY or has ended."""
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
    left = f", in {format_age(end - now)}" if end > now else ""
    return f"{format_time(to_rfc3339(end))} UTC{left}"


def show_slices(node: View) -> None:
    """Print a row for each slice of a node."""
    print_table(
        [">SLICE", "STATE", "HEALTH", "IN THE CLOUD"],
        (
            [
                str(slice_["slice"]),
                style_state(slice_["state"]),
                slice_["health"] or NOTHING,
                slice_["cloud_id"],
            ]
            for slice_ in node["slice_states"]
        ),
    )
