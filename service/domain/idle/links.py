"""Links in messages that keep or delete a node with one click. Pure.

Everybody with the link may use it, so a link is long, works once, and is for one verdict on one
incarnation of one node. A stored message only promises its links: each try to send the message
makes new ones, and only their hashes are stored. Opening a link changes nothing: mail programs open
links too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.domain.clock import DAY, HOUR

BYTES = 32
"""256 random bits."""

LIFE_SECONDS = 2 * DAY

KEEP_SECONDS = 4 * HOUR
"""Seconds for which a link keeps a node."""


class Verb(StrEnum):
    """What a link does."""

    KEEP = "keep"
    DELETE = "delete"


class LinkRefusal(StrEnum):
    """Why a link does nothing any more."""

    USED = "this link was used before"
    EXPIRED = "this link has expired"
    ANOTHER = "the node was created again since, and this link is for the earlier one"
    SINCE_BUSY = "the node was active since this message was written"
    ENDED = "the node no longer exists"
    ENDING = "the node is already being deleted"


@dataclass(frozen=True, slots=True)
class LinkPromise:
    """What the links of a message are for: a verdict on an incarnation of a node, notified at
    `notified_at`. `public_url` is the address of the API."""

    node_id: str
    incarnation: int
    notified_at: int
    public_url: str


@dataclass(frozen=True, slots=True)
class Link:
    """One link, by the hash of its token. `notified_at` is when its verdict was notified.

    The links of one verdict and one verb are used together: `used_at` is when the first was used.
    """

    token_hash: str
    verb: Verb
    node_id: str
    incarnation: int
    notified_at: int
    expires_at: int
    used_at: int | None = None
    version: int = 0


def make_links(
    promise: LinkPromise, now: int, make_token: Callable[[], str]
) -> tuple[Mapping[Verb, str], Sequence[Link]]:
    """Return the addresses of a message's links, one for each verb, and the links to store.
    `make_token` returns 256 random bits as text for an address."""
    tokens = {verb: make_token() for verb in Verb}
    base = promise.public_url.rstrip("/")
    addresses = {verb: f"{base}/links/{token}" for verb, token in tokens.items()}
    bound = promise.node_id, promise.incarnation, promise.notified_at
    links = [
        Link(hash_of(token), verb, *bound, now + LIFE_SECONDS) for verb, token in tokens.items()
    ]
    return addresses, links


def hash_of(token: str) -> str:
    """Return the hash of a link's token, which is stored in its place."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def find_refusal(
    link: Link,
    *,
    incarnation: int,
    notified_at: int | None,
    ended: bool,
    now: int,
    ending: bool = False,
) -> LinkRefusal | None:
    """Return why a link in a message no longer works; None where it works. The arguments are of the
    node as it is now: `ending` says that its deletion was requested, `ended` that it no longer
    exists."""
    checks = (
        (link.used_at is not None, LinkRefusal.USED),
        (now >= link.expires_at, LinkRefusal.EXPIRED),
        (ended, LinkRefusal.ENDED),
        (ending, LinkRefusal.ENDING),
        (incarnation != link.incarnation, LinkRefusal.ANOTHER),
        (notified_at != link.notified_at, LinkRefusal.SINCE_BUSY),
    )
    return next((why for holds, why in checks if holds), None)
