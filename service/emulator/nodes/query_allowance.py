"""How many queries of its guest attributes a machine has left, of its own and of its readers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# Google documents ten queries a minute for each machine, of its own and of those who read, and at
# most three in a second; beyond, what is being written may be lost.
QUERIES = 10.0
PER_SECONDS = 60.0
BURST = 3
MAX_TIMES = 1000


@dataclass
class Allowance:
    """The queries that a machine has left: a bucket of ten that fills up again in a minute."""

    left: float = QUERIES
    at: float = 0.0
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))
    """When the newest queries came, those that were too many among them."""
    reads: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))
    """When those of them came that are of its readers."""
    _taken: deque[float] = field(default_factory=lambda: deque(maxlen=BURST))

    def take(self, now: float, speed: float, *, is_read: bool = False) -> bool:
        """Count a query, of a reader or of the machine itself; False if it was one too many."""
        self.times.append(now)
        if is_read:
            self.reads.append(now)
        gained = (now - self.at) * speed * QUERIES / PER_SECONDS
        self.left = min(QUERIES, self.left + max(gained, 0.0))
        self.at = now
        burst = len(self._taken) == BURST and (now - self._taken[0]) * speed < 1
        if self.left < 1 or burst:
            return False
        self.left -= 1
        self._taken.append(now)
        return True
