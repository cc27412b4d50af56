"""The queued resource and the slices of a node, as its page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.dashboard.kit.figures import Moment, to_moment
from service.dashboard.kit.node_rows import tone_of
from service.domain.catalog.provisioning_modes import gives_up_at
from service.domain.clock import parse_rfc3339
from service.domain.nodes.node import NodeState
from service.domain.nodes.queued_resource import IN_LINE, QueueState, describe_state

SLICES_OPEN = 16
"""The most slices that are shown at once; more are shown on demand."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The state of a node in the queue. `gives_up` is when the request ends if the node is not
    READY; None if it has no end."""

    state: str
    means: str
    in_line: bool
    gives_up: Moment | None


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice in words; `tone` is the sign that goes with its state."""

    number: int
    cloud_id: str
    state: str
    tone: str
    health: str


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of a node that has several, and a summary of their states."""

    rows: tuple[SliceRow, ...]
    summary: str
    is_open: bool


_TONES: Mapping[str, str] = {
    QueueState.PROVISIONING: "coming",
    QueueState.ACTIVE: "up",
    QueueState.SUSPENDING: "going",
    QueueState.DELETING: "going",
    QueueState.SUSPENDED: "trouble",
    QueueState.FAILED: "trouble",
}


def tone_of_queue(state: str) -> str:
    """The sign for a state of a queued resource."""
    return "coming" if state in IN_LINE else _TONES.get(state, "unknown")


def ticket_of(said: Mapping[str, Any]) -> Ticket | None:
    """The state of a node in the queue. None if it does not wait there, or no longer."""
    state = said["queue_state"]
    over = said["state"] == NodeState.READY or said["ended_at"] is not None
    if over or not (state or said["state"] == NodeState.QUEUED):
        return None
    end = None
    if said["ready_at"] is None:  # else it was READY once, and no longer gives up
        until = said["valid_until"]
        end = gives_up_at(
            parse_rfc3339(said["created_at"]),
            said["max_wait_seconds"],
            None if until is None else parse_rfc3339(until),
        )
    gives_up = None if end is None else to_moment(end)
    return Ticket(state, describe_state(state), not state or state in IN_LINE, gives_up)


def slices_of(said: Mapping[str, Any]) -> Slices | None:
    """The slices of a node. None if it has only one."""
    rows = tuple(
        SliceRow(
            part["slice"], part["cloud_id"], part["state"], tone_of(part["state"]), part["health"]
        )
        for part in said["slice_states"]
    )
    if not rows:
        return None
    ready = sum(row.state == NodeState.READY for row in rows)
    summary = f"{ready:,} of {len(rows):,} READY"
    return Slices(rows, summary, len(rows) <= SLICES_OPEN)
