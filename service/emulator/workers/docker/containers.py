"""The containers of a worker as files, which all commands share."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from service.emulator.workers.docker.clock import now

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
KILLED = 128 + signal.SIGKILL
LOOK_SECONDS = 0.02
START_SECONDS = 5.0


class ContainerRefused(Exception):
    """An error of docker's daemon."""


@dataclass(frozen=True)
class Container:
    """The settings of a container, which never change."""

    id: str
    name: str
    image: str
    command: list[str]
    env: dict[str, str]
    labels: dict[str, str]
    created: float
    boot: str
    """The boot of the worker in which the container started, and with which it ends."""
    auto_remove: bool = False
    detached: bool = False
    """Whether no command waits for the container, so that it removes itself."""
    options: dict[str, list[str]] = field(default_factory=dict)
    restarts: int = 0
    is_told: bool = False
    """Whether the container comes from the node's configured activity, without a process."""

    @property
    def short_id(self) -> str:
        return self.id[:12]


@dataclass(frozen=True)
class State:
    status: str = "created"
    pid: int = 0
    """The container's first process."""
    shim: int = 0
    """The process that supervises the container; both are 0 before the start."""
    exit_code: int = 0
    started: float = 0.0
    finished: float = 0.0
    oom_killed: bool = False
    error: str = ""
    """Why the start failed; the status then stays `created`."""

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def is_over(self) -> bool:
        return self.status == "exited" or bool(self.error)


class Store:
    """All containers of this worker; `boot` is the present boot.

    `caller` is the environment of the docker command.
    """

    def __init__(self, root: Path, boot: str, caller: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.boot = boot
        self.caller = caller or {}
        for folder in ("containers", "names"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def add(self, container: Container) -> None:
        """Write a new container. Raises ContainerRefused for an invalid or used name."""
        if NAME.fullmatch(container.name) is None:
            raise ContainerRefused(
                f"Invalid container name ({container.name}), only {NAME.pattern[:-1]} are allowed"
            )
        claim = self.root / "names" / container.name
        try:
            with claim.open("x") as file:
                file.write(container.id)
        except FileExistsError:
            raise ContainerRefused(
                f'Conflict. The container name "/{container.name}" is already in use by container'
                f' "{claim.read_text()}". You have to remove (or rename) that container to be able'
                " to reuse that name."
            ) from None
        directory = self.directory_of(container)
        (directory / "work").mkdir(parents=True, mode=0o700)
        _write_json(directory / "state", asdict(State()))
        (directory / "log").touch()
        _write_json(directory / "config", asdict(container))

    def directory_of(self, container: Container) -> Path:
        return self.root / "containers" / container.id

    def list_all(self) -> list[Container]:
        """Return the containers, newest first."""
        found = [read_container(path) for path in (self.root / "containers").iterdir()]
        known = [container for container in found if container is not None]
        try:
            # The containers of the node's configured activity; see `workers.proc`.
            configured = json.loads((self.root / "told").read_text())
        except FileNotFoundError:
            configured = {"containers": 0}
        known += [
            Container(
                id=f"{number + 1:064x}",
                name=f"notebook-{number}",
                image="notebook:latest",
                command=["notebook"],
                env={},
                labels={},
                created=0.0,
                boot=self.boot,
                restarts=configured["restarts"],
                is_told=True,
            )
            for number in range(configured["containers"])
        ]
        return sorted(known, key=lambda container: -container.created)

    def get_container(self, reference: str) -> Container:
        """Return a container by id, name or id prefix. Raises ContainerRefused."""
        everything = self.list_all()
        exact = [
            container for container in everything if reference in {container.id, container.name}
        ]
        prefixed = [container for container in everything if container.id.startswith(reference)]
        if not reference or not (exact or prefixed):
            raise ContainerRefused(f"No such container: {reference}")
        return (exact or prefixed)[0]

    def read_state(self, container: Container) -> State:
        """Return a container's state; killed if its process died without writing an end."""
        if container.is_told:
            return State(status="running")
        state = get_state(self.directory_of(container))
        if not state.is_running or (container.boot == self.boot and _is_alive(state.shim)):
            return state
        # The container may have ended normally since the first read.
        state = get_state(self.directory_of(container))
        if state.is_running:
            state = replace(state, status="exited", exit_code=KILLED, finished=now())
            write_state(self.directory_of(container), state)
        return state

    def wait_for_exit(self, container: Container) -> int:
        """Wait until a container has exited, and return its exit code."""
        while True:
            state = self.read_state(container)
            if state.is_over:
                return state.exit_code
            time.sleep(LOOK_SECONDS)

    def wait_for_start(self, container: Container) -> None:
        """Wait until a container has started, for at most `START_SECONDS`."""
        end = time.monotonic() + START_SECONDS
        while self.read_state(container) == State() and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)

    def remove(self, container: Container) -> None:
        remove_files(self.directory_of(container), container.name)


def read_container(directory: Path) -> Container | None:
    """Return a container's settings; None during its creation or removal."""
    try:
        return Container(**json.loads((directory / "config").read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None


def get_state(directory: Path) -> State:
    """Return a state; exited for a container that is gone."""
    try:
        return State(**json.loads((directory / "state").read_text()))
    except FileNotFoundError:
        return State(status="exited")


def write_state(directory: Path, state: State) -> None:
    """Write a state, unless the container was removed."""
    with suppress(FileNotFoundError):
        _write_json(directory / "state", asdict(state))


def remove_files(directory: Path, name: str) -> None:
    """Remove all files of a container, and free its name."""
    (directory / "config").unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    (directory.parents[1] / "names" / name).unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    # A dead process remains until its parent reaps it: this process, or another one.
    with suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    with suppress(OSError):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _write_json(path: Path, content: object) -> None:
    """Write a file atomically."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(content))
    part.replace(path)
