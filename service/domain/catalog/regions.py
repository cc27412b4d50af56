"""Google's regions: what it calls them when it speaks to people, and what is none of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from service.domain.errors import Rejected
from service.domain.reference_tables import rows


@cache
def _names() -> dict[str, str]:
    return {row["region"]: row["name"] for row in rows("regions")}


def region_name(region: str) -> str:
    """`us-central1` is Iowa; a region that opened since is called by its id."""
    return _names().get(region, region)


@cache
def _ids() -> dict[str, str]:
    return {name: region for region, name in _names().items()}


def region_named(name: str) -> str:
    """The region that people call by that name: Iowa is `us-central1`; empty if there is none."""
    return _ids().get(name, "")


def is_region(region: str) -> bool:
    """Whether Google has a region of that id, as far as is known."""
    return region in _names()


def check_region(region: str, others: Iterable[str]) -> None:
    """Raise Rejected, with the `closest`, for what is neither a region as far as is known nor one
    of the `others`."""
    known = _names().keys() | set(others)
    if region in known:
        return
    closest = difflib.get_close_matches(region[:80].lower(), sorted(known), n=3)
    known_ones = "; GET /v1/catalog/zones lists those that have TPUs, as in us-west4"
    hint = f"; did you mean {' or '.join(closest)}?" if closest else known_ones
    raise Rejected(f"there is no region {region[:80]!r}{hint}", field="region", closest=closest)
