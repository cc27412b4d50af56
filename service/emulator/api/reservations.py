"""Reservations as v2alpha1 lists them, with what is used of them at the moment."""

from __future__ import annotations

from service.emulator.clock import stamp
from service.emulator.config.reservations import Reserved
from service.emulator.limits.capacity import Kind, kind_of
from service.emulator.names import Place
from service.emulator.wire import NodeMessage, TpuV2Alpha1
from service.emulator.world.world import World


def under(world: World, place: Place, now: float) -> list[NodeMessage]:
    """List those of a zone, or of every zone, by name."""
    found = [
        _shown(world, each, place.project, now)
        for each in world.config.reservations
        if place.everywhere or each.zone == place.zone
    ]
    return sorted(found, key=lambda each: str(each.name))


def _shown(world: World, reserved: Reserved, project: str, now: float) -> NodeMessage:
    place = Place(project, reserved.zone)
    shown = TpuV2Alpha1.Reservation(
        name=place.child("reservations", reserved.name),
        state=reserved.state(now),
        standard={
            "size": reserved.chips,
            "capacity_units": "CHIPS",
            "resource_type": reserved.generation,
            "usage": {"total": _used(world, reserved)},
        },
    )
    interval = shown.standard.interval
    if reserved.start is not None:
        interval.start_time.CopyFrom(stamp(reserved.start))
    if reserved.end is not None:
        interval.end_time.CopyFrom(stamp(reserved.end))
    return shown


def _used(world: World, reserved: Reserved) -> int:
    kind = Kind(reserved.zone, reserved.generation, "reserved")
    holders = (each for each in world.nodes.values() if each.holds_hardware)
    return sum(each.accelerator.chips for each in holders if kind_of(each) == kind)
