"""Timeouts and retries of each kind of call.

The client has no default timeout and no default retry for any TPU call, so every call gets both.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.api_core.exceptions import GatewayTimeout, ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one call: its total seconds, and its retry policy (None: no retry)."""

    timeout: float
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class Allowances:
    """The allowances of the kinds of call; each page of a list has its own.

    `offers` is for the lists of a zone, which are read before a create: the create goes on without
    them, so they are not retried. `reports` is for the guest attributes of a machine: each try
    counts against Google's limit, and the next tick is a retry.
    """

    read: Allowance
    listing: Allowance
    reports: Allowance
    offers: Allowance
    write: Allowance
    create: Allowance


def _with_retries(seconds: float) -> Allowance:
    """At most `seconds` in total: no attempt begins within the last second.

    (With less than one second left, the client would give an attempt the whole time again.)

    Only UNAVAILABLE and DEADLINE_EXCEEDED are retried: their outcome is unknown. An internal error
    may be a permanent defect (AIP-194), and a rate limit gets worse with each retry; for both the
    next tick is soon enough.
    """
    return Allowance(
        seconds,
        Retry(
            predicate=if_exception_type(ServiceUnavailable, GatewayTimeout),
            initial=0.25,
            maximum=5.0,
            multiplier=2.0,
            timeout=seconds - 1,
        ),
    )


PATIENT = Allowances(
    read=_with_retries(30),
    listing=_with_retries(60),
    reports=Allowance(10),
    offers=Allowance(10),
    write=Allowance(30),
    create=Allowance(60),
)
"""For real clouds. A change is sent once: the controllers look before they repeat it."""

ONCE = Allowances(
    read=Allowance(30),
    listing=Allowance(60),
    reports=Allowance(10),
    offers=Allowance(10),
    write=Allowance(30),
    create=Allowance(60),
)
"""Without retries, so that nothing ever sleeps: for a virtual clock."""
