"""A machine as the meter sees it: processes, counters, docker, and a metadata server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.supervisor.conftest import SOURCE
from tests.supervisor.fake_google import FakeGoogle

METER = SOURCE.with_name("meter.py")
SPEED = 100
DOCKER = """\
#!/bin/sh
if [ "$1" = ps ]; then cat "{root}/running"; else cat "{root}/restarts"; fi
"""


class FakeMachine:
    """Its counters go on while it is on; `cores` are percent of work, `network` bytes a second."""

    def __init__(self, folder: Path) -> None:
        self.google = FakeGoogle()
        self.proc, self.devices, self.bin = folder / "proc", folder / "dev", folder / "bin"
        for path in (self.proc / "net", self.devices / "vfio", self.bin):
            path.mkdir(parents=True)
        (self.devices / "vfio/0").touch()
        self.cores, self.network = [1.0, 2.0], 1_000.0
        self._ticks = [[0.0, 0.0] for _ in self.cores]
        self._bytes = 0.0
        self._at = time.monotonic()
        self.add_process(1, "/sbin/init")
        self._program(folder)
        self.meter: subprocess.Popen[bytes] | None = None
        self._on = threading.Event()
        self._thread = threading.Thread(target=self._count)
        self._advance()
        self._thread.start()

    def add_process(self, pid: int, command: str, *files: Path) -> None:
        """A process that runs a command and holds files open."""
        (self.proc / str(pid) / "fd").mkdir(parents=True)
        (self.proc / str(pid) / "cmdline").write_text(command.replace(" ", "\0"))
        for number, file in enumerate(files):
            (self.proc / str(pid) / "fd" / str(number)).symlink_to(file)

    def end_process(self, pid: int) -> None:
        folder = self.proc / str(pid)
        folder.rename(self.proc / f"gone-{pid}-{time.monotonic()}")

    def hold(self, pid: int = 7) -> None:
        self.add_process(pid, "python3 train.py", self.devices / "vfio/0")

    def show_containers(self, **restarts: int) -> None:
        """Containers that run, each with its restarts."""
        names = "".join(f"{name} \n" for name in restarts)
        (self.bin / "running").write_text(f"{names}job1 job-1\n")
        lines = [f"{name} {count}\n" for name, count in restarts.items()]
        (self.bin / "restarts").write_text("".join(lines))

    def start(self, *more: str, speed: int = SPEED) -> None:
        """Have the meter run; its seconds go by `speed` times as fast."""
        words = [sys.executable, "-B", str(METER), "--metadata", self.google.url]
        words += ["--home", str(self.bin), "--boot", "boot-1", "--speed", str(speed)]
        words += ["--proc", str(self.proc), "--devices", str(self.devices), *more]
        self.meter = subprocess.Popen(
            words, env={"PATH": f"{self.bin}:/usr/bin:/bin"}, stderr=subprocess.DEVNULL
        )

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [report for _, report in self.google.reports]

    def wait(
        self, is_right: Callable[[dict[str, Any]], Any], seconds: float = 25
    ) -> dict[str, Any]:
        """Wait for a report and return it."""
        google, until = self.google, time.monotonic() + seconds
        with google.changed:
            while not google.reports or not is_right(google.reports[-1][1]):
                assert google.changed.wait(until - time.monotonic()), google.reports[-3:]
            return google.reports[-1][1]

    def clean(self) -> None:
        if self.meter is not None:
            self.meter.kill()
            self.meter.wait()
        self._on.set()
        self._thread.join()
        self.google.close()

    def _program(self, folder: Path) -> None:
        path = self.bin / "docker"
        path.write_text(DOCKER.format(root=self.bin))
        path.chmod(0o755)
        self.show_containers()

    def _count(self) -> None:
        while not self._on.wait(0.01):
            self._advance()

    def _advance(self) -> None:
        seconds = (time.monotonic() - self._at) * SPEED
        self._at = time.monotonic()
        self._bytes += self.network * seconds / SPEED
        lines = []
        for number, percent in enumerate(self.cores):
            ticks = self._ticks[number]
            ticks[0] += percent * seconds
            ticks[1] += (100 - percent) * seconds
            lines.append(f"cpu{number} {ticks[0]:.0f} 0 0 {ticks[1]:.0f} 0 0 0 0 0 0\n")
        self._write("stat", "cpu 0 0 0 0\n" + "".join(lines))
        self._write("net/dev", f"head | head\n  eth0: {self._bytes:.0f}{' 0' * 15}\n")

    def _write(self, name: str, text: str) -> None:
        part = self.proc / f"{name}.new"
        part.write_text(text)
        part.replace(self.proc / name)


def dumped(document: object) -> int:
    """The bytes of a document."""
    return len(json.dumps(document).encode())
