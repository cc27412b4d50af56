"""Lists that come in pages: all pages or none, and the unreachable zones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any

from service.cloud.google.nodes import READ, from_message
from service.cloud.ports import Inventory, Sighting
from service.domain.errors import CloudUnavailable

PAGE_SIZE = 1_000
MAX_PAGES = 10_000
INVENTORY = (*(f"nodes.{field}" for field in READ), "nextPageToken", "unreachable")
"""The fields of a page of nodes that are read."""


def unwrap_pages(pages: Iterable[Any]) -> Iterator[Any]:
    """The protobuf messages behind proto-plus pages, which are five times cheaper to read."""
    return (type(page).pb(page) for page in pages)


def all_of(pages: Iterable[Any]) -> Iterator[Any]:
    """Yield the pages, fetched one by one. Raises CloudUnavailable if they would never end."""
    tokens: set[str] = set()
    for page in pages:
        yield page
        token = page.next_page_token
        if token in tokens or len(tokens) >= MAX_PAGES:
            raise CloudUnavailable(f"the list does not end: page {len(tokens) + 1} leads back")
        tokens.add(token)


def require_complete(pages: Iterable[Any]) -> Iterator[Any]:
    """Yield the pages of a list that must be complete. Raises CloudUnavailable if it is not."""
    for page in all_of(pages):
        if page.unreachable:
            raise CloudUnavailable(f"the list lacks {', '.join(page.unreachable)[:200]}")
        yield page


def build_inventory(project: str, pages: Iterable[Any]) -> Inventory:
    """All nodes on the pages (raw ListNodesResponse), not yet decoded.

    The digest covers the bytes with sorted map entries, whose order on the wire is not fixed. Page
    tokens are left out, because they may differ each time.
    """
    shown = list(all_of(pages))
    unreachable = {zone_of(entry) for page in shown for entry in page.unreachable}
    seal = blake2b(digest_size=16)
    for page in shown:
        page.ClearField("next_page_token")
        seal.update(page.SerializeToString(deterministic=True))
    return Inventory(
        project, seal.digest(), partial(_read_sightings, shown), frozenset(unreachable), len(shown)
    )


def _read_sightings(pages: Iterable[Any]) -> dict[str, Sighting]:
    nodes: dict[str, Sighting] = {}
    for page in pages:
        for node in page.nodes:
            shown = node.SerializeToString(deterministic=True)
            digest = blake2b(shown, digest_size=8).digest()
            nodes[node.name] = Sighting(digest, partial(from_message, node))
    return nodes


def zone_of(entry: str) -> str:
    """The zone of an `unreachable` entry: `projects/P/locations/Z`, a name below that, or `Z`.

    Raises CloudUnavailable for an entry without a zone: an inventory with an unknown gap must not
    pass for a complete one.
    """
    parts = entry.split("/")
    zone = parts[3] if parts[0] == "projects" and len(parts) > 3 else parts[-1]
    if zone.count("-") < 2:
        raise CloudUnavailable(f"the inventory lacks {entry[:200]!r}, which is no zone")
    return zone
