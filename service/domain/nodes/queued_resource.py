"""A queued resource: Google's ticket for one or more nodes, which lives and ends beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.errors import CloudError
from service.domain.nodes.node import Place


class QueueState(StrEnum):
    """Google's states, in the order of a life without trouble; and where trouble leads.

    One that Google adds tomorrow is kept as the text it came as; so fields that hold one are `str`.
    """

    CREATING = "CREATING"
    ACCEPTED = "ACCEPTED"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"
    PROVISIONING = "PROVISIONING"
    ACTIVE = "ACTIVE"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    FAILED = "FAILED"
    DELETING = "DELETING"


IN_LINE = frozenset({QueueState.CREATING, QueueState.ACCEPTED, QueueState.WAITING_FOR_RESOURCES})
"""Nothing is made yet, and nothing costs anything."""

_MEANINGS: Mapping[str, str] = {
    QueueState.CREATING: "Google is accepting the request",
    QueueState.ACCEPTED: "Google has accepted the request",
    QueueState.WAITING_FOR_RESOURCES: "waiting in the queue for hardware",
    QueueState.PROVISIONING: "hardware is available and is being set up",
    QueueState.ACTIVE: "granted",
    QueueState.SUSPENDING: "Google is reclaiming the hardware",
    QueueState.SUSPENDED: "its hardware was preempted, and it gets no other",
    QueueState.FAILED: "it failed",
    QueueState.DELETING: "it is being deleted",
}


def meaning(state: str) -> str:
    """What a state means for whoever waits, as the end of a sentence; empty where nobody knows."""
    return _MEANINGS.get(state, "")


@dataclass(frozen=True, slots=True)
class QueuedResource:
    """What the cloud was observed to show of one. `place` is where it is and its own id.

    `nodes` are the ids of the nodes that it stands for, `labels` those that each of them gets.
    `provisioning_model` is empty where it names no tier: then it is on demand or flex-start, which
    v2 of the API does not tell apart.
    `error` says why it FAILED. `initiator` is USER or SERVICE: who brought it into its state.
    """

    place: Place
    state: str
    initiator: str = ""
    error: CloudError | None = None
    nodes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    accelerator_type: str = ""
    created_at: int | None = None
    provisioning_model: str = ""

    @property
    def path(self) -> str:
        """Google's full name of the queued resource."""
        return self.place.queue_path
