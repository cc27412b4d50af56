"""Resources by name, as they are now and as they were some seconds ago, for stale reads."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.emulator.wire import NodeMessage, copy_message

KEPT = 5_000
Look = Callable[[str], NodeMessage | None]


@dataclass(frozen=True)
class NameIndex:
    """All resources at one moment: their names in order, and a function that reads one by name."""

    names: Sequence[str]
    look: Look

    def list_under(self, prefix: str) -> Sequence[str]:
        """Return the names with a prefix, by binary search."""
        first = bisect_left(self.names, prefix)
        return self.names[first : bisect_left(self.names, f"{prefix}\U0010ffff", first)]


@dataclass(frozen=True)
class Glimpse:
    """A resource just before it changed its state; None if it did not exist."""

    at: float
    name: str
    before: NodeMessage | None


class StaleReads:
    """All names, and the newest `KEPT` changes of state: stale reads lag by seconds, not days."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._names: list[str] = []
        self._glimpses: deque[Glimpse] = deque(maxlen=KEPT)

    def note_change(self, at: float, name: str) -> None:
        """Record a resource as it is now; to be called before it changes."""
        seen = self._look(name)
        self._glimpses.append(Glimpse(at, name, None if seen is None else copy_message(seen)))

    def add_name(self, name: str) -> None:
        insort(self._names, name)

    def remove_name(self, name: str) -> None:
        del self._names[bisect_left(self._names, name)]

    def sight_at(self, moment: float | None = None) -> NameIndex:
        """Return all resources as they are now or, with a moment, as they were at that time."""
        if moment is None:
            return NameIndex(self._names, self._look)
        changed: dict[str, NodeMessage | None] = {}
        for glimpse in reversed(self._glimpses):
            if glimpse.at <= moment:
                break
            changed[glimpse.name] = glimpse.before
        there = {name for name in self._names if name not in changed}
        there |= {name for name, seen in changed.items() if seen is not None}
        return NameIndex(
            sorted(there), lambda name: changed[name] if name in changed else self._look(name)
        )

    def clear(self) -> None:
        self._names.clear()
        self._glimpses.clear()
