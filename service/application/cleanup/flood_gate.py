"""A limit on how often something is requested within a minute."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from service.domain.clock import MINUTE
from service.domain.errors import RateLimited

_MOST_KEYS = 20_000
"""Keys that are counted at once; the key with the oldest last call is dropped first."""


class FloodGate:
    """Counts calls by key in the last minute, in one process. `reason` continues the refusal after
    "more than 30"."""

    def __init__(self, most: int, reason: str) -> None:
        self._most = most
        self._reason = reason
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, deque[int]] = OrderedDict()

    def count_call(self, key: str, now: int) -> None:
        """Count one more call. Raises RateLimited with the seconds to wait if there are too
        many."""
        with self._lock:
            calls = self._calls.setdefault(key, deque())
            self._calls.move_to_end(key)
            while calls and not now - MINUTE < calls[0] <= now:
                calls.popleft()
            if len(calls) >= self._most:
                wait = calls[0] + MINUTE - now
                raise RateLimited(f"more than {self._most} {self._reason}", retry_after=wait)
            calls.append(now)
            if len(self._calls) > _MOST_KEYS:
                self._calls.popitem(last=False)
