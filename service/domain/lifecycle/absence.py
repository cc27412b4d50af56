"""When what the cloud does not show is gone. Pure.

Absence is never evidence by itself (rule R3 of the fault model): an answer may be stale, a list may
be short, and credentials of another place see nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from service.domain.nodes.node import Asked, Node
from service.domain.nodes.operation import Operation

CONFIRM_SECONDS = 60
"""For how long no complete list may have shown it, before a GET that finds nothing is believed."""

LOOKS = 2
"""How many complete lists must have lacked it in that time."""

_FEW = 2
_SHARE = 10


class Absence(StrEnum):
    """What to make of it that something of a node is not there."""

    CERTAIN = "certain"
    """It is gone: the cloud's own record says so, or it was looked for long enough."""

    UNPROVED = "unproved"
    """It may come back with the next answer."""

    TOO_MANY = "too_many"
    """So much is missing at once that it is rather the answers that are wrong."""


@dataclass(frozen=True, slots=True)
class FleetCensus:
    """How many nodes of a project should be in the cloud, and how many of these are not shown,
    though nobody asked for their end."""

    wanted: int
    missing: int

    @property
    def too_many(self) -> bool:
        """Whether more is missing at once than goes by itself: two, or a tenth of all."""
        return self.missing > max(_FEW, self.wanted // _SHARE)


def judge(node: Node, census: FleetCensus, now: int) -> Absence:
    """What to make of it that a GET has just found nothing, where no record says why. Of what is to
    go anyway, no number of others is a reason to doubt."""
    missed_at = node.missed_at
    if missed_at is None or node.misses < LOOKS or now - missed_at < CONFIRM_SECONDS:
        return Absence.UNPROVED
    doubtful = census.too_many and node.asked is not Asked.ABSENT
    return Absence.TOO_MANY if doubtful else Absence.CERTAIN


def was_deleted(operations: Iterable[Operation], node: Node) -> bool:
    """Whether the cloud's record says that what was last sent was deleted, by whomever."""
    sent = node.sent_at or 0
    return any(
        one.verb == "delete" and one.succeeded and one.created_at >= sent for one in operations
    )


def never_came(operation: Operation | None) -> bool:
    """Whether the create itself came to nothing: there was nothing that could be gone."""
    return operation is not None and operation.verb == "create" and operation.error is not None


def told(census: FleetCensus, project: str) -> str:
    """What to tell a human of so many that are missing at once."""
    return (
        f"the cloud shows {census.missing} of the {census.wanted} nodes of project {project}"
        " no longer, all at once. No record of the cloud shows a deletion. This is treated as an"
        " error of the API, of the service's credentials or of its address. The nodes stay as"
        " they are and are polled again; delete those that are really gone"
    )
