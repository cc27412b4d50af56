"""Decides when a node that the cloud does not show is gone. Pure.

Absence is never evidence by itself (rule R3 of the fault model): an answer may be stale, a list may
be incomplete, and wrong credentials see nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from service.domain.nodes.node import Asked, Node
from service.domain.nodes.operation import Operation

CONFIRM_SECONDS = 60
"""Seconds for which complete lists must have lacked a node before a GET without it is believed."""

LOOKS = 2
"""Number of complete lists that must have lacked the node in that time."""

_FEW = 2
_SHARE = 10


class Absence(StrEnum):
    """How certain it is that a missing node, or a slice of it, is gone."""

    CERTAIN = "certain"
    """The node is gone: the cloud's own record says so, or LOOKS complete lists lacked it for at
    least CONFIRM_SECONDS."""

    UNPROVED = "unproved"
    """The node may be in the next answer again."""

    TOO_MANY = "too_many"
    """So many nodes are missing at once that the answers are probably wrong."""


@dataclass(frozen=True, slots=True)
class FleetCensus:
    """The number of nodes of a project that should be in the cloud, and of those that are missing.

    Nodes whose deletion was requested do not count.
    """

    wanted: int
    missing: int

    @property
    def is_mass_absence(self) -> bool:
        """Whether more than two nodes, and more than a tenth of all, are missing at once."""
        return self.missing > max(_FEW, self.wanted // _SHARE)


def judge_absence(node: Node, census: FleetCensus, now: int) -> Absence:
    """How certain the absence is after a GET without the node, if no record of the cloud says why.

    For a node that is to be deleted anyway, the number of other missing nodes does not matter.
    """
    missed_at = node.missed_at
    if missed_at is None or node.misses < LOOKS or now - missed_at < CONFIRM_SECONDS:
        return Absence.UNPROVED
    doubtful = census.is_mass_absence and node.asked is not Asked.ABSENT
    return Absence.TOO_MANY if doubtful else Absence.CERTAIN


def was_deleted(operations: Iterable[Operation], node: Node) -> bool:
    """Whether the absence of a node is a deletion of its present attempt, by the cloud's
    operations. Any caller may have deleted it."""
    sent = node.sent_at or 0
    return any(
        op.verb == "delete" and op.has_succeeded and op.created_at >= sent for op in operations
    )


def never_came(operation: Operation | None) -> bool:
    """Whether the absence is no loss: the create itself failed, so that nothing can be gone."""
    return operation is not None and operation.verb == "create" and operation.error is not None


def describe_mass_absence(census: FleetCensus, project: str) -> str:
    """The message to a human about the absence of many nodes at once."""
    return (
        f"the cloud shows {census.missing} of the {census.wanted} nodes of project {project}"
        " no longer, all at once. No record of the cloud shows a deletion. This is treated as an"
        " error of the API, of the service's credentials or of its address. The nodes stay as"
        " they are and are polled again; delete those that are really gone"
    )
