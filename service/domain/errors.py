"""The errors of the service, named by the caller's next action; independent of HTTP."""

from __future__ import annotations


class StewardError(Exception):
    """An error whose message says what is wrong, and whose facts say what to do about it.

    `facts` are plain JSON values such as `compatible=[...]` or `offered_in=[...]`. They are part of
    the answer, so they never contain a secret.
    """

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = facts


class NotFound(StewardError):
    """The resource does not exist, or the caller may not see it."""


class Conflict(StewardError):
    """The request conflicts with the present state: read the state again, then decide."""


class StaleVersion(Conflict):
    """The row was changed concurrently; the work is repeated at the next tick."""


class LeaseLost(Conflict):
    """Another daemon holds the lease of the project now; the pending write is dropped."""


class Rejected(StewardError):
    """The request is invalid: change it as the facts say."""


class UnknownAcceleratorType(Rejected):
    """The accelerator type does not exist; `closest` has similar names."""


class NotOffered(Rejected):
    """The type is not offered in the requested place; `offered_in` has the places that offer it."""


class RuntimeMismatch(Rejected):
    """The runtime version does not fit the hardware; `compatible` has versions that do."""


class QuotaTooSmall(Rejected):
    """The request exceeds the quota in every possible place.

    `quotas` are the limits, `other_zones` are zones without a known limit that is too small:
    request more quota from Google, or change the request.
    """


class ImageNotFound(Rejected):
    """The registry does not have `image`: correct the name, the tag or the digest."""


class ImageDenied(Rejected):
    """The registry denies the service access to `image`: grant access."""


class NoSuchPlatform(Rejected):
    """The image is not built for the platform of the requested nodes.

    It is built for `platforms`: build it for `wanted` too, or request other nodes.
    """


class TokenRefused(StewardError):
    """The caller's token is invalid, expired or for another purpose: use another token."""


class BudgetExceeded(StewardError):
    """The request would exceed a budget."""


class CloudError(StewardError):
    """The cloud did not do what was requested; the subclasses say what to do next."""


class CapacityUnavailable(CloudError):
    """The zone has no capacity now: try another zone, or retry later."""


class QuotaExceeded(CloudError):
    """The project's quota is exceeded: stop trying in that place for a while."""


class RateLimited(CloudError):
    """Too many calls were sent: retry the same call later."""


class CloudUnavailable(CloudError):
    """No usable answer: *unknown* whether the call took effect. Read the state before a retry."""


class NotAllowed(CloudError):
    """The service's own credentials lack permission: tell a human."""


class InvalidRequest(CloudError):
    """The cloud will never accept this request: give up, and say why."""


class AlreadyExists(CloudError):
    """The name is taken: find out who owns it."""


class CloudNotFound(CloudError):
    """The cloud does not have the resource."""


class StoreUnavailable(StewardError):
    """The database is unusable: missing, not migrated, locked or read-only."""
