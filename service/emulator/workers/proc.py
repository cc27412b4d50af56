"""The stand-in for `/proc` on an emulated worker, and its list of containers for docker.

The counters follow the node's configured activity, and are written once a second.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from service.emulator.nodes.observed import Observed

HOLDER, LOGIN = 7001, 8001
"""Process ids: the process that holds chips, and the first login session."""
TICKS = 100
WINDOW_SECONDS = 600.0
CORES = 4


class ProcFiles:
    """The files of one boot; `device` is the device that a training holds.

    All counters grow `speed` times faster, for a meter with the same speed.
    """

    def __init__(self, directory: Path, device: Path, told: Path, speed: float = 1.0) -> None:
        self._directory, self._device, self._told = directory, device, told
        self._speed = speed
        self._at: float | None = None
        self._work, self._ticks = [0.0] * CORES, 0.0
        self._bytes = self._restarts = 0.0
        self._processes: dict[int, str] = {}
        self._containers: object = None
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "net").mkdir(parents=True)
        self.update_files(0.0, Observed())

    def update_files(self, now: float, observed: Observed) -> None:
        """Write the state at `now`, in seconds of any clock."""
        seconds = 0.0 if self._at is None else max(0.0, now - self._at) * self._speed
        self._at = now
        self._ticks += seconds * TICKS
        lines = []
        for core in range(CORES):
            # Cores fill one after the other, so that their sum is the observed percentage.
            percent = min(100.0, max(0.0, observed.cpu - 100.0 * core))
            self._work[core] += seconds * TICKS * percent / 100
            work = int(self._work[core])
            lines.append(f"cpu{core} {work} 0 0 {int(self._ticks) - work} 0 0 0 0 0 0\n")
        _write_file(self._directory / "stat", f"cpu 0 0 0 0\n{''.join(lines)}")
        self._bytes += seconds * observed.network
        zeros = " 0" * 15
        networks = f"    lo: 0{zeros}\n  ens8: {int(self._bytes)}{zeros}\n"
        _write_file(self._directory / "net/dev", f"Inter-|\n face |\n{networks}")

        wanted = {1: "/sbin/init"}
        if observed.is_held:
            wanted[HOLDER] = "python3\0train.py"
        wanted |= {LOGIN + number: f"sshd: ada@pts/{number}" for number in range(observed.sessions)}
        for pid in self._processes.keys() - wanted.keys():
            shutil.rmtree(self._directory / str(pid), ignore_errors=True)
        for pid in wanted.keys() - self._processes.keys():
            folder = self._directory / str(pid)
            (folder / "fd").mkdir(parents=True)
            if pid == HOLDER:
                (folder / "fd/0").symlink_to(self._device)
            (folder / "cmdline").write_text(wanted[pid])
        self._processes = wanted

        self._restarts += seconds * observed.restarts / WINDOW_SECONDS
        containers = {"containers": observed.containers, "restarts": int(self._restarts)}
        if containers != self._containers:
            self._containers = containers
            _write_file(self._told, json.dumps(containers))


def _write_file(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_name(f"{path.name}.new")
    part.write_text(text)
    part.replace(path)
