"""Processes that a command starts, and how they are stopped."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

STOP_SECONDS = 5.0
"""How long one may take to stop by itself."""


class Child:
    """One command of this program in a process of its own; its log goes where ours goes."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], files: Sequence[int] = ()
    ) -> None:
        """`files` are descriptors that it is given, under the same numbers."""
        self.name = command[0]
        self._files = files
        self._command = [sys.executable, "-m", "service.cli", *command]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again. In a session of its own: Ctrl-C is for the parent alone."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            self._command,
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self._files,
        )

    def end(self) -> str | None:
        """How it ended, in words; None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    @property
    def pid(self) -> int | None:
        """Its process id; None before it was started."""
        return None if self._process is None else self._process.pid

    def ask_to_stop(self) -> None:
        """Send SIGTERM, and do not wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """Ask it to stop, and after a while make it."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def stop_all(children: Sequence[Child]) -> None:
    """Stop them at the same time, so that it takes as long as the slowest of them."""
    for child in children:
        child.ask_to_stop()
    for child in children:
        child.stop()


@contextmanager
def stopped_by_signals(*, is_patient: bool = True) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set. Unless `is_patient`, the second one ends the process.

    A thread sets the event. A handler could interrupt `wait` or `set` of the same event, which hold
    its lock, and would wait for that lock for ever.
    """
    stop, numbers = threading.Event(), (signal.SIGTERM, signal.SIGINT)
    reader, writer = socket.socketpair()
    writer.settimeout(0)  # a handler may not block

    def note(number: int, _frame: object) -> None:
        if not is_patient:
            signal.signal(number, signal.SIG_DFL)

    def listen() -> None:
        with reader:
            while reader.recv(1):  # until the other end is closed
                stop.set()

    threading.Thread(target=listen, name="signals", daemon=True).start()
    wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        writer.close()
