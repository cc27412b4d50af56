"""The upcoming maintenance of a node, and the rule which of them may be started by hand."""

from __future__ import annotations

import math

from service.emulator.catalog import Accelerator
from service.emulator.clock import LAST_MOMENT, to_timestamp
from service.emulator.errors import precondition_failed
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.schema import kept_class
from service.emulator.wire import NodeMessage, copy_message
from service.emulator.world.world import World

SOLID = {"v4", "v5p"}
FLAT = {"v5e", "v6e"}
FLAT_CHIPS = 8
"""The chips of a 2x4 topology."""


def starts_by_hand(accelerator: Accelerator) -> bool:
    """Whether a maintenance may be started early: any v4 and v5p, and v5e and v6e from 2x4 on.

    Google documents this rule.
    """
    return accelerator.generation in SOLID or (
        accelerator.generation in FLAT and accelerator.chips >= FLAT_CHIPS
    )


def require_startable(record: NodeRecord) -> None:
    """Raise ApiError for a node that is too small to start maintenance, or has none upcoming."""
    if not starts_by_hand(record.accelerator):
        raise precondition_failed(
            f"Maintenance of {record.accelerator.name} cannot be started by hand: that is for v4"
            " and v5p, and for v5e and v6e of 2x4 and more."
        )
    if record.maintenance is None:
        raise precondition_failed(f"There is no upcoming maintenance for {record.name}.")


def describe_upcoming(record: NodeRecord, now: float) -> NodeMessage:
    """Describe the maintenance that is announced or in progress; None if there is none."""
    if record.maintenance is None:
        return None
    start, end = record.maintenance
    pending = now < start
    return kept_class("UpcomingMaintenance")(
        type_="SCHEDULED",
        can_reschedule=pending and starts_by_hand(record.accelerator),
        window_start_time=to_timestamp(start).ToJsonString(),
        window_end_time=to_timestamp(end).ToJsonString(),
        latest_window_start_time=to_timestamp(start).ToJsonString(),
        maintenance_status="PENDING" if pending else "ONGOING",
    )


def with_forecast(world: World, name: str, shown: NodeMessage, now: float) -> NodeMessage:
    """Return a copy of a node with its upcoming maintenance and the end of its run.

    A node with neither is returned itself, not as a copy.
    """
    record = world.nodes.get(name)
    if record is None or (record.maintenance is None and not record.queued_resource):
        return shown
    forecast = kept_class("Node")(upcoming_maintenance=describe_upcoming(record, now))
    queued = world.queue.records.get(record.queued_resource)
    run_ends = math.inf if queued is None or queued.curfew is None else queued.run_ends
    if run_ends <= LAST_MOMENT:
        at = to_timestamp(run_ends)
        forecast.scheduling_config.termination_timestamp.FromJsonString(at.ToJsonString())
    added = copy_message(shown)
    added.MergeFromString(forecast.SerializeToString())
    return added
