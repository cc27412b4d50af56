"""`serve` while somebody holds more connections than it has descriptors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.cli.given import program
from tests.cli.processes.test_dev import until
from tests.ports import free_port

PATIENCE = 60
"""Seconds after which the test gives up."""

_SMALL = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from service.cli import main
main()
"""


def answers(url):
    try:
        return httpx2.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


@pytest.mark.deep
@pytest.mark.long
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_person_is_answered_while_others_hold_more_connections_than_there_are(tmp_path, workers):
    database, port = f"sqlite:///{tmp_path}/steward.db", free_port()
    with program("migrate", folder=tmp_path, STEWARD_DATABASE_URL=database) as migrating:
        migrating.communicate(timeout=PATIENCE)
    serving = subprocess.Popen(
        [sys.executable, "-c", _SMALL, "serve", "--workers", workers],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "STEWARD_DATABASE_URL": database,
            "STEWARD_PORT": str(port),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(url), PATIENCE)
        with ExitStack() as silent, ThreadPoolExecutor(24) as people:
            for _ in range(140 * int(workers)):
                silent.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            asked = people.map(lambda _: httpx2.get(f"{url}/v1/nodes", timeout=PATIENCE), range(48))
            assert {answer.status_code for answer in asked} == {200}
            assert answers(url)
    finally:
        serving.terminate()
        _, logged = serving.communicate(timeout=PATIENCE)
    assert "Too many open files" not in logged
    assert "Traceback" not in logged
