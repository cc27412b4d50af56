"""The first look at a project that was just taken over: everybody else waits until it was tried."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import structlog

from service.domain.lease import Lease

log = structlog.get_logger()

FIRST_LOOK_SECONDS = 30
"""How long others wait for it at most: what it shows of the time before comes first, but a cloud
that gives no answer must not keep a deletion waiting for longer."""


class FirstLooks:
    """Knows of each lease whether its first look is over. Nobody waits inside."""

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

    def done(self, lease: Lease) -> bool:
        """It was tried, whatever came of it; answers whether somebody may have waited for that."""
        with self._lock:
            is_news = lease not in self._over
            self._over.add(lease)
            return is_news

    def is_over(self, lease: Lease) -> bool:
        """Whether the others may act under this lease. The time that they wait begins when it is
        asked for the first time."""
        with self._lock:
            if lease in self._over:
                return True
            now = self._monotonic()
            if now - self._since.setdefault(lease, now) < self._seconds:
                return False
            self._over.add(lease)
        log.warning("daemon.first_look_is_slow", project=lease.project)
        return True

    def keep(self, leases: Iterable[Lease]) -> None:
        """Forget all other leases: they are over, and their number would grow for ever."""
        held = set(leases)
        with self._lock:
            self._over &= held
            self._since = {lease: at for lease, at in self._since.items() if lease in held}
