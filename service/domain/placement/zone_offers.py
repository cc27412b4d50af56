"""Whether a zone has what a node needs, by the zone's own lists. Pure.

The catalogue that ships with the service says what goes together. What a zone really has changes,
and an image that it lacks is refused late, obscurely or not at all.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.clock import HOUR, MINUTE
from service.domain.errors import InvalidRequest
from service.domain.nodes.node import NodeSpec

KEEP_SECONDS = HOUR
"""How long a list is good enough to say yes by."""

DOUBT_SECONDS = MINUTE
"""How old a list may be to say no by; an older one is asked for anew first."""

WITHOUT_SECONDS = 5 * MINUTE
"""How long one does without a list that was not to be had."""

_CLOSEST = 3


@dataclass(frozen=True, slots=True)
class OfferedTypes:
    """What one zone listed at `as_of`, for one architecture. An empty list is none at all."""

    runtime_versions: Sequence[str]
    accelerator_types: Sequence[str]
    as_of: int

    def is_fresh(self, now: int, seconds: int) -> bool:
        """Whether it is younger than that, or than what one does without for."""
        limit = seconds if self.runtime_versions and self.accelerator_types else WITHOUT_SECONDS
        return now - self.as_of < limit


def refusal(spec: NodeSpec, zone: str, offered: OfferedTypes) -> InvalidRequest | None:
    """Why the zone cannot make such a node, with the nearest names that it has; None if it can."""
    wanted = (
        ("accelerator type", spec.accelerator_type, offered.accelerator_types),
        ("runtime version", spec.runtime_version, offered.runtime_versions),
    )
    for noun, name, there in wanted:
        if there and name not in there:
            return _lacks(noun, name, zone, there)
    return None


def _lacks(noun: str, name: str, zone: str, there: Sequence[str]) -> InvalidRequest:
    closest = difflib.get_close_matches(name, there, n=_CLOSEST, cutoff=0)
    hint = f"; the nearest that it has: {', '.join(closest)}"
    return InvalidRequest(f"{zone} does not list the {noun} {name}{hint}", closest=closest)
