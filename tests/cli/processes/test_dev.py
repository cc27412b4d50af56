"""Everything on one machine: started, used, bereft of its daemon, and stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal, TypeVar

import httpx2
import pytest

from service.cli.processes.dev import plan_of
from service.cli.terminal.address import Address
from service.settings import Settings
from tests.cli.given import program, steward
from tests.ports import free_port

T = TypeVar("T")


def until(look: Callable[[], T | Literal[False] | None], seconds: float = 20) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
    return found


class Dev:
    """A running `dev` on free ports."""

    def __init__(self, folder: Path) -> None:
        self.web, self.grpc, self.rest = free_port(), free_port(), free_port()
        self.settings = {
            "STEWARD_PORT": str(self.web),
            "STEWARD_EMULATOR": f"127.0.0.1:{self.grpc}",
            "STEWARD_EMULATOR_REST": f"127.0.0.1:{self.rest}",
            "STEWARD_EMULATOR_SPEED": "60",
            "STEWARD_LIFECYCLE_SECONDS": "1",
            "STEWARD_INVENTORY_SECONDS": "1",
        }
        self.url = f"http://127.0.0.1:{self.web}"
        self.process = program("dev", folder=folder, **self.settings)
        self.said: SimpleQueue[str] = SimpleQueue()
        self.logged: SimpleQueue[str] = SimpleQueue()
        for stream, queue in ((self.process.stdout, self.said), (self.process.stderr, self.logged)):
            Thread(
                target=lambda s=stream, q=queue: [q.put(line) for line in s], daemon=True
            ).start()

    def child(self, name: str) -> int | None:
        """The process id of a child, while it runs."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_text().split("\0")
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if parent == str(self.process.pid) and name in words:
                return int(entry.name)
        return None

    def children(self) -> list[int]:
        return [until(partial(self.child, name)) for name in ("emulator", "daemon", "serve")]

    def hears(self, text: str, queue: SimpleQueue[str]) -> str:
        """Wait for a line with that text; answers all lines up to it."""
        lines = [queue.get(timeout=90)]
        while text not in lines[-1]:
            lines.append(queue.get(timeout=90))
        return "".join(lines)


@pytest.fixture
def dev(tmp_path):
    running = Dev(tmp_path)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()
        until(lambda: not any(map(running.child, ("emulator", "daemon", "serve"))))
        until(lambda: not Address("127.0.0.1", running.grpc, "").can_connect(1))
        for stream in (running.process.stdout, running.process.stderr):
            assert stream is not None
            stream.close()


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_what_somebody_says_of_idleness_is_not_said_again(monkeypatch):
    monkeypatch.setenv("STEWARD_IDLE_MODE", "observe")
    monkeypatch.setenv("STEWARD_IDLE_WARMUP_SECONDS", "1800")
    told = plan_of(Settings()).build_environment()
    assert told["STEWARD_IDLE_MODE"] == "observe"
    assert told["STEWARD_IDLE_WARMUP_SECONDS"] == "1800"
    assert told["STEWARD_IDLE_TELEMETRY_SECONDS"] == "60"
    assert told["STEWARD_IDLE_START_SECONDS"] == "15"


