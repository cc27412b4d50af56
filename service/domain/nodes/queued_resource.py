"""A queued resource: Google's request object for one or more nodes, with its own lifecycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.errors import CloudError
from service.domain.nodes.node import Place


class QueueState(StrEnum):
    """Google's states, in the order without errors, and the states after errors.

    A state that Google adds later is kept as its text, so fields that hold a state are `str`.
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
"""States in which nothing is created yet, and nothing is charged."""

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


def describe_state(state: str) -> str:
    """The meaning of a queued resource's state for the waiting user, as the end of a sentence.
    Empty if unknown."""
    return _MEANINGS.get(state, "")


@dataclass(frozen=True, slots=True)
class QueuedResource:
    """One queued resource as the cloud showed it. `place` has its location and its own id.

    `nodes` are the ids of its nodes, `labels` the labels of each of these. `provisioning_model` is
    empty if no tier is named: it is on demand or flex-start, which v2 of the API does not
    distinguish. `error` says why it FAILED. `initiator` is USER or SERVICE: who caused its state.
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
