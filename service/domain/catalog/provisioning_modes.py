"""How hardware of each provisioning model may be had: directly or through the queue, how long."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.clock import rfc3339
from service.domain.errors import Rejected

QUEUED_ONLY = frozenset({ProvisioningModel.RESERVED, ProvisioningModel.FLEX_START})
"""What Google hands out through queued resources alone."""

MAX_FLEX_SECONDS = 7 * 86_400
"""Google's limit for one flex-start run (Cloud TPU release notes, 2025-03-31)."""

MAX_SLICES = 256
"""More than anybody has been seen to ask for; it bounds what one request can cost."""


@dataclass(frozen=True, slots=True)
class ProvisioningTerms:
    """How a wish asks for its hardware; `queued` None leaves that to the service."""

    model: ProvisioningModel
    queued: bool | None = None
    slices: int = 1
    reservation: str = ""
    ttl_seconds: int | None = None
    architecture: Architecture = Architecture.VM


def is_queued(terms: ProvisioningTerms) -> bool:
    """Whether it goes through a queued resource. Raises Rejected for what no tier allows."""
    if terms.architecture is Architecture.NODE:
        return False  # `service.domain.nodes.legacy` says what else those can be asked for
    needs = _needs_the_queue(terms)
    if terms.queued is False and needs:
        raise Rejected(f"{needs} only through a queued resource; leave out queued", field="queued")
    if terms.model is ProvisioningModel.PREEMPTIBLE and (terms.queued or needs):
        raise Rejected(
            "queued resources have no preemptible tier; use spot, which is the same hardware"
            " without the limit of 24 hours",
            field="provisioning_model",
        )
    if terms.reservation and terms.model is not ProvisioningModel.RESERVED:
        raise Rejected("a reservation needs provisioning_model reserved", field="reservation")
    return bool(terms.queued or needs)


def run_limit(terms: ProvisioningTerms) -> tuple[int | None, tuple[str, ...]]:
    """Seconds after READY at which it goes, and what to tell of that. Raises Rejected when it is
    longer than the tier allows."""
    if terms.model is not ProvisioningModel.FLEX_START:
        return terms.ttl_seconds, ()
    if terms.ttl_seconds is None:
        told = "flex-start runs at most 7 days and is deleted then; set ttl_seconds to shorten it"
        return MAX_FLEX_SECONDS, (told,)
    if terms.ttl_seconds > MAX_FLEX_SECONDS:
        raise Rejected(
            f"flex-start runs at most {MAX_FLEX_SECONDS} seconds (7 days)",
            field="ttl_seconds",
            longest=MAX_FLEX_SECONDS,
        )
    return terms.ttl_seconds, ()


def check_times(valid_until: int | None, max_wait_seconds: int | None, now: int) -> None:
    """Refuse a deadline that is said twice, or that has passed."""
    if valid_until is None:
        return
    if max_wait_seconds is not None:
        raise Rejected("give valid_until or max_wait_seconds, not both", field="valid_until")
    if valid_until <= now:
        raise Rejected(
            f"valid_until {rfc3339(valid_until)} has passed: it is {rfc3339(now)}",
            field="valid_until",
            now=rfc3339(now),
        )


def gives_up_at(created_at: int, max_wait_seconds: int | None, until: int | None) -> int | None:
    """When nobody needs a node any more that is not READY by then; None where nobody said."""
    waited = None if max_wait_seconds is None else created_at + max_wait_seconds
    return min((end for end in (waited, until) if end is not None), default=None)


def _needs_the_queue(terms: ProvisioningTerms) -> str:
    """Why it cannot be had directly; empty when it can."""
    if terms.model in QUEUED_ONLY:
        return f"{terms.model} is available"
    return "nodes of several slices are available" if terms.slices > 1 else ""
