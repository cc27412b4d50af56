"""Decides whether a zone offers the type and the image of a node, by the zone's own lists. Pure.

The catalogue that ships with the service says which types and images fit together. The offers of a
zone change, and the cloud refuses a missing image late, with an unclear error or not at all.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.clock import HOUR, MINUTE
from service.domain.errors import InvalidRequest
from service.domain.nodes.node import NodeSpec

KEEP_SECONDS = HOUR
"""Maximum age in seconds of a list that allows a request."""

DOUBT_SECONDS = MINUTE
"""Maximum age in seconds of a list that refuses a request; an older list is read again first."""

WITHOUT_SECONDS = 5 * MINUTE
"""Seconds until an unavailable list is read again."""

_CLOSEST = 3


@dataclass(frozen=True, slots=True)
class OfferedTypes:
    """The lists of one zone at `as_of`, for one architecture. An empty list was not available."""

    runtime_versions: Sequence[str]
    accelerator_types: Sequence[str]
    as_of: int

    def is_fresh(self, now: int, seconds: int) -> bool:
        """Whether the lists are younger than `seconds`; WITHOUT_SECONDS counts if one is empty."""
        limit = seconds if self.runtime_versions and self.accelerator_types else WITHOUT_SECONDS
        return now - self.as_of < limit


def find_refusal(spec: NodeSpec, zone: str, offered: OfferedTypes) -> InvalidRequest | None:
    """Why a zone does not offer what a node needs, with the nearest names it lists. None if it can
    create the node."""
    wanted = (
        ("accelerator type", spec.accelerator_type, offered.accelerator_types),
        ("runtime version", spec.runtime_version, offered.runtime_versions),
    )
    for noun, name, there in wanted:
        if there and name not in there:
            closest = difflib.get_close_matches(name, there, n=_CLOSEST, cutoff=0)
            hint = f"; the nearest that it has: {', '.join(closest)}"
            return InvalidRequest(f"{zone} does not list the {noun} {name}{hint}", closest=closest)
    return None
