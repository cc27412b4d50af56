"""Google's regions: their ids and their names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from service.domain.errors import Rejected
from service.domain.reference_tables import read_rows


@cache
def _names_by_region() -> dict[str, str]:
    return {row["region"]: row["name"] for row in read_rows("regions")}


def region_name(region: str) -> str:
    """The name of a Google region: `us-central1` is Iowa. The id itself for an unknown region."""
    return _names_by_region().get(region, region)


def region_named(name: str) -> str:
    """The id of the Google region with that name: Iowa is `us-central1`; empty if there is none."""
    return next((region for region, known in _names_by_region().items() if known == name), "")


def is_region(region: str) -> bool:
    """Whether a Google region of that id is known."""
    return region in _names_by_region()


def check_region(region: str, others: Iterable[str]) -> None:
    """Raise Rejected, with the `closest` ids, for a Google region neither known nor in `others`."""
    known = _names_by_region().keys() | set(others)
    if region in known:
        return
    closest = difflib.get_close_matches(region[:80].lower(), sorted(known), n=3)
    known_ones = "; GET /v1/catalog/zones lists those that have TPUs, as in us-west4"
    hint = f"; did you mean {' or '.join(closest)}?" if closest else known_ones
    raise Rejected(f"there is no region {region[:80]!r}{hint}", field="region", closest=closest)
