"""The containers of a worker as files, so that one command sees what another one did."""

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
    """What the daemon would answer with an error."""


@dataclass(frozen=True)
class Container:
    """What a container was made of; it never changes."""

    id: str
    name: str
    image: str
    command: list[str]
    env: dict[str, str]
    labels: dict[str, str]
    created: float
    boot: str
    """The boot of the worker in which it was started: it does not live longer."""
    auto_remove: bool = False
    detached: bool = False
    """Whether no command stays with it, so that it has to remove itself."""
    options: dict[str, list[str]] = field(default_factory=dict)
    restarts: int = 0
    is_told: bool = False
    """Whether it is only said to run: nothing stands behind it but a word to the emulator."""

    @property
    def short_id(self) -> str:
        return self.id[:12]


@dataclass(frozen=True)
class State:
    status: str = "created"
    pid: int = 0
    """The container's first process."""
    shim: int = 0
    """The process that looks after the container; both are 0 before the start."""
    exit_code: int = 0
    started: float = 0.0
    finished: float = 0.0
    oom_killed: bool = False
    error: str = ""
    """Why the container could not be started; it stays `created` then."""

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def over(self) -> bool:
        return self.status == "exited" or bool(self.error)


class Store:
    """Everything that docker would know on this worker; `boot` is the one that is under way.

    `caller` is the environment that docker was called with.
    """

    def __init__(self, root: Path, boot: str, caller: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.boot = boot
        self.caller = caller or {}
        for each in ("containers", "names"):
            (root / each).mkdir(parents=True, exist_ok=True)

    def add(self, container: Container) -> None:
        """Write a new container down; raises Refused for a name that cannot be or is taken."""
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
        directory = self.directory(container)
        (directory / "work").mkdir(parents=True, mode=0o700)
        _write(directory / "state", asdict(State()))
        (directory / "log").touch()
        _write(directory / "config", asdict(container))

    def directory(self, container: Container) -> Path:
        return self.root / "containers" / container.id

    def all(self) -> list[Container]:
        """List the containers, the newest first."""
        found = [read(path) for path in (self.root / "containers").iterdir()]
        known = [each for each in found if each is not None]
        return sorted([*known, *self._told()], key=lambda each: -each.created)

    def _told(self) -> list[Container]:
        """List the containers that the node was told to have; see `workers.proc`."""
        try:
            told = json.loads((self.root / "told").read_text())
        except FileNotFoundError:
            return []
        return [
            Container(
                id=f"{number + 1:064x}",
                name=f"notebook-{number}",
                image="notebook:latest",
                command=["notebook"],
                env={},
                labels={},
                created=0.0,
                boot=self.boot,
                restarts=told["restarts"],
                is_told=True,
            )
            for number in range(told["containers"])
        ]

    def find(self, reference: str) -> Container:
        """Look a container up by its id, its name or the beginning of its id; raises Refused."""
        everything = self.all()
        exact = [each for each in everything if reference in {each.id, each.name}]
        prefixed = [each for each in everything if each.id.startswith(reference)]
        if not reference or not (exact or prefixed):
            raise ContainerRefused(f"No such container: {reference}")
        return (exact or prefixed)[0]

    def state(self, container: Container) -> State:
        """Say how a container is; one whose process died without a word was killed."""
        if container.is_told:
            return State(status="running")
        state = state_of(self.directory(container))
        if not state.running or (container.boot == self.boot and _alive(state.shim)):
            return state
        # It may have ended in order since it was looked at.
        state = state_of(self.directory(container))
        if state.running:
            state = replace(state, status="exited", exit_code=KILLED, finished=now())
            put_state(self.directory(container), state)
        return state

    def wait(self, container: Container) -> int:
        """Wait until a container has exited and say with which code."""
        while True:
            state = self.state(container)
            if state.over:
                return state.exit_code
            time.sleep(LOOK_SECONDS)

    def wait_begun(self, container: Container) -> None:
        """Wait, but not for long, until a container that is being started has been."""
        end = time.monotonic() + START_SECONDS
        while self.state(container) == State() and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)

    def remove(self, container: Container) -> None:
        forget(self.directory(container), container.name)


def read(directory: Path) -> Container | None:
    """Read what a container is made of; None for one that is just being made or removed."""
    try:
        return Container(**json.loads((directory / "config").read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None


def state_of(directory: Path) -> State:
    """Read a state; a container that is gone has exited."""
    try:
        return State(**json.loads((directory / "state").read_text()))
    except FileNotFoundError:
        return State(status="exited")


def put_state(directory: Path, state: State) -> None:
    """Write a state, unless the container was removed."""
    with suppress(FileNotFoundError):
        _write(directory / "state", asdict(state))


def forget(directory: Path, name: str) -> None:
    """Remove a container with all its files; its name is free afterwards."""
    (directory / "config").unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    (directory.parents[1] / "names" / name).unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    # Who died stays until his parent asks for him: we, or whoever adopted him.
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


def _write(path: Path, content: object) -> None:
    """Write a file at once or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(content))
    part.replace(path)
