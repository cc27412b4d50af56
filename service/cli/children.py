"""The processes that `dev` starts, and how they are stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

STOP_SECONDS = 5.0
"""How long one may take to stop by itself."""


class Child:
    """One command of this program in a process of its own; its log goes where ours goes."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = command[0]
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
        )

    def end(self) -> str | None:
        """How it ended, in words; None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

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
