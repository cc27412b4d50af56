"""Links in messages that keep or delete a node with one click. Pure.

Whoever has the link may use it, so it is long, works once, and means one verdict on one incarnation
of one node. Only its hash is stored. Looking at a link changes nothing: mail programs do that too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from service.domain.clock import DAY

BYTES = 32
"""256 random bits."""

LIFE_SECONDS = 2 * DAY


class Verb(StrEnum):
    """What a link does."""

    KEEP = "keep"
    DELETE = "delete"


class Refusal(StrEnum):
    """Why a link does nothing any more."""

    USED = "this link was used before"
    EXPIRED = "this link has expired"
    ANOTHER = "the node was made again since: this link is about the one before"
    SINCE_BUSY = "the node was at work since this message was written"
    ENDED = "the node no longer exists"


@dataclass(frozen=True, slots=True)
class Link:
    """One link, by the hash of its token. `notified_at` is when the verdict was told that it is
    about."""

    token_hash: str
    verb: Verb
    node_id: str
    incarnation: int
    notified_at: int
    expires_at: int
    used_at: int | None = None
    version: int = 0


def hash_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def refusal(
    link: Link, *, incarnation: int, notified_at: int | None, ended: bool, now: int
) -> Refusal | None:
    """Why the link does nothing; None where it works. The node is given as it is now."""
    checks = (
        (link.used_at is not None, Refusal.USED),
        (now >= link.expires_at, Refusal.EXPIRED),
        (ended, Refusal.ENDED),
        (incarnation != link.incarnation, Refusal.ANOTHER),
        (notified_at != link.notified_at, Refusal.SINCE_BUSY),
    )
    return next((why for holds, why in checks if holds), None)
