"""Supervises one container: starts its process, keeps its output, and kills its orphans.

As in a container, the end of the first process ends all processes that it started. Only the
standard library is imported, and there is one thread, because the process forks.
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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from service.emulator.workers.docker import worker
from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import (
    Container,
    State,
    get_state,
    read_container,
    remove_files,
    write_state,
)
from service.emulator.workers.docker.log import STREAMS, Writer, bounds_of
from service.emulator.workers.docker.plan import disk_bytes, hold_seconds, plan_of
from service.emulator.workers.docker.play import SIGNALS, play_container
from service.emulator.workers.init import adopt_orphans, kill_all, open_wake_pipe, reap_children
from service.emulator.workers.options import log_options

# The directories with a container's command, independent of its own PATH.
PATH = ("/usr/bin", "/bin", "/usr/local/bin")
PYTHONS = ("python", "python3")
CHUNK = 64 * 1024
PR_SET_PDEATHSIG = 1
NOT_FOUND, NOT_ALLOWED = 127, 126
# A waiting command needs this time to read the exit code of a container that removes itself.
FAREWELL_SECONDS = 0.2
RESET = (*SIGNALS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def program_of(container: Container) -> str:
    """Return the program on this machine that the command names; empty for a played container."""
    name = container.command[0] if container.command else ""
    if not name or container.env.get("EMULATOR_PLAY", "") in {"1", "true"}:
        return ""
    if name.startswith("/"):
        return name if Path(name).is_file() else ""
    if "/" in name:
        return ""
    if name in PYTHONS:
        return sys.executable
    paths = (Path(folder, name) for folder in PATH)
    return next((str(path) for path in paths if path.is_file() and os.access(path, os.X_OK)), "")


def supervise_container(directory: Path) -> None:
    """Supervise a container from its start to its end."""
    container = read_container(directory)
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
        # The text is docker's.
        failed = State(
            exit_code=NOT_FOUND if error.errno == errno.ENOENT else NOT_ALLOWED,
            error=(
                "failed to create task for container: failed to create shim task: OCI runtime"
                " create failed: runc create failed: unable to start container process: error"
                f' during container init: exec: "{container.command[0]}":'
                f" {str(error.strerror).lower()}: unknown"
            ),
        )
        write_state(directory, failed)
        return

    started = now()
    state = State("running", process.pid, os.getpid(), started=started)
    # Reported before the state changes, so that the caller finds the chips busy.
    report_activity(directory, starting=True)
    write_state(directory, state)
    code = process.wait_for_end()
    _hold_devices(container)

    out_of_memory = False
    with suppress(ValueError):
        out_of_memory = not program_of(container) and plan_of(container).out_of_memory
    over = replace(
        state,
        status="exited",
        exit_code=code,
        finished=now(),
        oom_killed=code == 128 + signal.SIGKILL and out_of_memory,
    )
    write_state(directory, over)
    report_activity(directory)
    if container.auto_remove and container.detached:
        time.sleep(FAREWELL_SECONDS)
        remove_files(directory, container.name)


class Process:
    """The first process of a container, and the pipes of its output."""

    def __init__(self, container: Container, directory: Path) -> None:
        self.pid = 0
        self._container = container
        self._directory = directory
        self._status: int | None = None
        self._pipes: dict[int, str] = {}
        self._log = Writer(directory / "log", bounds_of(log_options(container.options)))

    def start(self) -> None:
        """Start the process, and wait until its program has begun. Raises OSError."""
        self._wake = open_wake_pipe()
        outputs = {letter: os.pipe() for letter in STREAMS}
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._become_container([end for _, end in outputs.values()], writing)
            except OSError as error:
                os.write(writing, str(error.errno or errno.EIO).encode())
            finally:
                os._exit(NOT_ALLOWED)
        os.close(writing)
        for letter, (ours, theirs) in outputs.items():
            os.close(theirs)
            os.set_blocking(ours, False)
            self._pipes[ours] = letter
        with os.fdopen(reading) as pipe:
            error_number = pipe.read()
        if error_number:
            raise OSError(int(error_number), os.strerror(int(error_number)))

    def wait_for_end(self) -> int:
        """Keep the output until the end, kill orphans, and return the exit code."""
        with selectors.DefaultSelector() as selector:
            for pipe in (self._wake, *self._pipes):
                selector.register(pipe, selectors.EVENT_READ)
            while not self._has_ended():
                for key, _ in selector.select():
                    if key.fd == self._wake:
                        os.read(self._wake, 4096)
                    elif not self._keep_output(key.fd):
                        selector.unregister(key.fd)
        self._kill_orphans()
        for pipe in self._pipes:
            while self._keep_output(pipe):
                pass
        self._log.close()
        code = os.waitstatus_to_exitcode(self._status or 0)
        return code if code >= 0 else 128 - code

    def _become_container(self, outputs: list[int], told: int) -> NoReturn:
        """Turn this forked process into the container's process. Raises OSError."""
        os.setsid()
        if sys.platform == "linux":
            # The kernel kills the container's process if the supervising process is killed.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        os.chdir(self._directory / "work")
        os.umask(0o022)
        # The environment can ask for a full disk: writes beyond the limit fail, and the signal for
        # them is ignored, because a full disk sends none.
        with suppress(ValueError):
            limit = disk_bytes(self._container.env)
            if limit is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for target, output in enumerate(outputs, start=1):
            os.dup2(output, target)
        # Only this descriptor stays open until the program begins.
        os.closerange(3, told)
        os.closerange(told + 1, os.sysconf("SC_OPEN_MAX"))
        program = program_of(self._container)
        if not program:
            os._exit(play_container(self._container, lambda: os.close(told)))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        command = [os.fsencode(word) for word in self._container.command]
        variables = self._container.env.items()
        env = {os.fsencode(key): os.fsencode(value) for key, value in variables}
        os.execve(program, command, env)  # noqa: S606 - the container's own program

    def _has_ended(self) -> bool:
        for pid, status in reap_children():
            if pid == self.pid:
                self._status = status
        return self._status is not None

    def _keep_output(self, pipe: int) -> bool:
        """Write some output to the log; False if there is none."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return False
        self._log.write_output(self._pipes[pipe], data)
        return bool(data)

    def _kill_orphans(self) -> None:
        if sys.platform == "linux":
            kill_all()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def report_activity(directory: Path, *, starting: bool = False) -> None:
    """Report the present activity of all running containers of the worker to the emulator.

    With `starting`, the container of this directory counts as running.
    """
    busy: dict[str, float] = {"duty_cycle": 0.0, "tensorcore": 0.0, "cpu": 0.0}
    for path in directory.parent.iterdir():
        container = read_container(path)
        counts = get_state(path).is_running or (starting and path == directory)
        if container is None or not counts:
            continue
        try:
            plan = plan_of(container)
        except ValueError:
            continue
        busy = {key: max(value, getattr(plan, key)) for key, value in busy.items()}
    worker.send_activity(busy)


def _hold_devices(container: Container) -> None:
    """Start a process that holds the first chip, as the kernel does after an end in the field."""
    directory = Path(os.environ.get("EMULATOR_DEVICES", ""))
    with suppress(ValueError):
        seconds = hold_seconds(container.env)
        device = min([*directory.glob("vfio/[0-9]*"), *directory.glob("accel*")])
        if seconds:
            held = os.open(device, os.O_RDONLY)
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                time.sleep(seconds / worker.read_speed())
                os._exit(0)
            os.close(held)


def main() -> None:
    supervise_container(Path(sys.argv[1]))
