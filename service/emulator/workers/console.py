"""The serial console of a worker: the newest lines of its scripts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from service.emulator.nodes.worker import Worker

MAX_LINES = 2000


class Console:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._dropped = 0

    def add_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._dropped += len(self._lines) == MAX_LINES
            self._lines.append(line)

    def describe_lines(self) -> dict[str, object]:
        """Return the kept lines, and the number of dropped lines before them."""
        return {"lines": list(self._lines), "dropped": self._dropped}
