"""Placements: each attempt to get a node somewhere, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.domain.catalog.zones import region_of
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
    """What runs out together: hardware of one type, bought in one way, in one zone."""

    zone: str
    accelerator_type: str
    generation: str
    model: str


@dataclass(frozen=True, slots=True)
class Placement:
    """One attempt to get a node in one zone: when, how it ended, why.

    `ready_at` is when it came up, None when it never did. `scope` is the region or zone for which a
    quota was refused, where the cloud named one; else empty. Times in whole UTC seconds.
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
        """What was tried."""
        return HardwareKey(self.zone, self.accelerator_type, self.generation, self.model)


def outcome_of(error: CloudError) -> Outcome:
    """How a placement ended whose call or operation failed with that error."""
    kinds: tuple[tuple[type[CloudError], Outcome], ...] = (
        (CapacityUnavailable, Outcome.STOCK_OUT),
        (QuotaExceeded, Outcome.QUOTA),
        (NotAllowed, Outcome.DENIED),
        (InvalidRequest, Outcome.REFUSED),
        (AlreadyExists, Outcome.NAME_TAKEN),
    )
    return next((outcome for kind, outcome in kinds if isinstance(error, kind)), Outcome.FAILED)


def scope_of(error: CloudError, zone: str) -> str:
    """The region or zone whose quota is used up, as far as the error names one around `zone`.

    A name of somewhere else is not believed: it would have a place left alone for no reason.
    """
    if not isinstance(error, QuotaExceeded):
        return ""
    named = (error.facts.get("region"), error.facts.get("zone"))
    return next((str(one) for one in named if one in (region_of(zone), zone)), "")
