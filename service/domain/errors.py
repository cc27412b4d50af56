"""The errors of the house, named by what the caller should do next; they know nothing of HTTP."""

from __future__ import annotations


class StewardError(Exception):
    """An error whose message says what is wrong, and whose facts say what to do about it.

    `facts` are plain JSON values such as `compatible=[...]` or `offered_in=[...]`; they go into the
    answer as they are, so they never hold a secret.
    """

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = facts


class NotFound(StewardError):
    """There is no such thing, or none that the caller may see."""


class Conflict(StewardError):
    """The wish contradicts what is there now; look again, then decide."""


class StaleVersion(Conflict):
    """Someone else changed the same row first; the work is redone at the next tick."""


class LeaseLost(Conflict):
    """Another daemon acts for this project now; what was about to be written is dropped."""


class Rejected(StewardError):
    """The wish can never be granted as it was said; change it as the facts tell."""


class UnknownAcceleratorType(Rejected):
    """No such accelerator type; `closest` names the ones that look like it."""


class NotOffered(Rejected):
    """The type exists, but not where it was asked for; `offered_in` says where it does."""


class RuntimeMismatch(Rejected):
    """The runtime version does not fit the generation; `compatible` names those that do."""


class QuotaTooSmall(Rejected):
    """Google allows the project less than that wherever it may be made; `quotas` name the limits,
    `other_zones` where none is known: ask Google for more, or for something else here."""


class ImageNotFound(Rejected):
    """The registry has no such image; `image` names it: correct the name, the tag or the digest."""


class ImageDenied(Rejected):
    """The registry does not show the image to the service; `image` names it: grant access."""


class NoSuchPlatform(Rejected):
    """The image is not built for the nodes that were asked for; `platforms` says for which it is:
    build it for `wanted` as well, or ask for other nodes."""


class TokenRefused(StewardError):
    """The caller's token is good for something else, or no longer for anything; use another."""


class BudgetExceeded(StewardError):
    """Granting the wish would spend more than a budget allows."""


class CloudError(StewardError):
    """The cloud did not do what it was asked; the subclasses say what to do next."""


class CapacityUnavailable(CloudError):
    """No hardware there now: try another zone, or the same one later."""


class QuotaExceeded(CloudError):
    """The project may not have more there: stop trying in that place for a while."""


class RateLimited(CloudError):
    """Too many calls: the same call is right, later."""


class CloudUnavailable(CloudError):
    """No usable answer. Whether the call took effect is *not known*: look before trying again."""


class NotAllowed(CloudError):
    """The service's own credentials may not do this: tell a human."""


class InvalidRequest(CloudError):
    """The cloud will never accept this request: give up, and say why."""


class AlreadyExists(CloudError):
    """The name is taken: look whose it is."""


class CloudNotFound(CloudError):
    """The cloud has no such thing."""


class StoreUnavailable(StewardError):
    """The database cannot be used: missing, not migrated, locked or read-only."""
