"""Answers readiness probes without the threads that requests use, however many ask at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from anyio import CapacityLimiter, to_thread

from service.application.readiness import ReadinessService
from service.domain.errors import StewardError, StoreUnavailable

KEPT_SECONDS = 1.0
"""How long one answer is good for all who ask."""

PATIENCE_SECONDS = 5.0
"""How long a probe waits for the database. A check goes on after that; the next probe asks for its
result."""


class Readiness:
    """Shares one check among all who ask meanwhile. Used in the event loop alone."""

    def __init__(
        self,
        service: ReadinessService,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._service = service
        self._clock = clock
        self._patience = patience
        self._check: asyncio.Task[Sequence[str] | StewardError] | None = None
        self._fresh_until = 0.0

    async def warnings(self) -> Sequence[str]:
        """Problems that do not stop the service. Raises StoreUnavailable, saying why, when it
        cannot do its work."""
        check = self._check
        if check is None or (check.done() and self._clock() >= self._fresh_until):
            check = self._check = asyncio.create_task(self._look())
        if not check.done():
            await asyncio.wait({check}, timeout=self._patience)
        if not check.done():
            raise StoreUnavailable(
                f"the database has not answered for {self._patience:.0f} s; is it overloaded?"
            )
        found = check.result()
        if isinstance(found, StewardError):
            raise type(found)(str(found)) from found
        return found

    async def _look(self) -> Sequence[str] | StewardError:
        """What the check found, or why it failed."""
        try:
            # a limit of its own: the threads of requests may all be waiting
            return await to_thread.run_sync(self._service.check, limiter=CapacityLimiter(1))
        except StewardError as error:
            return error
        finally:
            self._fresh_until = self._clock() + KEPT_SECONDS
