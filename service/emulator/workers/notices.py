"""What a worker is told about the maintenance of its host, before it begins and while it lasts."""

from __future__ import annotations

from datetime import UTC, datetime

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.wire import Node
from service.emulator.workers.tree import Json, TreeRefusal
from service.emulator.world.maintenance import starts_by_hand

# Google documents that `maintenance-event` changes a minute before maintenance begins.
NOTICE_SECONDS = 60
# Google documents the text; in the field it comes with a 503.
NO_NOTICE = TreeRefusal(
    503,
    '{ "error": "no notifications have been received yet, try again later" }',
    "application/json",
)


def maintenance_event(record: NodeRecord, now: float, speed: float) -> str:
    """A TPU VM cannot be migrated live, so the only event it knows ends it."""
    soon = record.maintenance is not None and now >= record.maintenance[0] - NOTICE_SECONDS / speed
    return "TERMINATE_ON_HOST_MAINTENANCE" if soon or _under_way(record) else "NONE"


def upcoming_maintenance(record: NodeRecord, now: float) -> dict[str, Json] | TreeRefusal:
    """Describe the window, in the spelling that Compute Engine's metadata servers are seen to use.

    Both `type`, which Compute Engine writes, and `maintenance_type`, which Cloud TPU documents.
    """
    if record.maintenance is None:
        return NO_NOTICE
    start, end = record.maintenance
    by_hand = starts_by_hand(record.accelerator)
    ongoing = now >= start or _under_way(record)
    return {
        "can_reschedule": "FALSE" if ongoing or not by_hand else "TRUE",
        "latest_window_start_time": _moment(start),
        "maintenance_status": "ONGOING" if ongoing else "PENDING",
        "maintenance_type": "SCHEDULED",
        "type": "SCHEDULED",
        "window_end_time": _moment(end),
        "window_start_time": _moment(start),
    }


def _under_way(record: NodeRecord) -> bool:
    return bool(record.message.health == Node.Health.UNHEALTHY_MAINTENANCE)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).isoformat()
