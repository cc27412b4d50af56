"""Controllers: their tick, safe to run twice, late, or never, and the lease of their commands."""

from __future__ import annotations

from typing import Protocol

from service.cloud.ports import TpuCloud
from service.domain.errors import LeaseLost
from service.domain.lease import Lease
from service.store.unit import Units


class Controller(Protocol):
    """Compares requested with observed state, and takes one step for each difference."""

    name: str

    def tick(self, lease: Lease) -> None:
        """Run once over the lease's project. Every write fails once the lease is lost."""
        ...


def cloud_under_lease(cloud: TpuCloud, units: Units, lease: Lease) -> TpuCloud:
    """Return the cloud for one command that follows at once. Raises LeaseLost if another daemon
    holds the lease: that daemon decides by itself.

    The lease may still be lost between this check and the command. So a command is either recorded
    before it is sent, or harmless when it arrives late.
    """
    with units.reading() as unit:
        if not unit.leases.is_held(lease):
            raise LeaseLost(f"another daemon acts for project {lease.project} now")
    return cloud
