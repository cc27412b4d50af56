"""The metadata of a node: one map, of which several writers own some keys each."""

from __future__ import annotations

from collections.abc import Mapping


def merged(there: Mapping[str, str], ours: Mapping[str, str | None]) -> dict[str, str]:
    """The map `there` with our keys set to our values; a key of ours that is None is removed.

    The cloud replaces the map as a whole, so a change of one key sends all the others again.
    """
    kept = {key: value for key, value in there.items() if key not in ours}
    return {**kept, **{key: value for key, value in ours.items() if value is not None}}
