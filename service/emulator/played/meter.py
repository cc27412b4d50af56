"""The activity report of a played worker, with the format and the pauses of the real meter."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.emulator.nodes import guest_attributes
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.observed import Observer
from service.emulator.timeline import Event
from service.emulator.world.world import World

METER, NAMESPACE, ACTIVITY = "steward-meter", "steward", "activity"
SAMPLE_SECONDS, COUNT_SECONDS = 5.0, 60.0
PUT_SECONDS, REPORT_SECONDS = 60.0, 240.0
CPU_PERCENT, NETWORK_BYTES = 10.0, 1_000_000.0


@dataclass
class JobContainer:
    """The container of a job as seen on its machine: it holds the chips, and keeps a core busy
    unless it hangs. `end` is None while it runs."""

    attempt: str
    hangs: bool
    end: float | None = None


class PlayedMeter:
    """The meter of one worker in one boot. Seconds are divided by the speed of the world."""

    def __init__(self, world: World, node: NodeRecord, worker: int) -> None:
        self._world, self._node, self._worker = world, node, worker
        self._observer = Observer(node, worker)
        self._boot = ""
        self._started_at = 0.0
        self._put_at: float | None = None
        self._regular_at = 0.0
        self._sent: tuple[bool, bool] | None = None
        self._due: Event | None = None
        self._container: JobContainer | None = None
        self._worked_until: float | None = None
        """End of this boot's last job container that kept a core busy."""
        node.activity.observers.append(self.look_soon)

    def start_boot(self, at: float, boot: str) -> None:
        """Start the meter, if the node's metadata has one."""
        self.turn_off()
        self._put_at, self._sent = None, None
        self._container, self._worked_until = None, None
        if METER in self._node.message.metadata:
            self._boot, self._started_at = boot, at
            self._schedule_look(at + COUNT_SECONDS / self._world_speed)

    def turn_off(self) -> None:
        """Stop the meter; its last report stays."""
        if self._due is not None:
            self._due.cancelled = True
            self._due = None

    def hold_chips(self, at: float, attempt: str, *, hangs: bool) -> None:
        """Note that a job's container runs from now on."""
        self._container = JobContainer(attempt, hangs)
        self.look_soon(at)

    def free_chips(self, at: float) -> None:
        """Note the end of the container."""
        if self._container is not None and self._container.end is None:
            self._container.end = at
            if not self._container.hangs:
                self._worked_until = at
            self.look_soon(at)

    def look_soon(self, at: float) -> None:
        """Check for changes soon, with at most one PUT a minute."""
        if self._due is not None and self._put_at is not None:
            soon = max(
                at + SAMPLE_SECONDS / self._world_speed,
                self._put_at + PUT_SECONDS / self._world_speed,
            )
            if soon < self._due.due:
                self.turn_off()
                self._schedule_look(soon)

    @property
    def _world_speed(self) -> float:
        return self._world.config.speed

    def _schedule_look(self, due: float) -> None:
        look: Callable[[float], None] = self._put_report
        self._due = self._world.timeline.schedule_event(
            due, self._node.name, "activity", look, fate=True
        )

    def _put_report(self, at: float) -> None:
        document = self.build_document(at)
        news = bool(document["holder"]), bool(document["sessions"])
        if news == self._sent and at < self._regular_at:
            self._schedule_look(self._regular_at)
            return
        self._put_at, self._sent = at, news
        pause, least = REPORT_SECONDS / self._world_speed, PUT_SECONDS / self._world_speed
        self._regular_at = max(self._counted_at(at) + pause, at + least)
        if guest_attributes.is_enabled(self._node):
            text = json.dumps(document, separators=(",", ":"))
            guest_attributes.publish_value(self._node, self._worker, NAMESPACE, ACTIVITY, text)
        self._schedule_look(self._regular_at)

    def _counted_at(self, at: float) -> float:
        """Time of the last read of the counters."""
        interval = COUNT_SECONDS / self._world_speed
        return self._started_at + (at - self._started_at) // interval * interval

    def build_document(self, at: float) -> dict[str, Any]:
        """Return the report: counters up to their last read, all other fields as of now."""
        start, counted_at = self._started_at, self._counted_at(at)
        seen, container = self._observer.observe_at(at), self._container
        free = [self._observer.held_until(at), container.end if container else None]
        busy = [self._observer.busy_until(counted_at, CPU_PERCENT), self._worked_until]
        holder, is_busy = "", False
        if container is not None and container.end is None:
            holder = f"process 4711 (the container of {container.attempt}) holds /dev/vfio/0"
            is_busy = not container.hangs
        elif seen.is_held:
            holder = "process 4242 (python3 train.py) holds /dev/vfio/0"
        return {
            "v": 1,
            "boot": self._boot,
            "from": math.ceil(start),
            "at": int(counted_at),
            "holder": holder,
            "device_free_since": None if holder else _latest_end(start, free),
            "cpu_quiet_since": None if is_busy else _quiet_since(start, busy, counted_at),
            "network_quiet_since": _quiet_since(
                start, [self._observer.sent_until(counted_at, NETWORK_BYTES)], counted_at
            ),
            "sessions": seen.sessions,
            "containers": seen.containers,
            "restarts": seen.restarts,
        }


def _latest_end(start: float, ends: list[float | None]) -> int:
    return math.ceil(max(start, *(end for end in ends if end is not None), start))


def _quiet_since(start: float, ends: list[float | None], counted_at: float) -> int | None:
    """Start of a host's quiet time; None if it was busy until the last count."""
    since = _latest_end(start, ends)
    return None if any(end is not None and end >= counted_at for end in ends) else since
