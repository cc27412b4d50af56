"""The lease of a project: the right to act for it, which expires."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a project by `holder`; `epoch` grows with each change of the holder.

    So writes of earlier holders can be detected.
    """

    project: str
    holder: str
    epoch: int
