"""The right to act for a project, which runs out by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """Held by `holder` for a project; `epoch` grows with each change of hands.

    So a write by an earlier holder is told from one by the present holder.
    """

    project: str
    holder: str
    epoch: int
