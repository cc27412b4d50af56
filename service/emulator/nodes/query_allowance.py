"""The rate limit of guest attribute queries, shared by a machine and its readers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# Google documents ten queries per minute and machine, its own and its readers', and at most three
# per second. Beyond the limit, a write may be lost.
QUERIES = 10.0
PER_SECONDS = 60.0
BURST = 3
MAX_TIMES = 1000


@dataclass
class Allowance:
    """The queries that a machine has left: a token bucket of ten that refills in a minute."""

    left: float = QUERIES
    at: float = 0.0
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))
    """The times of the newest queries, refused ones included."""
    reads: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))
    """The times of the readers' queries."""
    _taken: deque[float] = field(default_factory=lambda: deque(maxlen=BURST))

    def take_query(self, now: float, speed: float, *, is_read: bool = False) -> bool:
        """Count a query by a reader or by the machine itself. Returns False beyond the limit."""
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
