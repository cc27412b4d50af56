"""What goes wrong in the cloud itself, and who meddles with it, drawn as a run goes along."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from service.emulator.api.calls.dispatch import answer_message
from service.emulator.api.methods import SERVICES
from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from service.emulator.wire import NodeMessage
from service.emulator.world.bill import FREE_SECONDS, Transition
from service.emulator.world.queue import QueuedTransition
from service.emulator.world.world import World
from tests.simulation.clock import Agenda
from tests.simulation.rates import Rates

ZONES = ("us-west4-a", "us-east5-a", "europe-west4-b")
LEGACY_ZONES = ("us-central1-b", "us-central1-c")
PARENT = "projects/lab/locations/{zone}"
METHODS = {
    method.name: method
    for service in SERVICES
    if service.name == "google.cloud.tpu.v2.Tpu"
    for method in service.methods
}
STORMS: tuple[dict[str, Any], ...] = (
    {"rpc": "*", "action": "error", "code": "UNAVAILABLE"},
    {"rpc": "*", "action": "error", "code": "INTERNAL", "probability": 0.3},
    {"rpc": "*", "action": "error", "code": "PERMISSION_DENIED"},
    {"rpc": "*", "action": "delay", "delay_seconds": 20, "probability": 0.2},
    {"rpc": "*", "action": "delay", "delay_seconds": 90, "probability": 0.05},
    {"rpc": "*", "action": "lose_response", "probability": 0.3},
    {"rpc": "CreateNode", "action": "lose_response", "code": "DEADLINE_EXCEEDED"},
    {"rpc": "DeleteNode", "action": "lose_response"},
    {"rpc": "CreateNode", "action": "stockout", "probability": 0.7},
    {"rpc": "CreateNode", "action": "quota", "probability": 0.5},
    {"rpc": "CreateNode", "action": "fail_operation", "code": "INTERNAL"},
    {"rpc": "CreateNode", "action": "misreport_operation", "code": "INTERNAL"},
    {"rpc": "CreateNode", "action": "lose_operation"},
    {"rpc": "DeleteNode", "action": "lose_operation"},
    {"rpc": "CreateNode", "action": "slow_operation", "delay_seconds": 900},
    {"rpc": "DeleteNode", "action": "slow_operation", "delay_seconds": 600},
    {"rpc": "DeleteNode", "action": "fail_operation", "code": "INTERNAL"},
    {"rpc": "StopNode", "action": "fail_operation", "code": "INTERNAL"},
    {"rpc": "ListNodes", "action": "error", "code": "UNAVAILABLE", "probability": 0.5},
    {"rpc": "ListNodes", "action": "partial_list"},
    {"rpc": "ListNodes", "action": "partial_list", "match": {"zone": "us-west4-a"}},
    {"rpc": "ListNodes", "action": "empty_list"},
    {"rpc": "ListNodes", "action": "short_list", "probability": 0.5},
    {"rpc": "ListNodes", "action": "stale", "delay_seconds": 45},
    {"rpc": "CreateQueuedResource", "action": "lose_response"},
    {"rpc": "CreateQueuedResource", "action": "quota", "probability": 0.5},
    {"rpc": "CreateQueuedResource", "action": "fail_operation", "code": "INTERNAL"},
    {"rpc": "CreateQueuedResource", "action": "lose_operation"},
    {"rpc": "CreateQueuedResource", "action": "stockout"},
    {"rpc": "CreateQueuedResource", "action": "fail_provisioning"},
    {"rpc": "DeleteQueuedResource", "action": "lose_response"},
    {"rpc": "DeleteQueuedResource", "action": "fail_operation", "code": "INTERNAL"},
    {"rpc": "DeleteQueuedResource", "action": "lose_operation"},
    {"rpc": "ListQueuedResources", "action": "partial_list"},
    {"rpc": "ListQueuedResources", "action": "empty_list"},
    {"rpc": "ListQueuedResources", "action": "stale", "delay_seconds": 45},
)
STALE: tuple[dict[str, Any], ...] = (
    {"rpc": "GetNode", "action": "stale", "delay_seconds": 45},
    {"rpc": "GetQueuedResource", "action": "stale", "delay_seconds": 45},
)
"""Answers about one thing that are not of now: what was just made is not found."""

STALE_SHARE = 0.2
"""Of the runs: where answers lie, the books can be held to as many seconds as they did."""
LASTING = 120
"""Seconds after which what a lie had brought about is put right: a stale answer is 45 old, and some
looks have to go by."""

LEGACY_STORMS: tuple[dict[str, Any], ...] = (
    {"rpc": "ReimageNode", "action": "lose_response"},
    {"rpc": "ReimageNode", "action": "fail_operation", "code": "INTERNAL"},
    {"rpc": "ReimageNode", "action": "lose_operation"},
    {"rpc": "ReimageNode", "action": "slow_operation", "delay_seconds": 300},
)


@dataclass
class CloudFaults:
    """Storms, strangers and meddlers; `fair` when they are over."""

    agenda: Agenda
    world: World
    luck: Random
    fortune: Rates
    set_aside: Mapping[str, int] = field(default_factory=dict)
    """Chips of reservations, by the keys of the cloud's configuration."""
    fair: bool = False
    meddled: set[str] = field(default_factory=set)
    """The nodes that somebody has deleted in the console."""
    named_a_quota: bool = False
    """Whether the cloud may have named a limit that is none: it is believed for hours."""
    lied: int = 0
    """For how many seconds answers may have lied, and what came of it may have stood: then what was
    last seen of a node was perhaps not so."""

    def __post_init__(self) -> None:
        self.zones = ZONES + (LEGACY_ZONES if self.fortune.legacy else ())
        self._stale_luck = Random(f"stale {self.fortune.as_text()}")
        self.storms = STORMS + (LEGACY_STORMS if self.fortune.legacy else ())

    def begin(self) -> None:
        config: dict[str, Any] = {
            "telemetry": {
                "log_entries": 0 if self.fortune.log_lost == 1 else 5_000,
                "log_delay_seconds": 90.0,
                "log_lost_share": self.fortune.log_lost,
                "log_twice_share": 0.2,
            },
            "odds": {
                "preemptions_per_hour": {"*": self.fortune.preemptions_per_hour},
                "host_errors_per_day": self.fortune.host_errors_per_day,
                "lost_repairs": 0.0,
            },
        }
        if self.fortune.capacity:
            config["capacity"] = {f"{zone}/v5e": self.fortune.capacity for zone in ZONES}
            config["capacity"] |= {f"{zone}/v2": 8 for zone in LEGACY_ZONES}
        config.setdefault("capacity", {}).update(self.set_aside)
        control.change_config(self.world, config)
        for number in range(self.fortune.strangers):
            self._make_stranger(number)
        self._often(self.fortune.storms_per_hour, self._storm)
        if self._stale_luck.random() < STALE_SHARE:
            self._often(self.fortune.storms_per_hour, self._grow_stale, self._stale_luck)
        self.world.queue.observers.append(self._tidy_up)
        self._often(self.fortune.meddling_per_hour, self._meddle)
        if self.fortune.early:
            self.world.observers.append(self._take_early)

    def clear_up(self) -> None:
        """From now on the cloud works as it should."""
        self.fair = True
        control.drop_faults(self.world, "")
        odds = {"preemptions_per_hour": {}, "host_errors_per_day": 0}
        control.change_config(self.world, {"odds": odds, "capacity": {}})

    def ask(self, rpc: str, **fields: Any) -> NodeMessage:
        """Call the API as somebody else would."""
        method = METHODS[rpc]
        told = answer_message(self.world, method, method.request(**fields))
        if told.error is not None:
            raise told.error
        return told.response

    def _take_early(self, transition: Transition) -> None:
        """A legacy node that can be taken back may be so before it is a minute old."""
        left = transition.created + FREE_SECONDS - transition.at
        if self.fair or transition.after != "READY" or left <= 0:
            return
        if (
            transition.provisioning_model == "preemptible"
            and self.luck.random() < self.fortune.early
        ):
            self.agenda.after(self.luck.uniform(0, left), lambda: self._take(transition.name))

    def _take(self, name: str) -> None:
        with suppress(ApiError):  # somebody was faster
            control.preempt_node(self.world, {"name": name})

    def _often(self, per_hour: float, happen: Any, luck: Random | None = None) -> None:
        if per_hour <= 0:
            return
        luck = luck or self.luck

        def turn() -> None:
            if not self.fair:
                happen()
                self.agenda.after(luck.expovariate(per_hour / 3600), turn)

        self.agenda.after(luck.expovariate(per_hour / 3600), turn)

    def _storm(self) -> None:
        storm = dict(self.luck.choice(self.storms))
        self.named_a_quota |= storm["action"] == "quota"
        lies = storm["action"] in {"stale", "short_list", "empty_list"}
        seconds = self.luck.choice([30, 120, 600, 1200])
        if lies and storm["rpc"] == "ListNodes":
            self.lied += seconds + LASTING
        self.agenda.fog.cover(self.agenda.now, self.agenda.now + seconds)
        control.add_fault(self.world, {**storm, "for_seconds": seconds})

    def _grow_stale(self) -> None:
        storm, seconds = self._stale_luck.choice(STALE), self._stale_luck.choice([30, 120, 600])
        self.lied += seconds + LASTING
        self.agenda.fog.cover(self.agenda.now, self.agenda.now + seconds)
        control.add_fault(self.world, {**storm, "for_seconds": seconds})

    def _make_stranger(self, number: int) -> None:
        """Somebody else's node in the same project, with nothing that says it is ours."""
        node = {
            "accelerator_type": "v5litepod-8",
            "runtime_version": "v2-alpha-tpuv5-lite",
            "labels": {"team": "strangers"},
        }
        zone = self.luck.choice(ZONES)
        parent, own = PARENT.format(zone=zone), f"stranger-{number}"
        if number % 2:
            self.ask("CreateNode", parent=parent, node_id=own, node=node)
            return
        tpu = {"node_spec": [{"parent": parent, "node_id": own, "node": node}]}
        self.ask(
            "CreateQueuedResource",
            parent=parent,
            queued_resource_id=own,
            queued_resource={"tpu": tpu},
        )

    def _tidy_up(self, transition: QueuedTransition) -> None:
        """Somebody has a script that deletes what is suspended, and leaves preempted nodes."""
        if transition.after != "SUSPENDED" or "/stranger-" in transition.name:
            return
        if self.luck.random() > self.fortune.meddling_per_hour:
            return

        def delete() -> None:
            with suppress(ApiError):
                self.ask("DeleteQueuedResource", name=transition.name, force=False)

        self.agenda.after(0.1, delete)

    def _meddle(self) -> None:
        ours = [
            name
            for name, record in sorted(self.world.nodes.items())
            if record.state == "READY" and "steward-id" in record.message.labels
        ]
        if not ours:
            return
        try:
            name = self.luck.choice(ours)
            ticket = self.world.nodes[name].queued_resource
            if ticket and self.luck.random() < 0.5:
                self.ask("DeleteQueuedResource", name=ticket, force=True)
            else:
                self.meddled.add(name)
                self.ask("DeleteNode", name=name)
        except ApiError:
            """A storm is on: the meddler's call failed like anybody's."""
