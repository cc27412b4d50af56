"""One worker with its supervisor as a process, a fake docker and a fake Google."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from service.domain.jobs.job import JobSpec
from service.domain.jobs.task import (
    NO_DEVICE,
    PULL_FAILURES,
    container_name,
    docker_options,
    google_registry,
    log_template,
    storage_checks,
)
from tests.supervisor.fake_google import FakeGoogle

SOURCE = Path(__file__).resolve().parents[2] / "service/supervisor/supervisor.py"
SPEED = 50
FLOCK = shutil.which("flock") or "flock"


def load_program(source: Path) -> Any:
    """Load a file by its path, as nothing may import it."""
    spec = importlib.util.spec_from_file_location(f"steward_{source.stem}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find_python(version: str) -> str | None:
    """Find a Python of that version which starts: among those of pyenv, or on PATH."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = map(str, sorted(root.glob(f"versions/{version}.*/bin/python3")))
    for found in (*installed, shutil.which(f"python{version}")):
        if (
            found
            and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0
        ):
            return found
    return None


@pytest.fixture(scope="session")
def supervisor() -> Any:
    return load_program(SOURCE)


def make_task(**changes: Any) -> dict[str, Any]:
    """Make a task that runs `exit 0` in a shell; `shell` and `container` change what runs, `data`
    and `checkpoint_dir` the storage that is tried."""
    attempt, image = changes.pop("attempt", "job-1"), "us-docker.pkg.dev/p/r/i:1"
    spec = JobSpec(image, data=changes.pop("data", ()), checkpoint_dir=changes.pop("written", ""))
    container = {
        "image": image,
        "command": ["sh"],
        "args": ["-c", changes.pop("shell", "exit 0")],
        "env": {},
        "forms": ["device", "privileged"],
        "options": docker_options(attempt, "", ()),
        "login": google_registry(image),
        **changes.pop("container", {}),
    }
    return {
        "v": 1,
        "generation": 1,
        "attempt": attempt,
        "name": container_name(attempt),
        "action": "run",
        "slice": 0,
        "slices": 1,
        "workers": [0, 1],
        "first_worker": 4,
        "container": container,
        "stop_grace_seconds": 25,
        "max_duration_seconds": 86400,
        "device_wait_seconds": 20,
        "pull_seconds": 600,
        "report_seconds": 15,
        "pull_failures": PULL_FAILURES,
        "no_device": NO_DEVICE,
        "log": {
            "write": log_template("p", {"job": "j"}),
            "budget_bytes": changes.pop("budget", 1 << 30),
        },
        "storage": list(storage_checks(spec, "us-west4")),
        **changes,
    }


class Worker:
    """A worker of a node. Its supervisor can be started, killed, and started again."""

    def __init__(self, folder: Path, google: FakeGoogle) -> None:
        self.google, self.home, self.docker = google, folder / "home", folder / "docker"
        self.devices, self.bin = folder / "dev", folder / "bin"
        for path in (self.home, self.docker, self.devices / "vfio", self.bin):
            path.mkdir(parents=True)
        (self.devices / "vfio/0").touch()
        self.note_startup("none")
        self.boot_file = folder / "boot_id"
        self.reboot("boot-1")
        fake = Path(__file__).with_name("fake_docker.py")
        program = self.bin / "docker"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {fake} "$@"\n')
        program.chmod(0o755)
        self.output = folder / "console"
        self.python = sys.executable
        self.processes: list[subprocess.Popen[bytes]] = []

    def note_startup(self, state: str, code: int | None = None) -> None:
        """What the boot script notes of the caller's own script."""
        (self.home / "startup.json").write_text(json.dumps({"state": state, "exit_code": code}))

    def reboot(self, boot: str) -> None:
        """The machine starts again: no process of before is left."""
        for pid in self.docker.glob("containers/*/pid"):
            with suppress(ProcessLookupError, ValueError):
                os.killpg(int(pid.read_text()), signal.SIGKILL)
        self.boot_file.write_text(f"{boot}\n")
        (self.docker / "boot").write_text(boot)

    def start(self, *more: str, path: str | None = None) -> subprocess.Popen[bytes]:
        lock = [FLOCK, "--no-fork", "--nonblock", str(self.home / "lock")]
        words = [
            *lock,
            self.python,
            "-B",
            str(SOURCE),
            "--home",
            str(self.home),
            "--digest",
            "d" * 64,
        ]
        for name in ("metadata", "logging", "storage"):
            words += [f"--{name}", self.google.url]
        words += ["--devices", str(self.devices), "--boot", self.boot_file.read_text().strip()]
        where = path if path is not None else f"{self.bin}:{os.environ['PATH']}"
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [*words, "--speed", str(SPEED), *more],
                env={"PATH": where, "FAKE_DOCKER": str(self.docker)},
                stdout=output,
                stderr=output,
            )
        self.processes.append(process)
        return process

    def crash(self) -> None:
        """Kill the supervisor, and wait until another one could start.

        A child that it was starting when it died keeps its lock for a moment. systemd would start
        the next one again; `start` does so once only.
        """
        process = self.processes[-1]
        process.kill()
        process.wait()
        with (self.home / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def give(self, **changes: Any) -> None:
        self.google.set_attribute("steward-task", json.dumps(make_task(**changes)))

    def wait(
        self, is_right: Callable[[dict[str, Any]], Any], seconds: float = 20
    ) -> dict[str, Any]:
        """Wait for a report and return it."""
        google, until = self.google, time.monotonic() + seconds
        with google.changed:
            while not (google.reports and is_right(google.reports[-1][1])):
                left = until - time.monotonic()
                assert left > 0, f"{google.reports[-3:]}\n{self.output.read_text()[-3000:]}"
                google.changed.wait(left)
            return google.reports[-1][1]

    def wait_state(self, *states: str) -> dict[str, Any]:
        return self.wait(lambda report: report["state"] in states)

    def wait_until(self, is_right: Callable[[], Any], seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while not is_right():
            assert time.monotonic() < until, self.output.read_text()[-3000:]
            time.sleep(0.01)

    def runs(self) -> list[dict[str, Any]]:
        path = self.docker / "runs"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def lines(self) -> list[str]:
        return [entry["textPayload"] for entry in self.google.entries]

    def clean(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        folder = self.docker / "containers"
        for path in folder.iterdir() if folder.exists() else ():
            words = [str(self.bin / "docker"), "rm", "--force", path.name]
            subprocess.run(words, env={**os.environ, "FAKE_DOCKER": str(self.docker)}, check=False)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    google = FakeGoogle()
    made = Worker(tmp_path, google)
    yield made
    made.clean()
    google.close()
