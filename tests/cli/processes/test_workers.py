"""`serve --workers`: several processes on one socket, and one that watches them."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.cli.processes.workers import COUNTS
from tests.cli.given import program, steward
from tests.cli.processes.test_dev import until
from tests.ports import free_port

PATIENCE = 60
"""Seconds after which the test gives up."""

NODE_REQUEST = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}


class Serving:
    """A running `serve --workers 2`."""

    def __init__(self, folder: Path) -> None:
        database = f"sqlite:///{folder}/steward.db"
        with program("migrate", folder=folder, STEWARD_DATABASE_URL=database) as migrating:
            migrating.communicate(timeout=PATIENCE)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = program(
            *("serve", "--workers", "2"),
            folder=folder,
            STEWARD_DATABASE_URL=database,
            STEWARD_PROJECTS="lab",
            STEWARD_PORT=str(port),
        )

    def workers(self) -> set[int]:
        """The process ids of those that answer."""
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parent, state = _parent_and_state(entry)
                if parent == self.process.pid and state != "Z":
                    found.add(int(entry.name))
        return found

    def answers(self) -> bool:
        """Whether a new connection is answered."""
        try:
            return httpx2.get(f"{self.url}/healthz", timeout=2).status_code == 200
        except httpx2.HTTPError:
            return False

    def each_answers(self) -> None:
        """Wait until each of two workers answers while the other one is stopped."""
        for pid in until(lambda: len(found := self.workers()) == 2 and found, PATIENCE):
            os.kill(pid, signal.SIGSTOP)
            try:
                until(self.answers, PATIENCE)
            finally:
                os.kill(pid, signal.SIGCONT)


def _parent_and_state(entry: Path) -> tuple[int, str]:
    state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    return int(parent), state


def gone(pids: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    """It, ended at the end with all of its workers."""
    running, counts = Serving(folder), set()
    try:
        until(lambda: len(running.workers()) == 2, PATIENCE)
        counts = {_counts_of(pid) for pid in running.workers()}
        yield running
    finally:
        workers = running.workers()
        running.process.kill()
        running.process.communicate()
        until(lambda: gone(workers), PATIENCE)
        for count in counts:  # nobody else is left to remove it
            shutil.rmtree(count, ignore_errors=True)


def _counts_of(pid: int) -> Path:
    """The folder in which a worker counts; a process that was just begun is not told yet."""

    def told() -> list[bytes]:
        settings = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return [setting for setting in settings if setting.startswith(COUNTS.encode())]

    return Path(until(told)[0].partition(b"=")[2].decode())


@pytest.mark.deep
@pytest.mark.long
def test_two_workers_write_to_sqlite_one_is_replaced_and_all_end(tmp_path):
    with serving(tmp_path) as service:
        service.each_answers()

        with ThreadPoolExecutor(16) as callers:
            statuses = Counter(callers.map(lambda _: _write(service.url), range(160)))
        assert statuses == {201: 160}
        assert _counted(service.url) == 160, "the counters of both are added up"

        workers = service.workers()
        killed = min(workers)
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(service.workers() - {killed}) == 2, PATIENCE)
        service.each_answers()
        assert _counted(service.url) == 160, "what the killed one counted is kept"

        workers = service.workers()
        counts = _counts_of(min(workers))
        assert counts.exists()
        service.process.send_signal(signal.SIGTERM)
        _, logged = service.process.communicate(timeout=PATIENCE)
        assert service.process.returncode == 0, logged
        assert gone(workers)
        assert not counts.exists()
        assert "was killed by SIGKILL" in logged
        assert "Traceback" not in logged


def _write(url: str) -> int:
    """The status of one request for a node."""
    return httpx2.post(f"{url}/v1/nodes", json=NODE_REQUEST, timeout=PATIENCE).status_code


def _counted(url: str) -> float:
    """How many nodes were requested, as Prometheus is told."""
    wanted = {"method": "POST", "route": "/v1/nodes", "status": "201"}
    for family in text_string_to_metric_families(httpx2.get(f"{url}/metrics").text):
        for sample in family.samples:
            if sample.name == "steward_http_requests_total" and sample.labels == wanted:
                return sample.value
    return 0


@pytest.mark.deep
@pytest.mark.long
def test_workers_end_though_the_process_that_watches_them_is_killed(tmp_path):
    with serving(tmp_path) as service:
        service.each_answers()
        workers = service.workers()
        service.process.kill()
        until(lambda: gone(workers), PATIENCE)


@pytest.mark.deep
def test_what_keeps_all_workers_from_starting_is_said_once_in_one_line(tmp_path):
    with program("serve", "--workers", "2", folder=tmp_path) as process:
        out, err = process.communicate(timeout=PATIENCE)
    said = "the database has no tables yet; run: tpu-steward migrate\n"
    assert (process.returncode, out, err) == (1, "", said)


@pytest.mark.parametrize("number", ["0", "65", "many"])
def test_a_number_of_workers_that_makes_no_sense_is_refused(number):
    assert steward("serve", "--workers", number).exit_code == 2
    assert steward("serve", STEWARD_WORKERS=number).exit_code == 2
