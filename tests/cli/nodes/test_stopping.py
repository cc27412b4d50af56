"""A daemon that is told to stop while the cloud gives no answer."""

from __future__ import annotations

import signal
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.given import program
from tests.cli.processes.test_dev import until

PATIENCE = 10
"""Seconds that a stop may take. systemd and compose end who takes longer by force."""
START_PATIENCE = 60
"""Seconds that a process may take to start, on a machine with much else to do."""


class Silent:
    """A server that takes connections, and never says anything."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.callers: list[socket.socket] = []
        Thread(target=self._take, daemon=True).start()

    def close(self) -> None:
        """Take no more, and let all go."""
        self._socket.close()
        for caller in self.callers:
            caller.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                self.callers.append(self._socket.accept()[0])


def _leases(database: Path) -> list[tuple[str, bool]]:
    """(project, whether its lease is held) of each."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(
            "select project, expires_at >= strftime('%s', 'now') from leases"
        ).fetchall()


@pytest.mark.deep
def test_a_daemon_whose_calls_hang_gives_its_leases_back_and_ends(tmp_path: Path) -> None:
    silent, database = Silent(), tmp_path / "steward.db"
    settings = {
        "STEWARD_DATABASE_URL": f"sqlite:///{database}",
        "STEWARD_EMULATOR": silent.address,
        "STEWARD_PROJECTS": "lab,other",
    }
    with program("migrate", folder=tmp_path, **settings) as migrating:
        migrating.communicate(timeout=START_PATIENCE)
    with program("daemon", folder=tmp_path, **settings) as process:
        until(
            lambda: len(_leases(database)) == 2 and all(held for _, held in _leases(database)),
            START_PATIENCE,
        )
        until(lambda: len(silent.callers) >= 2, START_PATIENCE)  # the first looked if it is there
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log
    assert dict(_leases(database)) == {"lab": False, "other": False}, log
    silent.close()
