"""What runs on the nodes of the demo's lab: their activity, in the past and in real time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from service.domain.clock import HOUR
from service.domain.nodes.ownership import LABEL_ID
from service.emulator.nodes.activity import record_activity
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

BOOT_SECONDS = 30.0
"""From READY to the first step of the work."""
CHANGE_SECONDS = 4 * HOUR
"""Until an active node changes its pace."""


class Workload(StrEnum):
    """What a node does from each of its boots on."""

    TRAINING = "training"
    NOTHING = "nothing"
    CRASHING = "crashing"
    """A container that crashes and is started again."""


REST: Mapping[str, float] = {
    "duty_cycle": 0,
    "tensorcore": 0,
    "memory_bandwidth": 0,
    "hbm": 2e8,
    "cpu": 1,
    "memory": 4e9,
    "received": 2e3,
    "sent": 1e3,
    "held": 0,
}
CRASHES: Mapping[str, float] = {**REST, "held": 1, "containers": 1, "restarts": 9, "cpu": 50}


@dataclass
class Workloads:
    """Follows the nodes of a world. Events are the world's own, so they go on in real time."""

    world: World
    luck: Random
    _works: dict[str, Workload] = field(default_factory=dict)
    _ends: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.observers.append(self._follow_transition)

    def assign(self, node_id: str, work: Workload, ends_at: float | None = None) -> None:
        """Choose what a node does, and when it comes to rest. Unnamed nodes train."""
        self._works[node_id] = work
        if ends_at is not None:
            self._ends[node_id] = ends_at

    def _follow_transition(self, transition: Transition) -> None:
        if transition.after == "READY":
            record = self.world.nodes[transition.name]
            self._schedule(record, transition.at + BOOT_SECONDS)

    def _schedule(self, record: NodeRecord, due: float) -> None:
        def work(at: float) -> None:
            if self.world.nodes.get(record.name) is not record or record.state != "READY":
                return
            node_id = record.message.labels.get(LABEL_ID, "")
            workload = self._works.get(node_id, Workload.TRAINING if node_id else Workload.NOTHING)
            ends_at = self._ends.get(node_id, float("inf"))
            if workload is Workload.CRASHING:
                record_activity(record, at, CRASHES)
            elif workload is Workload.NOTHING or at >= ends_at:
                record_activity(record, at, REST)
            else:
                duty = self.luck.uniform(62, 97)
                pace = {
                    "duty_cycle": duty,
                    "tensorcore": duty * 0.6,
                    "memory_bandwidth": duty * 0.7,
                    "hbm": self.luck.uniform(0.9e10, 1.5e10),
                    "memory": self.luck.uniform(2e10, 9e10),
                    "cpu": self.luck.uniform(25, 80),
                    "received": self.luck.uniform(4e6, 4e7),
                    "sent": self.luck.uniform(1e6, 6e6),
                    "held": 1,
                }
                record_activity(record, at, pace)
                self._schedule(record, min(at + CHANGE_SECONDS, max(ends_at, at + 1)))

        self.world.timeline.schedule_event(due, record.name, "workload", work, fate=True)