@pytest.mark.deep
def test_everything_starts_works_heals_and_stops(dev, tmp_path):
    said = dev.hears("Dashboard:", dev.said)
    the_last_line_is_the_address_to_open(dev, said)
    assert "Jobs run their commands on this machine, as this user" in said
    assert "Idleness counts from 30 s after READY" in said
    cleanup = httpx2.get(f"{dev.url}/v1/cleanup").json()
    assert (cleanup["mode"], cleanup["telemetry_seconds"]) == ("delete", 60)
    config = httpx2.get(f"http://127.0.0.1:{dev.rest}/_emulator/config").json()
    assert config["telemetry"]["delay_seconds"] == 30
    assert httpx2.get(f"{dev.url}/readyz").status_code == 200
    first = dev.children()

    a_second_one_names_each_port_that_is_taken(dev, tmp_path)

    os.kill(first[1], signal.SIGKILL)
    dev.hears("daemon was killed by SIGKILL; restarting it", dev.logged)
    dev.hears("daemon is process", dev.logged)

    asked = ("nodes", "create", "--accelerator-type", "v5litepod-8", "--zone", "us-west4-a")
    more = ("--name", "trainer", "--wait", "--timeout", "30s", "--json")
    made = steward(*asked, *more, STEWARD_URL=dev.url)
    assert json.loads(made.stdout)["state"] == "READY", made.stderr
    for command in ("show", "cost", "events", "ledger"):
        assert steward("nodes", command, "trainer", STEWARD_URL=dev.url).exit_code == 0
    for words in (("costs",), ("prices", "list"), ("catalog", "zones"), ("runtimes", "list")):
        assert steward(*words, STEWARD_URL=dev.url).exit_code == 0
    deleted = steward("nodes", "delete", "trainer", "--wait", STEWARD_URL=dev.url)
    assert deleted.stdout.startswith("trainer is DELETED; it cost $0.0")

    a_job_runs_and_its_node_goes(dev.url)

    pids = dev.children()
    dev.process.send_signal(signal.SIGTERM)
    assert dev.process.wait(timeout=10) == 0
    assert gone(pids)


def the_last_line_is_the_address_to_open(dev: Dev, said: str) -> None:
    first, *_, last = said.splitlines()
    assert first.startswith(f"Starting the emulator, the daemon and the API on {dev.url}")
    assert last == f"Dashboard: {dev.url}/"
    emulator, daemon, server = dev.children()
    assert f"Processes  emulator {emulator}, daemon {daemon}, serve {server}\n" in said
    assert f"kill {dev.process.pid}\n" in said


def a_second_one_names_each_port_that_is_taken(dev: Dev, folder: Path) -> None:
    again = program("dev", folder=folder, **dev.settings)
    taken = again.communicate(timeout=60)[1].splitlines()
    assert again.returncode == 1
    assert taken[0].startswith(f"TPU Steward already runs at {dev.url}; stop it first")
    assert taken[0].endswith("set STEWARD_PORT to another port, or to 0 for any free one")
    assert [line.partition(" (")[0] for line in taken[1:]] == [
        f"port {dev.grpc} on 127.0.0.1 is taken",
        f"port {dev.rest} on 127.0.0.1 is taken",
    ]
    assert "set STEWARD_EMULATOR to another port, or to 127.0.0.1:0 for any" in taken[1]
    assert "set STEWARD_EMULATOR_REST to another port" in taken[2]


def a_job_runs_and_its_node_goes(url: str) -> None:
    """The container's command runs on this machine: its line, exit code and end are shown."""
    node = ("--accelerator-type", "v5litepod-1", "--zone", "us-west4-a")
    words = ("--", "bash", "-c", "echo hello from $STEWARD_RUN_NAME")
    asked = ("jobs", "submit", "--detach", "--json", "--image", "lab/train:7", *node, *words)
    job = json.loads(steward(*asked, STEWARD_URL=url).stdout)

    def shown(end: str) -> Any:
        found = json.loads(steward("jobs", "show", job["id"], "--json", STEWARD_URL=url).stdout)
        assert not found["ended_at"] or found["state"] == end, found
        return found["ended_at"] and found

    found = until(lambda: shown("SUCCEEDED"), seconds=60)
    assert found["exit_codes"] == {"0": 0}
    printed = steward("jobs", "show", job["id"], STEWARD_URL=url).stdout
    assert re.search(r"(?m)^Exit codes +0 \(every worker\)$", printed), printed
    logs = steward("jobs", "logs", job["id"], STEWARD_URL=url)
    assert logs.stdout == f"0: hello from {job['node_name']}\n"
    path = f"{url}/v1/nodes/{job['node_id']}"
    until(lambda: httpx2.get(path).json()["state"] == "DELETED", seconds=30)


@pytest.mark.deep
def test_no_child_outlives_its_parent(dev):
    dev.hears("Dashboard:", dev.said)
    pids = dev.children()
    dev.process.kill()
    until(lambda: gone(pids), seconds=10)
