"""What Google calls its regions when it speaks to people."""

from __future__ import annotations

from functools import cache

from service.domain.tables import rows


@cache
def _names() -> dict[str, str]:
    return {row["region"]: row["name"] for row in rows("regions")}


def region_name(region: str) -> str:
    """`us-central1` is Iowa; a region that opened since is called by its id."""
    return _names().get(region, region)


def is_region(region: str) -> bool:
    """Whether Google has a region of that id, as far as is known."""
    return region in _names()
