"""How long each kind of call may take, and which ones are tried again.

The client has no default timeout and no default retry on any TPU call, so every call is given both.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.api_core.exceptions import GatewayTimeout, ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one call may take: seconds in all, and how it is tried again (None: not at all)."""

    timeout: float
    retry: Retry | None = None


@dataclass(frozen=True, slots=True)
class Allowances:
    """The allowances of the kinds of call; of a list, each page has its own.

    `offers` is for what a zone has, which is asked for on the way to a create: that does without it
    where it is not to be had, so nobody waits for it to be tried again. `reports` is for the guest
    attributes of a machine: each try counts against Google's limit, and the next look is a try.
    """

    read: Allowance
    listing: Allowance
    reports: Allowance
    offers: Allowance
    write: Allowance
    create: Allowance


def _retried(seconds: float) -> Allowance:
    """At most `seconds` in all: no attempt begins within the last of them.

    (With less than one second left, the client would give an attempt the whole time once more.)

    Only "unavailable" and "too late" are tried again: they say that nothing was found out. An
    internal error may be a defect that comes back each time (AIP-194), and "too many" gets worse by
    asking again; for both the next tick is soon enough.
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
    read=_retried(30),
    listing=_retried(60),
    reports=Allowance(10),
    offers=Allowance(10),
    write=Allowance(30),
    create=Allowance(60),
)
"""For real clouds. What changes something is sent once: the controllers look before they repeat."""

ONCE = Allowances(
    read=Allowance(30),
    listing=Allowance(60),
    reports=Allowance(10),
    offers=Allowance(10),
    write=Allowance(30),
    create=Allowance(60),
)
"""Nothing is tried again, and so nothing ever sleeps: for a virtual clock."""
