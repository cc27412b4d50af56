"""Resources by name, as they are and as they were a little while ago, for stale answers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.emulator.wire import NodeMessage, copied

KEPT = 5_000
Look = Callable[[str], NodeMessage | None]


@dataclass(frozen=True)
class Sight:
    """Everything at one moment: the names in order, and the way from a name to what is shown."""

    names: Sequence[str]
    look: Look

    def under(self, prefix: str) -> Sequence[str]:
        """Name those whose names begin so, however many others there are."""
        first = bisect_left(self.names, prefix)
        return self.names[first : bisect_left(self.names, f"{prefix}\U0010ffff", first)]


@dataclass(frozen=True)
class Glimpse:
    """Something just before it changed its state; None if there was no such thing."""

    at: float
    name: str
    before: NodeMessage | None


class StaleReads:
    """Knows all names, and the newest changes of state: lists lag by seconds, not by days."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._names: list[str] = []
        self._glimpses: deque[Glimpse] = deque(maxlen=KEPT)

    def note(self, at: float, name: str) -> None:
        """Remember what is shown now, because it is about to change."""
        seen = self._look(name)
        self._glimpses.append(Glimpse(at, name, None if seen is None else copied(seen)))

    def add(self, name: str) -> None:
        insort(self._names, name)

    def remove(self, name: str) -> None:
        del self._names[bisect_left(self._names, name)]

    def sight(self, moment: float | None = None) -> Sight:
        """Show all as it is or, for a moment, as it was then."""
        if moment is None:
            return Sight(self._names, self._look)
        changed: dict[str, NodeMessage | None] = {}
        for glimpse in reversed(self._glimpses):
            if glimpse.at <= moment:
                break
            changed[glimpse.name] = glimpse.before
        there = {name for name in self._names if name not in changed}
        there |= {name for name, seen in changed.items() if seen is not None}
        return Sight(
            sorted(there), lambda name: changed[name] if name in changed else self._look(name)
        )

    def clear(self) -> None:
        self._names.clear()
        self._glimpses.clear()
