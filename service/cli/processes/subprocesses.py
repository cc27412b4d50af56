"""Child processes of a command, and their end. A child also ends after a parent that was killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

STOP_SECONDS = 5.0
"""How long a child may take to stop before it is killed."""

PARENT = "STEWARD_PARENT"
"""The environment variable with the process id of the parent. Unset without a parent."""

LOOK_SECONDS = 0.5
GRACE_SECONDS = 5.0


class Child:
    """A command of this program in a process of its own. Its log goes to the parent's stderr."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], files: Sequence[int] = ()
    ) -> None:
        """`files` are descriptors that the child inherits under the same numbers."""
        self.name = command[0]
        self._files = files
        self._command = [sys.executable, "-m", "service.cli", *command]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, again if it has ended. It has a session of its own, so that Ctrl-C
        reaches the parent only."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            self._command,
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self._files,
        )

    def describe_end(self) -> str | None:
        """How the process ended, as text. None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    @property
    def pid(self) -> int | None:
        """Process id. None before the start."""
        return None if self._process is None else self._process.pid

    def ask_to_stop(self) -> None:
        """Send SIGTERM, and do not wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after STOP_SECONDS."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def stop_all(children: Sequence[Child]) -> None:
    """Stop all children at the same time."""
    for child in children:
        child.ask_to_stop()
    for child in children:
        child.stop()


@contextmanager
def stopped_by_signals(*, is_patient: bool = True) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set. Without `is_patient` a second signal ends the process.

    A thread sets the event. A signal handler could interrupt `wait` or `set` of the same event,
    which hold its lock, and would wait for that lock forever.
    """
    stop, numbers = threading.Event(), (signal.SIGTERM, signal.SIGINT)
    reader, writer = socket.socketpair()
    writer.settimeout(0)  # a handler may not block

    def handle_signal(number: int, _frame: object) -> None:
        if not is_patient:
            signal.signal(number, signal.SIG_DFL)

    def forward_signals() -> None:
        with reader:
            while reader.recv(1):  # until the other end is closed
                stop.set()

    threading.Thread(target=forward_signals, name="signals", daemon=True).start()
    wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    before = [signal.signal(number, handle_signal) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        writer.close()


def end_with_parent() -> None:
    """Watch the parent of this process, if one is set, and end this process soon after it."""
    parent = os.environ.get(PARENT, "")
    if parent.isdigit():
        threading.Thread(target=_end_after, args=[int(parent)], name="parent", daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
