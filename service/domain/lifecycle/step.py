"""A step: the next action on a node, and the poll of the cloud that decides it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.domain.lifecycle.absence import Absence, FleetCensus
from service.domain.nodes.node import CloudNode
from service.domain.nodes.operation import Operation
from service.domain.nodes.queued_resource import QueuedResource


class NodeStep(StrEnum):
    """The next action on a node."""

    PLACE = "place"
    """Choose a zone and write the intent; nothing is in the cloud."""

    SEND = "send"
    """Send the create of the written intent, perhaps again: the name makes it the same node."""

    WAIT = "wait"
    """The cloud is working; poll again later."""

    QUEUE = "queue"
    """The request waits in Google's queue, maybe for days; every inventory checks that it does."""

    SETTLE = "settle"
    """The node is in the requested state."""

    START = "start"
    STOP = "stop"

    REIMAGE = "reimage"
    """Put the requested software on a legacy TPU Node."""

    DELETE = "delete"
    """Delete the node itself, or every slice of it that exists."""

    DEQUEUE = "dequeue"
    """Delete its queued resource, and with it the nodes of the queued resource."""

    REPLACE = "replace"
    """Delete the cloud resources, then place the node again."""

    NEXT = "next"
    """The placement ended and nothing of it is left: start the next placement."""

    CLOSE = "close"
    """The node is no longer wanted, and verified gone."""

    VANISH = "vanish"
    """The node was up and is gone, without a request to this service."""

    MISS = "miss"
    """The node is not there, which proves nothing yet: poll again."""

    CONFLICT = "conflict"
    """The cloud resource with the node's name is not ours: leave it alone, and report it."""


@dataclass(frozen=True, slots=True)
class NodeLook:
    """The result of one poll. A None says that the cloud has no such resource.

    `sight` is the node itself, `slices` has each slice of a node of several, in order, `queue` is
    its queued resource. `operation` is the last one that was started; None if there was none or the
    cloud no longer knows it. `absence` says how certain it is that missing nodes are gone, and
    `census` counts the missing nodes of the project, if that matters. `asked_at` is the UTC second
    at which the first request was sent.
    """

    sight: CloudNode | None
    operation: Operation | None = None
    queue: QueuedResource | None = None
    slices: tuple[CloudNode | None, ...] = ()
    absence: Absence = Absence.CERTAIN
    census: FleetCensus | None = None
    asked_at: int = 0

    @property
    def members(self) -> tuple[CloudNode | None, ...]:
        """The cloud nodes of the node, in order: itself, or its slices; None for a missing one."""
        return self.slices or (self.sight,)

    @property
    def present_members(self) -> tuple[CloudNode, ...]:
        """The members that exist."""
        return tuple(member for member in self.members if member is not None)
