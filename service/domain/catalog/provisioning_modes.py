"""The rules of each provisioning model: directly or through the queue, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import Rejected

QUEUED_ONLY = frozenset({ProvisioningModel.RESERVED, ProvisioningModel.FLEX_START})
"""Provisioning models that are only available through queued resources."""

MAX_FLEX_SECONDS = 7 * 86_400
"""Google's limit for one flex-start run (Cloud TPU release notes, 2025-03-31)."""

MAX_SLICES = 256
"""More slices than any known request; the limit bounds the cost of one request."""


@dataclass(frozen=True, slots=True)
class ProvisioningTerms:
    """The terms of a request for hardware; with `queued` None the service decides."""

    model: ProvisioningModel
    queued: bool | None = None
    slices: int = 1
    reservation: str = ""
    ttl_seconds: int | None = None
    architecture: Architecture = Architecture.VM


def is_queued(terms: ProvisioningTerms) -> bool:
    """Whether a request needs a queued resource by the rules of its provisioning model. Raises
    Rejected if no tier allows the terms."""
    if terms.architecture is Architecture.NODE:
        return False  # `service.domain.nodes.legacy` has the other rules of legacy TPU Nodes
    needs = ""  # why the hardware is not available directly
    if terms.model in QUEUED_ONLY:
        needs = f"{terms.model} is available"
    elif terms.slices > 1:
        needs = "nodes of several slices are available"
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
    """Seconds that a node may run after READY under its provisioning model (None: without a limit),
    and warnings.

    Raises Rejected when the time is longer than the tier allows.
    """
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


def gives_up_at(created_at: int, max_wait_seconds: int | None, until: int | None) -> int | None:
    """When a node that is not READY is given up in any provisioning mode; None without a limit."""
    waited = None if max_wait_seconds is None else created_at + max_wait_seconds
    return min((end for end in (waited, until) if end is not None), default=None)
