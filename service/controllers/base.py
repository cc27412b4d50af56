"""The Protocol of a controller: one tick over a project, safe to run twice, late, or never."""

from __future__ import annotations

from typing import Protocol

from service.domain.lease import Lease


class Controller(Protocol):
    """Compares requested with observed state, and takes one step for each difference."""

    name: str

    def tick(self, lease: Lease) -> None:
        """Run once over the lease's project. Every write fails once the lease is lost."""
        ...
