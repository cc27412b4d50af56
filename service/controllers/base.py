"""What every controller is: one tick over a project, safe to run twice, late, or never."""

from __future__ import annotations

from typing import Protocol

from service.domain.lease import Lease


class Controller(Protocol):
    """Compares what is asked with what is seen, and takes one step for whatever differs."""

    name: str

    def tick(self, lease: Lease) -> None:
        """One run over the lease's project. Every write in it fails once the lease is lost."""
        ...
