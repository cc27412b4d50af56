"""The demo as a process: it lives through its days, serves them, and ends cleanly."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from service.cli.terminal.address import Address
from tests.cli.given import program

FREE = {
    "STEWARD_PORT": "0",
    "STEWARD_EMULATOR": "127.0.0.1:0",
    "STEWARD_EMULATOR_REST": "127.0.0.1:0",
}


def start(folder: Path) -> subprocess.Popen[str]:
    return program("demo", "--days", "2", folder=folder, **FREE)


def lines_of(process: subprocess.Popen[str], last: str) -> list[str]:
    """What it says up to the line that begins like this."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line.rstrip("\n"))
        if line.startswith(last):
            return said
    raise AssertionError(f"it ended and said {said}")


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    return process.returncode, said


def check_first_round(url: str) -> None:
    """The first round of the daemon goes on with what the past has seen: no node is unknown, no
    breaker opens, and each end of an idle node has a time."""
    while True:
        (project,) = httpx2.get(f"{url}/v1/cleanup").json()["projects"]
        rails = {held["rail"] for held in project["rails"]}
        if "start" in rails:  # the daemon has had its first round
            break
        time.sleep(0.05)
    assert rails == {"start"}
    assert httpx2.get(f"{url}/v1/fleet/waste").json()["unknown"]["number"] == 0
    idle = [
        entry
        for entry in httpx2.get(f"{url}/v1/fleet/agenda").json()["next"]
        if entry["kind"] == "idle_end"
    ]
    assert idle
    assert all(entry["at"] for entry in idle)


@pytest.mark.deep
@pytest.mark.long
def test_the_demo_serves_what_was_lived_through_and_ends_with_all_its_processes(tmp_path):
    process = start(tmp_path)
    try:
        said = lines_of(process, "Dashboard: ")
        found = re.fullmatch(r"Dashboard: (http://127\.0\.0\.1:\d+)/", said[-1])
        assert found is not None
        url = found[1]
        names = {node["name"] for node in httpx2.get(f"{url}/v1/nodes").json()["nodes"]}
        assert {"rl-learner", "vision-notebook", "nlp-scale-up"} <= names
        while httpx2.get(f"{url}/readyz").json() != {"status": "ready"}:  # until a daemon works
            time.sleep(0.05)
        assert httpx2.get(f"{url}/").status_code == 200
        check_first_round(url)
        emulator = next(line for line in said if line.startswith("  Emulator"))
        rest = emulator.rpartition("REST ")[2]
        bill = httpx2.get(f"{rest}/_emulator/bill").json()["entries"]
        assert len({entry["name"] for entry in bill}) > 20
        again = start(tmp_path)
        refused, problem = again.communicate(timeout=60)
        assert again.returncode == 1
        assert "another demo runs in var/demo" in problem
        assert "Dashboard" not in refused
    finally:
        code, _ = end(process)
    assert code == 0
    for address in (url, rest):
        host, _, port = address.removeprefix("http://").partition(":")
        assert not Address(host, int(port), "").can_connect(1)


@pytest.mark.deep
def test_the_demo_can_be_stopped_while_it_lives_through_its_days(tmp_path):
    process = start(tmp_path)
    try:
        assert lines_of(process, "Living through 2 days")
        log = tmp_path / "var" / "demo" / "past.log"
        while not log.exists() or not log.stat().st_size:
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        assert end(process) == (0, "Stopped.\n")
    assert (tmp_path / "var" / "demo" / "steward.db").exists()
