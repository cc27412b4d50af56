"""Reservations as v2alpha1 lists them, with their present usage."""

from __future__ import annotations

from service.emulator.clock import to_timestamp
from service.emulator.limits.capacity import Kind, kind_of
from service.emulator.names import Place
from service.emulator.wire import NodeMessage, TpuV2Alpha1
from service.emulator.world.world import World


def list_reservations(world: World, place: Place, now: float) -> list[NodeMessage]:
    """Return the reservations of a zone, or of every zone, sorted by name."""
    found = []
    for reserved in world.config.reservations:
        if not place.is_wildcard and reserved.zone != place.zone:
            continue
        kind = Kind(reserved.zone, reserved.generation, "reserved")
        holders = (node for node in world.nodes.values() if node.holds_hardware)
        used = sum(node.accelerator.chips for node in holders if kind_of(node) == kind)
        shown = TpuV2Alpha1.Reservation(
            name=Place(place.project, reserved.zone).child_name("reservations", reserved.name),
            state=reserved.state_at(now),
            standard={
                "size": reserved.chips,
                "capacity_units": "CHIPS",
                "resource_type": reserved.generation,
                "usage": {"total": used},
            },
        )
        interval = shown.standard.interval
        if reserved.start is not None:
            interval.start_time.CopyFrom(to_timestamp(reserved.start))
        if reserved.end is not None:
            interval.end_time.CopyFrom(to_timestamp(reserved.end))
        found.append(shown)
    return sorted(found, key=lambda reservation: str(reservation.name))
