"""One sentence of a node's story, kept for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a node, when (whole UTC seconds), by whom, in a sentence.

    `kind` is a stable word to filter by; `facts` are plain JSON values.
    """

    node_id: str
    at: int
    kind: str
    message: str
    actor: str = "steward"
    facts: Mapping[str, object] = field(default_factory=dict)
