"""The one way to tell the cloud to change something: only while the lease is held."""

from __future__ import annotations

from service.cloud.ports import TpuCloud
from service.domain.errors import LeaseLost
from service.domain.lease import Lease
from service.store.unit import Units


def commanded(cloud: TpuCloud, units: Units, lease: Lease) -> TpuCloud:
    """The cloud, for one command that is given now. Raises LeaseLost where another daemon holds the
    lease: that one looks for itself and decides what to do.

    Between this look and the command the lease may still be lost. So what is commanded is written
    down before, or is of a kind that does no harm when it comes late.
    """
    with units.reading() as unit:
        if not unit.leases.is_held(lease):
            raise LeaseLost(f"another daemon acts for project {lease.project} now")
    return cloud
