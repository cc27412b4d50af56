"""Processes that a command starts, and how they are stopped."""

from __future__ import annotations

import signal
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
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
