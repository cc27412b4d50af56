"""The service's ports over Google's clients, with workers that are played on a virtual clock."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from service.cloud.google.channel import tpu_client
from service.cloud.google.history import logging_client
from service.cloud.google.logs import GoogleWorkerLogs
from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.ports import LogCursor, Order
from service.cloud.rate_limit import Pace, ReadPace
from service.domain.errors import RateLimited
from service.domain.jobs.report import SupervisorReport, WorkerState, parse_report
from service.domain.nodes.metadata import merge_metadata
from service.emulator.app import build_world
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from tests.cloud.google.given import PLACE, SPEC
from tests.hands import NOON

TASK = {
    "v": 1,
    "attempt": "0193-1",
    "workers": [0],
    "container": {"image": "gcr.io/lab/trainer", "env": {"EMULATOR_EXIT_CODE": "7"}},
    "log": {
        "write": {
            "logName": "projects/lab/logs/tpu-steward-jobs",
            "labels": {"job": "0193", "attempt": "1"},
        },
    },
}


@dataclass
class House:
    """The adapters over one world."""

    now: float = float(NOON)

    def __post_init__(self) -> None:
        self.world = build_world(seed=7, clock=lambda: self.now)
        control.change_config(self.world, {"played_workers": "all"})
        channel = LocalChannel(self.world)
        self.tpus = GoogleTpus(tpu_client(channel), Pace(lambda: self.now), ONCE)
        self.logs = GoogleWorkerLogs(logging_client(channel), ONCE, ReadPace(lambda: self.now))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.world.run_due_events()

    def say(self, action: str, generation: int) -> None:
        """Change our key of the metadata, as the service does."""
        task = json.dumps({**TASK, "action": action, "generation": generation})
        there = self.tpus.metadata(PLACE)
        self.tpus.update_metadata(PLACE, merge_metadata(there, {"steward-task": task}))
        self.wait(5)

    def report(self) -> SupervisorReport:
        (worker,) = self.tpus.guest_attributes(PLACE, "steward")
        found = parse_report(worker["report"], int(self.now))
        assert found is not None
        return found


@pytest.fixture
def house() -> House:
    made = House()
    spec_metadata = {"steward-supervisor": "source", "ssh-keys": "of somebody else"}
    order = Order(PLACE, SPEC, {})
    made.tpus.create(order)
    made.wait(60)
    made.tpus.update_metadata(PLACE, spec_metadata)
    made.wait(5)
    control.maintain_node(made.world, {"name": PLACE.path})
    made.wait(120)
    return made


def test_a_job_is_told_followed_and_released_through_the_ports(house):
    assert house.report().state is WorkerState.IDLE
    house.say("pull", 1)
    house.wait(30)
    assert house.report().state is WorkerState.PULLED
    house.say("run", 2)
    house.wait(30)
    running = house.report()
    assert (running.state, running.generation, running.attempt) == ("RUNNING", 2, "0193-1")
    house.wait(120)
    ended = house.report()
    assert (ended.state, ended.reason, ended.exit_code) == ("EXITED", "COMPLETED", 7)
    assert ended.is_final
    assert ended.ended_at - ended.started_at == 60
    house.say("release", 3)
    house.wait(60)
    assert house.report().state is WorkerState.IDLE
    assert house.tpus.metadata(PLACE)["ssh-keys"] == "of somebody else"


def test_the_output_of_a_job_is_read_line_by_line(house):
    house.say("run", 1)
    cursor, told = LogCursor.start(NOON), []
    for _ in range(12):
        house.wait(10)
        page = house.logs.read_page("lab", "0193", cursor, 3)
        told += [line.text for line in page.lines]
        cursor = page.cursor
    assert told == [
        "worker 0 of 0193-1 starts",
        *(f"line {n}" for n in range(1, 6)),
        "worker 0 ends with 7",
    ]


def test_reading_too_often_is_refused_until_a_minute_is_over(house):
    cursor = LogCursor.start(NOON)
    for _ in range(30):
        house.logs.read_page("lab", "0193", cursor, 3)
    with pytest.raises(RateLimited):
        house.logs.read_page("lab", "0193", cursor, 3)
    house.wait(61)
    assert house.logs.read_page("lab", "0193", cursor, 3).lines == []
