"""The metadata of a node: one map, in which each of several writers owns some keys."""

from __future__ import annotations

from collections.abc import Mapping


def merge_metadata(there: Mapping[str, str], ours: Mapping[str, str | None]) -> dict[str, str]:
    """The metadata of a node: the map `there` with the values of `ours`. A key with the value None
    is removed.

    The cloud replaces the map as a whole, so a change of one key sends all others again.
    """
    kept = {key: value for key, value in there.items() if key not in ours}
    return {**kept, **{key: value for key, value in ours.items() if value is not None}}
