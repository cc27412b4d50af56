"""Route of the fleet: all that runs now, with its cost an hour."""

from __future__ import annotations

from pydantic import Field

from service.api.http.deps import HealthDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Time, Usd, View
from service.application.health import FleetHealth
from service.domain.clock import to_rfc3339
from service.domain.money import format_usd

router = Router(prefix="/v1/fleet", tags=["nodes"])


class FleetView(View):
    """The fleet as of now. The dashboard, the command line and `/metrics` show the same figures."""

    ready_nodes: int = Field(description="Nodes that are billed.", examples=[4])
    ready_chips: int = Field(description="Their chips.", examples=[32])
    hourly_cost: Usd = Field(
        description="What everything that is billed costs an hour, as far as prices are known:"
        " nodes, the VMs of their users, and reservations whether anything runs in them or not."
    )
    unused_reservations_hourly_cost: Usd = Field(
        description="The part of `hourly_cost` that is paid for reserved chips which no node uses."
    )
    reservations: int = Field(description="Reservations that are paid for now.", examples=[1])
    unpriced_nodes: int = Field(
        description="Billed nodes whose price is not known: they are not in `hourly_cost`.",
        examples=[0],
    )
    as_of: Time

    @classmethod
    def from_health(cls, fleet: FleetHealth) -> FleetView:
        """The view of the fleet."""
        return cls(
            ready_nodes=fleet.ready,
            ready_chips=fleet.chips,
            hourly_cost=format_usd(fleet.burn),
            unused_reservations_hourly_cost=format_usd(fleet.unused),
            reservations=fleet.reserved,
            unpriced_nodes=fleet.unpriced,
            as_of=to_rfc3339(fleet.as_of),
        )


@router.get("", operation_id="get_fleet", responses=may_answer(503))
def get_fleet(health: HealthDep) -> FleetView:
    """What runs now, in all, and what it costs an hour."""
    return FleetView.from_health(health.read_fleet())
