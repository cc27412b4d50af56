"""The first look at a project after a takeover: other controllers wait until it was tried."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import structlog

from service.domain.lease import Lease

log = structlog.get_logger()

FIRST_LOOK_SECONDS = 30
"""Seconds that other controllers wait at most. What happened before the takeover is recorded
first, but a cloud without an answer must not delay a deletion for longer."""


class FirstLooks:
    """Tracks for each lease whether its first look is over. No method blocks."""

    def __init__(
        self,
        seconds: float = FIRST_LOOK_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._since: dict[Lease, float] = {}
        self._over: set[Lease] = set()
        self._lock = threading.Lock()

    def mark_done(self, lease: Lease) -> bool:
        """Record that the look was tried, whatever its result; returns whether this is news, so
        that turns may wait for it."""
        with self._lock:
            is_news = lease not in self._over
            self._over.add(lease)
            return is_news

    def is_over(self, lease: Lease) -> bool:
        """Whether other controllers may act under this lease. Their waiting time begins at the
        first call."""
        with self._lock:
            if lease in self._over:
                return True
            now = self._monotonic()
            if now - self._since.setdefault(lease, now) < self._seconds:
                return False
            self._over.add(lease)
        log.warning("daemon.first_look_is_slow", project=lease.project)
        return True

    def keep_only(self, leases: Iterable[Lease]) -> None:
        """Forget all other leases: they have ended, and would fill the memory."""
        held = set(leases)
        with self._lock:
            self._over &= held
            self._since = {lease: at for lease, at in self._since.items() if lease in held}
