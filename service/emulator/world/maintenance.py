"""What a node shows of the maintenance to come, and who may start it by hand."""

from __future__ import annotations

import math

from service.emulator.catalog import Accelerator
from service.emulator.clock import LAST_MOMENT, stamp
from service.emulator.errors import precondition_failed
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.schema import kept_class
from service.emulator.wire import NodeMessage, copied
from service.emulator.world.world import World

SOLID = {"v4", "v5p"}
FLAT = {"v5e", "v6e"}
FLAT_CHIPS = 8
"""Those of a 2x4."""


def starts_by_hand(accelerator: Accelerator) -> bool:
    """Say whether its owner may start a maintenance early, as Google documents it.

    Any v4 and v5p, and v5e and v6e from 2x4 on.
    """
    return accelerator.generation in SOLID or (
        accelerator.generation in FLAT and accelerator.chips >= FLAT_CHIPS
    )


def require_startable(record: NodeRecord) -> None:
    """Refuse a maintenance by hand of what has none to come, or is too small for it."""
    if not starts_by_hand(record.accelerator):
        raise precondition_failed(
            f"Maintenance of {record.accelerator.name} cannot be started by hand: that is for v4"
            " and v5p, and for v5e and v6e of 2x4 and more."
        )
    if record.maintenance is None:
        raise precondition_failed(f"There is no upcoming maintenance for {record.name}.")


def upcoming(record: NodeRecord, now: float) -> NodeMessage:
    """Describe the maintenance that is announced or under way; None if there is none."""
    if record.maintenance is None:
        return None
    start, end = record.maintenance
    pending = now < start
    return kept_class("UpcomingMaintenance")(
        type_="SCHEDULED",
        can_reschedule=pending and starts_by_hand(record.accelerator),
        window_start_time=stamp(start).ToJsonString(),
        window_end_time=stamp(end).ToJsonString(),
        latest_window_start_time=stamp(start).ToJsonString(),
        maintenance_status="PENDING" if pending else "ONGOING",
    )


def with_forecast(world: World, name: str, shown: NodeMessage, now: float) -> NodeMessage:
    """Add to a node what is to happen to it: its maintenance, and the end of its run.

    A node to which nothing will happen is handed out as it is, not as a copy.
    """
    record = world.nodes.get(name)
    if record is None or (record.maintenance is None and not record.queued_resource):
        return shown
    forecast = kept_class("Node")(upcoming_maintenance=upcoming(record, now))
    run_ends = _run_ends(world, record)
    if run_ends <= LAST_MOMENT:
        at = stamp(run_ends)
        forecast.scheduling_config.termination_timestamp.FromJsonString(at.ToJsonString())
    added = copied(shown)
    added.MergeFromString(forecast.SerializeToString())
    return added


def _run_ends(world: World, record: NodeRecord) -> float:
    queued = world.queue.records.get(record.queued_resource)
    return math.inf if queued is None or queued.curfew is None else queued.run_ends
