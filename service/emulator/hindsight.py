"""What nodes looked like a little while ago, for answers that lag behind the world."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.emulator.wire import NodeMessage, copied

KEPT = 5_000


@dataclass(frozen=True)
class Sight:
    """The nodes at one moment: their names in order, and the way from a name to what is shown."""

    names: Sequence[str]
    look: Callable[[str], NodeMessage | None]

    def under(self, prefix: str) -> Sequence[str]:
        """Name those whose names begin so, however many others there are."""
        first = bisect_left(self.names, prefix)
        return self.names[first : bisect_left(self.names, f"{prefix}\U0010ffff", first)]


@dataclass(frozen=True)
class Glimpse:
    """A node just before it changed its state; None if there was none."""

    at: float
    name: str
    before: NodeMessage | None


class Hindsight:
    """Remembers the newest changes of state only: lists lag by seconds, not by days."""

    def __init__(self) -> None:
        self._glimpses: deque[Glimpse] = deque(maxlen=KEPT)

    def note(self, at: float, name: str, before: NodeMessage | None) -> None:
        seen = None if before is None else copied(before)
        self._glimpses.append(Glimpse(at, name, seen))

    def before(self, now: Sight, moment: float) -> Sight:
        """Give the nodes as they were shown at a moment, from how they are shown now."""
        changed: dict[str, NodeMessage | None] = {}
        for glimpse in reversed(self._glimpses):
            if glimpse.at <= moment:
                break
            changed[glimpse.name] = glimpse.before
        there = {name for name in now.names if name not in changed}
        there |= {name for name, seen in changed.items() if seen is not None}
        return Sight(
            sorted(there), lambda name: changed[name] if name in changed else now.look(name)
        )

    def clear(self) -> None:
        self._glimpses.clear()
