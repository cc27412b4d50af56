"""Looks after one container: starts its process, keeps its output, and ends what it left behind.

As in a container, the end of the first process is the end of all that it started, wherever that
ran away to. The standard library only, and one thread: it forks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import selectors
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from service.emulator.workers.docker import worker
from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import (
    Container,
    State,
    forget,
    put_state,
    read,
    state_of,
)
from service.emulator.workers.docker.log import STREAMS, Writer, bounds_of
from service.emulator.workers.docker.plan import disk_bytes, hold_seconds, plan_of
from service.emulator.workers.docker.play import SIGNALS, play
from service.emulator.workers.init import adopt_orphans, exited, kill_all, woken_by_children
from service.emulator.workers.options import log_options

# Where a container's command is looked for, which has nothing to do with its own PATH.
PATH = ("/usr/bin", "/bin", "/usr/local/bin")
PYTHONS = ("python", "python3")
CHUNK = 64 * 1024
PR_SET_PDEATHSIG = 1
NOT_FOUND, NOT_ALLOWED = 127, 126
# Whoever waits for a container that removes itself must be able to read its exit code.
FAREWELL_SECONDS = 0.2
RESET = (*SIGNALS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def program_of(container: Container) -> str:
    """Find the file that the command names on this machine; empty for one that is to be played."""
    name = container.command[0] if container.command else ""
    if not name or container.env.get("EMULATOR_PLAY", "") in {"1", "true"}:
        return ""
    if name.startswith("/"):
        return name if Path(name).is_file() else ""
    if "/" in name:
        return ""
    if name in PYTHONS:
        return sys.executable
    found = (Path(each, name) for each in PATH)
    return next((str(each) for each in found if each.is_file() and os.access(each, os.X_OK)), "")


def live(directory: Path) -> None:
    """Be there from the start of a container to its end."""
    container = read(directory)
    if container is None:
        return
    os.setsid()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    adopt_orphans()
    process = Process(container, directory)
    try:
        process.start()
    except OSError as error:
        put_state(directory, _not_started(container, error))
        return
    started = now()
    state = State("running", process.pid, os.getpid(), started=started)
    # Whoever started it finds the chips busy.
    report(directory, starting=True)
    put_state(directory, state)
    code = process.attend()
    _hold_devices(container)
    over = replace(
        state,
        status="exited",
        exit_code=code,
        finished=now(),
        oom_killed=code == 128 + signal.SIGKILL and _runs_out_of_memory(container),
    )
    put_state(directory, over)
    report(directory)
    if container.auto_remove and container.detached:
        time.sleep(FAREWELL_SECONDS)
        forget(directory, container.name)


class Process:
    """The first process of a container, and the pipes that its output comes through."""

    def __init__(self, container: Container, directory: Path) -> None:
        self.pid = 0
        self._container = container
        self._directory = directory
        self._status: int | None = None
        self._pipes: dict[int, str] = {}
        self._log = Writer(directory / "log", bounds_of(log_options(container.options)))

    def start(self) -> None:
        """Start it, and wait until its program has begun; raises OSError."""
        self._wake = woken_by_children()
        outputs = {letter: os.pipe() for letter in STREAMS}
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._become([end for _, end in outputs.values()], writing)
            except OSError as error:
                os.write(writing, str(error.errno or errno.EIO).encode())
            finally:
                os._exit(NOT_ALLOWED)
        os.close(writing)
        for letter, (ours, theirs) in outputs.items():
            os.close(theirs)
            os.set_blocking(ours, False)
            self._pipes[ours] = letter
        with os.fdopen(reading) as told:
            trouble = told.read()
        if trouble:
            raise OSError(int(trouble), os.strerror(int(trouble)))

    def attend(self) -> int:
        """Keep what it writes until it ends, end what it left behind, and give its exit code."""
        with selectors.DefaultSelector() as selector:
            for each in (self._wake, *self._pipes):
                selector.register(each, selectors.EVENT_READ)
            while not self._has_ended():
                for key, _ in selector.select():
                    if key.fd == self._wake:
                        os.read(self._wake, 4096)
                    elif not self._keep(key.fd):
                        selector.unregister(key.fd)
        self._kill_the_rest()
        for each in self._pipes:
            while self._keep(each):
                pass
        self._log.close()
        code = os.waitstatus_to_exitcode(self._status or 0)
        return code if code >= 0 else 128 - code

    def _become(self, outputs: list[int], told: int) -> NoReturn:
        """Turn this process, just forked, into the container's; raises OSError."""
        os.setsid()
        if sys.platform == "linux":
            # Nothing of the container goes on if the process that looks after it is killed.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self._directory / "work")
        os.umask(0o022)
        _limit_disk(self._container)
        for target, each in enumerate(outputs, start=1):
            os.dup2(each, target)
        # This one is open until the program begins, and nothing else.
        os.closerange(3, told)
        os.closerange(told + 1, os.sysconf("SC_OPEN_MAX"))
        program = program_of(self._container)
        if not program:
            os._exit(play(self._container, lambda: os.close(told)))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        command = [os.fsencode(each) for each in self._container.command]
        os.execve(program, command, _bytes(self._container.env))  # noqa: S606 - what it is for

    def _has_ended(self) -> bool:
        for pid, status in exited():
            if pid == self.pid:
                self._status = status
        return self._status is not None

    def _keep(self, pipe: int) -> bool:
        """Keep some of what was written; False if there is no more."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return False
        self._log.take(self._pipes[pipe], data)
        return bool(data)

    def _kill_the_rest(self) -> None:
        if sys.platform == "linux":
            kill_all()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def report(directory: Path, *, starting: bool = False) -> None:
    """Tell the emulator what all running containers of the worker keep busy now.

    One that is `starting` counts as running.
    """
    busy: dict[str, float] = {"duty_cycle": 0.0, "tensorcore": 0.0, "cpu": 0.0}
    for each in directory.parent.iterdir():
        container = read(each)
        counts = state_of(each).running or (starting and each == directory)
        if container is None or not counts:
            continue
        try:
            plan = plan_of(container)
        except ValueError:
            continue
        busy = {key: max(value, getattr(plan, key)) for key, value in busy.items()}
    worker.tell(busy)


def _not_started(container: Container, error: OSError) -> State:
    """Say why a command cannot be run, as docker does."""
    missing = error.errno == errno.ENOENT
    return State(
        exit_code=NOT_FOUND if missing else NOT_ALLOWED,
        error=(
            "failed to create task for container: failed to create shim task: OCI runtime create"
            " failed: runc create failed: unable to start container process: error during"
            f' container init: exec: "{container.command[0]}":'
            f" {str(error.strerror).lower()}: unknown"
        ),
    )


def _hold_devices(container: Container) -> None:
    """Leave a process that holds the first chip, as the kernel is seen to do after an end."""
    directory = Path(os.environ.get("EMULATOR_DEVICES", ""))
    with suppress(ValueError):
        seconds = hold_seconds(container.env)
        device = min([*directory.glob("vfio/[0-9]*"), *directory.glob("accel*")])
        if seconds:
            held = os.open(device, os.O_RDONLY)
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                time.sleep(seconds / worker.speed())
                os._exit(0)
            os.close(held)


def _limit_disk(container: Container) -> None:
    """Have writes fail as on a full disk where the environment says so: none of its files grows
    beyond the limit. The signal for that is ignored, as a full disk sends none."""
    with suppress(ValueError):
        limit = disk_bytes(container.env)
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _runs_out_of_memory(container: Container) -> bool:
    with suppress(ValueError):
        return not program_of(container) and plan_of(container).out_of_memory
    return False


def _bytes(env: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(key): os.fsencode(value) for key, value in env.items()}


def main() -> None:
    live(Path(sys.argv[1]))
