"""The same seed and the same requests give the same days, however often the clock is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from service.emulator.app import build_world
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel

DAYS = 3
START = 1_800_000_000.25
ZONES = {
    "us-central2-b": ("v4-8", "tpu-ubuntu2204-base"),
    "us-east5-b": ("v6e-8", "v2-alpha-tpuv6e"),
}
CONFIG = {
    "capacity": {"us-central2-b/v4": 200, "us-east5-b/v6e/spot": 400},
    "quotas": {"us-central2-b/v4": 600},
    "telemetry": {"log_entries": 2000},
    "odds": {
        "preemptions_per_hour": {"*": 0.05},
        "maintenances_per_day": 0.3,
        "host_errors_per_day": 0.3,
        "lost_repairs": 0.2,
        "spot_rhythm": 0.6,
    },
}
FAULTS = [
    {"rpc": "CreateNode", "action": "stockout", "probability": 0.1, "times": 0},
    {"rpc": "DeleteNode", "action": "fail_operation", "probability": 0.1, "times": 0},
    {"rpc": "CreateQueuedResource", "action": "fail_provisioning", "probability": 0.1, "times": 0},
    {"rpc": "*", "action": "lose_response", "probability": 0.02, "times": 0},
]


class Days:
    """A fleet whose owner asks for something every few minutes, at moments of the plan's own."""

    def __init__(self, increment: float, days: float = DAYS) -> None:
        self.now = START
        self.increment = increment
        self.end = START + days * 86_400
        self.plan = Random("plan")
        self.world = build_world(seed=11, clock=lambda: self.now)
        self.history: list[Any] = []
        self.world.observers.append(self.history.append)
        self.world.queue.observers.append(self.history.append)
        channel = LocalChannel(self.world)
        self.client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
        control.change_config(self.world, CONFIG)
        for fault in FAULTS:
            control.add_fault(self.world, fault)

    def live(self) -> None:
        for number in range(10_000):
            self.walk(self.now + self.plan.uniform(60, 600))
            if self.now >= self.end:
                return
            try:
                self.ask(number)
            except GoogleAPICallError as error:
                self.history.append(str(error))

    def walk(self, until: float) -> None:
        """Move the clock, and look at the world at every step of it."""
        while self.now < until:
            self.now = min(until, self.now + self.increment)
            self.world.run_due_events()

    def ask(self, number: int) -> None:
        zone = self.plan.choice(sorted(ZONES))
        parent = f"projects/lab/locations/{zone}"
        asked = self.plan.choice(["node", "node", "queued", "delete", "stop", "remove", "look"])
        if asked == "node":
            self.create(parent, number, zone)
        elif asked == "queued":
            self.queue(parent, number, zone)
        elif asked == "look":
            self.history.append(str(list(self.client.list_nodes(parent=parent))))
        elif asked == "remove":
            names = sorted(self.world.queue.records)
            request = {"name": self.plan.choice(names or ["none"]), "force": True}
            self.client.delete_queued_resource(request=request)
        else:
            name = self.plan.choice(sorted(self.world.nodes) or ["none"])
            calls = {"delete": self.client.delete_node, "stop": self.client.stop_node}
            calls[asked](request={"name": name})

    def create(self, parent: str, number: int, zone: str) -> None:
        tier = self.plan.choice(["spot", "preemptible", "reserved", ""])
        node: Any = self.wanted(zone) | {"scheduling_config": {tier: True} if tier else {}}
        self.client.create_node(parent=parent, node=node, node_id=f"n-{number}")

    def queue(self, parent: str, number: int, zone: str) -> None:
        params = {"node_count": self.plan.randint(2, 6)}
        spec = {"parent": parent, "multislice_params": params, "node": self.wanted(zone)}
        resource: Any = {"tpu": {"node_spec": [spec]}, "spot": {}}
        resource["queueing_policy"] = {"valid_until_duration": f"{self.plan.randint(9, 999)}s"}
        self.client.create_queued_resource(
            parent=parent, queued_resource=resource, queued_resource_id=f"q-{number}"
        )

    def wanted(self, zone: str) -> dict[str, Any]:
        kind, runtime = ZONES[zone]
        return {"accelerator_type": kind, "runtime_version": runtime}

    def account(self) -> str:
        """Write down everything that there is to know of these days."""
        logs = [(entry.at, entry.plain) for entry in self.world.logs]
        state = control.describe_state(self.world)
        return "\n".join(
            map(str, [*self.history, state, control.list_bill(self.world, "", ""), *logs])
        )


def lived(increment: float, days: float = DAYS) -> Days:
    fleet = Days(increment, days)
    fleet.live()
    return fleet


@pytest.fixture(scope="module")
def told() -> str:
    return lived(1e9).account()


@pytest.mark.deep
@pytest.mark.parametrize("increment", [1e9, 77.7, 13.0])
def test_the_same_days_are_told_in_the_same_words(told, increment):
    assert lived(increment).account() == told


@pytest.mark.deep
def test_the_days_have_seen_every_misfortune(told):
    for state in ("PREEMPTED", "TERMINATED", "REPAIRING", "RESTARTING", "UNKNOWN", "SUSPENDED"):
        assert f"after='{state}'" in told


@pytest.mark.deep
def test_the_order_of_hashes_has_no_part_in_it():
    module = "tests.emulator.world.test_determinism"
    program = f"from {module} import lived; print(lived(500.0, 0.5).account())"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
