"""What a node's page says of its queued resource and of its slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.dashboard.kit.figures import Moment, moment
from service.dashboard.kit.node_rows import tone_of
from service.domain.catalog.provisioning_modes import gives_up_at
from service.domain.clock import parse_rfc3339
from service.domain.nodes.node import NodeState
from service.domain.nodes.queued_resource import IN_LINE, QueueState, meaning

SLICES_OPEN = 16
"""With more slices than that they are shown on demand."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """How a node stands in the queue. `gives_up` is when nobody needs it any more; None when that
    was never said."""

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
    """The slices of a node that is made of several, and in how they stand together."""

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


def queue_tone(state: str) -> str:
    """The sign for a state of a queued resource."""
    return "coming" if state in IN_LINE else _TONES.get(state, "unknown")


def ticket_of(said: Mapping[str, Any]) -> Ticket | None:
    """How a node stands in the queue; None where it does not wait there, or no longer."""
    state = said["queue_state"]
    over = said["state"] == NodeState.READY or said["ended_at"] is not None
    if over or not (state or said["state"] == NodeState.QUEUED):
        return None
    return Ticket(state, meaning(state), not state or state in IN_LINE, _gives_up(said))


def _gives_up(said: Mapping[str, Any]) -> Moment | None:
    """When nobody needs the node any more, unless it is READY by then; None once it was."""
    if said["ready_at"] is not None or said["ended_at"] is not None:
        return None
    until = said["valid_until"]
    end = gives_up_at(
        parse_rfc3339(said["created_at"]),
        said["max_wait_seconds"],
        None if until is None else parse_rfc3339(until),
    )
    return None if end is None else moment(end)


def slices_of(said: Mapping[str, Any]) -> Slices | None:
    """The slices; None where there is one alone."""
    rows = tuple(
        SliceRow(one["slice"], one["cloud_id"], one["state"], tone_of(one["state"]), one["health"])
        for one in said["slice_states"]
    )
    if not rows:
        return None
    ready = sum(row.state == NodeState.READY for row in rows)
    summary = f"{ready:,} of {len(rows):,} READY"
    return Slices(rows, summary, len(rows) <= SLICES_OPEN)
