"""The metadata about maintenance of a worker's host, before and during the maintenance."""

from __future__ import annotations

from datetime import UTC, datetime

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.wire import Node
from service.emulator.workers.tree import Json, TreeRefusal
from service.emulator.world.maintenance import starts_by_hand

# Google documents that `maintenance-event` changes a minute before the start.
NOTICE_SECONDS = 60
# Google documents the text; the status 503 was seen in the field.
NO_NOTICE = TreeRefusal(
    503,
    '{ "error": "no notifications have been received yet, try again later" }',
    "application/json",
)


def maintenance_event(record: NodeRecord, now: float, speed: float) -> str:
    """Return `maintenance-event`: NONE or a termination, as TPU VMs cannot migrate live."""
    soon = record.maintenance is not None and now >= record.maintenance[0] - NOTICE_SECONDS / speed
    return "TERMINATE_ON_HOST_MAINTENANCE" if soon or _is_in_maintenance(record) else "NONE"


def upcoming_maintenance(record: NodeRecord, now: float) -> dict[str, Json] | TreeRefusal:
    """Return the maintenance window, spelled as on Compute Engine's metadata servers in the field.

    The type has two keys: Compute Engine writes `type`, Cloud TPU documents `maintenance_type`.
    """
    if record.maintenance is None:
        return NO_NOTICE
    start, end = record.maintenance
    by_hand = starts_by_hand(record.accelerator)
    ongoing = now >= start or _is_in_maintenance(record)
    return {
        "can_reschedule": "FALSE" if ongoing or not by_hand else "TRUE",
        "latest_window_start_time": _format_moment(start),
        "maintenance_status": "ONGOING" if ongoing else "PENDING",
        "maintenance_type": "SCHEDULED",
        "type": "SCHEDULED",
        "window_end_time": _format_moment(end),
        "window_start_time": _format_moment(start),
    }


def _is_in_maintenance(record: NodeRecord) -> bool:
    return bool(record.message.health == Node.Health.UNHEALTHY_MAINTENANCE)


def _format_moment(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).isoformat()
