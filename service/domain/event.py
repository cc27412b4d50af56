"""Events of a node, which are kept forever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a node: one sentence, with its time (whole UTC seconds) and its actor.

    `kind` is a stable word to filter by; `facts` are plain JSON values.
    """

    node_id: str
    at: int
    kind: str
    message: str
    actor: str = "steward"
    facts: Mapping[str, object] = field(default_factory=dict)
