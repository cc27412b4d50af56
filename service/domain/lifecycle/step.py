"""A step: the one thing to do with a node now, and the look at the cloud that it is decided by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.domain.lifecycle.absence import Absence, FleetCensus
from service.domain.nodes.node import CloudNode
from service.domain.nodes.operation import Operation
from service.domain.nodes.queued_resource import QueuedResource


class NodeStep(StrEnum):
    """The one thing to do with a node now."""

    PLACE = "place"
    """Choose a zone and write the intent down; nothing is in the cloud."""

    SEND = "send"
    """The intent is written; ask the cloud for the node (again: the name makes it the same one)."""

    WAIT = "wait"
    """The cloud is at work; look again later."""

    QUEUE = "queue"
    """It waits in Google's queue, maybe for days; every inventory looks whether it still does."""

    SETTLE = "settle"
    """It is as asked."""

    START = "start"
    STOP = "stop"

    REIMAGE = "reimage"
    """Put the software on a legacy TPU Node that was asked for since."""

    DELETE = "delete"
    """Delete the node itself, or every slice of it that is there."""

    DEQUEUE = "dequeue"
    """Delete its queued resource, and with it the nodes that this stands for."""

    REPLACE = "replace"
    """Delete what is there, then place it anew."""

    NEXT = "next"
    """The placement ended and nothing of it is left: make the next one."""

    CLOSE = "close"
    """Wanted no more, and verified gone."""

    VANISH = "vanish"
    """It was up and is gone, and nobody here asked for that."""

    MISS = "miss"
    """It is not there, which proves nothing yet: look for it again."""

    CONFLICT = "conflict"
    """What bears the name is not ours: leave it alone, and say so."""


@dataclass(frozen=True, slots=True)
class NodeLook:
    """What was found just now. None of anything: the cloud says that there is none.

    `sight` is the node itself, `slices` each slice in its order where it is made of several,
    `queue` its queued resource. `operation` is the one that was started last, None where there was
    none or the cloud no longer knows it. `absence` says what to make of that which is not there,
    and `census` of how many that is so, where it matters.
    """

    sight: CloudNode | None
    operation: Operation | None = None
    queue: QueuedResource | None = None
    slices: tuple[CloudNode | None, ...] = ()
    absence: Absence = Absence.CERTAIN
    census: FleetCensus | None = None

    @property
    def members(self) -> tuple[CloudNode | None, ...]:
        """The nodes in the cloud that the node stands for: itself, or its slices."""
        return self.slices or (self.sight,)

    @property
    def present(self) -> tuple[CloudNode, ...]:
        """Those of them that are there."""
        return tuple(member for member in self.members if member is not None)
