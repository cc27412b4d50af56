"""Placements: each attempt to create a node in a zone, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.domain.errors import (
    AlreadyExists,
    CapacityUnavailable,
    CloudError,
    InvalidRequest,
    NotAllowed,
    QuotaExceeded,
)


class Outcome(StrEnum):
    """How a placement ended, or that it has not."""

    OPEN = "open"
    READY = "ready"
    STOCK_OUT = "stock_out"
    QUOTA = "quota"
    DENIED = "denied"
    REFUSED = "refused"
    NAME_TAKEN = "name_taken"
    FAILED = "failed"
    PREEMPTED = "preempted"
    VANISHED = "vanished"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class HardwareKey:
    """Hardware that shares one capacity: one type and provisioning model in one zone."""

    zone: str
    accelerator_type: str
    generation: str
    model: str


@dataclass(frozen=True, slots=True)
class Placement:
    """One attempt to create a node in one zone: when, how it ended, why.

    `ready_at` is when the node came up; None if it never did. `scope` is the region or zone whose
    quota was exceeded, if the cloud named one; else empty. Times are whole UTC seconds.
    """

    node_id: str
    attempt: int
    zone: str
    model: str
    cloud_id: str
    started_at: int
    outcome: Outcome = Outcome.OPEN
    reason: str = ""
    ended_at: int | None = None
    project: str = ""
    accelerator_type: str = ""
    generation: str = ""
    ready_at: int | None = None
    scope: str = ""

    @property
    def key(self) -> HardwareKey:
        """The hardware that was tried."""
        return HardwareKey(self.zone, self.accelerator_type, self.generation, self.model)


def outcome_of(error: CloudError) -> Outcome:
    """The outcome of a placement whose call or operation failed with an error."""
    kinds: tuple[tuple[type[CloudError], Outcome], ...] = (
        (CapacityUnavailable, Outcome.STOCK_OUT),
        (QuotaExceeded, Outcome.QUOTA),
        (NotAllowed, Outcome.DENIED),
        (InvalidRequest, Outcome.REFUSED),
        (AlreadyExists, Outcome.NAME_TAKEN),
    )
    return next((outcome for kind, outcome in kinds if isinstance(error, kind)), Outcome.FAILED)
