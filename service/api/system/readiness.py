"""Readiness of the service. Concurrent probes share one check, outside of the request threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from anyio import CapacityLimiter, to_thread

from service.application.health import ReadinessService
from service.domain.errors import StewardError, StoreUnavailable

KEPT_SECONDS = 1.0
"""How long the result of a check is reused."""

PATIENCE_SECONDS = 5.0
"""How long a probe waits for the database. The check continues after that, and the next probe gets
its result."""


class Readiness:
    """Runs one check at a time for all concurrent probes. Used in the event loop only."""

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

    async def read_warnings(self) -> Sequence[str]:
        """Problems that do not stop the service. Raises StoreUnavailable with the reason when the
        service cannot work."""
        check = self._check
        if check is None or (check.done() and self._clock() >= self._fresh_until):
            check = self._check = asyncio.create_task(self._run_check())
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

    async def _run_check(self) -> Sequence[str] | StewardError:
        """The warnings of the check, or its error."""
        try:
            # a limiter of its own: all threads of requests may be busy
            return await to_thread.run_sync(self._service.check_ready, limiter=CapacityLimiter(1))
        except StewardError as error:
            return error
        finally:
            self._fresh_until = self._clock() + KEPT_SECONDS
