"""Where a node is tried next, and how long to wait before that."""

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

ROUND_DELAYS = (30, 60, 120, 300, 600)
"""Seconds to wait before all candidate zones are tried over again, by the rounds made so far."""


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
class Placement:
    """One attempt to get a node in one zone: when, how it ended, why."""

    node_id: str
    attempt: int
    zone: str
    model: str
    cloud_id: str
    started_at: int
    outcome: Outcome = Outcome.OPEN
    reason: str = ""
    ended_at: int | None = None


def zone_for(zones: tuple[str, ...], attempt: int) -> str:
    """The zone of an attempt (from 1): the candidates in their order, round after round."""
    return zones[(attempt - 1) % len(zones)]


def delay_before(zones: tuple[str, ...], attempt: int) -> int:
    """Seconds to wait before an attempt is sent: none within a round, ever more between rounds."""
    done, position = divmod(attempt - 1, len(zones))
    if done == 0 or position:
        return 0
    return ROUND_DELAYS[min(done, len(ROUND_DELAYS)) - 1]


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
