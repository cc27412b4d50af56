"""Lists that come in pages: all of them or none, and what they say nothing about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any

from service.cloud.google.nodes import READ, decoded
from service.cloud.ports import Inventory, Sighting
from service.domain.errors import CloudUnavailable

PAGE_SIZE = 1_000
MAX_PAGES = 10_000
INVENTORY = (*(f"nodes.{field}" for field in READ), "nextPageToken", "unreachable")
"""The fields of a page of nodes that are read."""


def raw(pages: Iterable[Any]) -> Iterator[Any]:
    """The protobuf messages behind proto-plus pages: reading those is five times cheaper."""
    return (type(page).pb(page) for page in pages)


def all_of(pages: Iterable[Any]) -> Iterator[Any]:
    """The pages, fetched one by one. Raises CloudUnavailable when they would never end."""
    tokens: set[str] = set()
    for page in pages:
        yield page
        token = page.next_page_token
        if token in tokens or len(tokens) >= MAX_PAGES:
            raise CloudUnavailable(f"the list does not end: page {len(tokens) + 1} leads back")
        tokens.add(token)


def complete(pages: Iterable[Any]) -> Iterator[Any]:
    """The pages of a list that must have everything; CloudUnavailable when it says it has not."""
    for page in all_of(pages):
        if page.unreachable:
            raise CloudUnavailable(f"the list lacks {', '.join(page.unreachable)[:200]}")
        yield page


def inventory(project: str, pages: Iterable[Any]) -> Inventory:
    """All nodes on the pages (raw ListNodesResponse), not yet read.

    The digest is over the bytes in a fixed order of map entries, which the wire has not, and leaves
    out the page tokens, which may differ each time.
    """
    shown = list(all_of(pages))
    unreachable = {zone_of(entry) for page in shown for entry in page.unreachable}
    seal = blake2b(digest_size=16)
    for page in shown:
        page.ClearField("next_page_token")
        seal.update(page.SerializeToString(deterministic=True))
    return Inventory(
        project, seal.digest(), partial(_sightings, shown), frozenset(unreachable), len(shown)
    )


def _sightings(pages: Iterable[Any]) -> dict[str, Sighting]:
    nodes: dict[str, Sighting] = {}
    for page in pages:
        for node in page.nodes:
            shown = node.SerializeToString(deterministic=True)
            digest = blake2b(shown, digest_size=8).digest()
            nodes[node.name] = Sighting(digest, partial(decoded, node))
    return nodes


def zone_of(entry: str) -> str:
    """The zone of an `unreachable` entry: `projects/P/locations/Z`, something below that, or `Z`.

    Raises CloudUnavailable for one that names no zone: an inventory that cannot say what it lacks
    must not pass for one that lacks nothing.
    """
    parts = entry.split("/")
    zone = parts[3] if parts[0] == "projects" and len(parts) > 3 else parts[-1]
    if zone.count("-") < 2:
        raise CloudUnavailable(f"the inventory lacks {entry[:200]!r}, which is no zone")
    return zone
