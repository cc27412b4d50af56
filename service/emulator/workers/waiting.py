"""Those who wait for a value to change: they are told at the moment it does, not a look later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.workers.replies import Reply

Look = Callable[[], Reply]


@dataclass(eq=False)
class _Wait:
    record: NodeRecord
    look: Look
    etag: str
    loop: asyncio.AbstractEventLoop
    found: asyncio.Future[Reply]

    def check(self) -> None:
        """Look again; what was seen is kept, though it may have changed back when it is read."""
        reply = self.look()
        if reply.etag != self.etag:
            self.tell(reply)

    def tell(self, reply: Reply) -> None:
        # The world may be moved from another thread than the one that waits.
        self.loop.call_soon_threadsafe(self._set, reply)

    def _set(self, reply: Reply) -> None:
        if not self.found.done():
            self.found.set_result(reply)


class Waiting:
    """Everybody who waits, by the node that they look at."""

    def __init__(self) -> None:
        self._waits: dict[int, set[_Wait]] = {}

    def __bool__(self) -> bool:
        return bool(self._waits)

    async def change(
        self, record: NodeRecord, look: Look, last_etag: str, seconds: float | None
    ) -> Reply:
        """Give the value once it is not the one with this etag, or as it is when time is up.

        Without an etag: once it is not what it is now.
        """
        now = look()
        # A path that is not there, or refused, is not worth waiting for.
        if now.status != 200 or (last_etag and last_etag != now.etag):
            return now
        loop = asyncio.get_running_loop()
        wait = _Wait(record, look, now.etag, loop, loop.create_future())
        uid = int(record.message.id)
        self._waits.setdefault(uid, set()).add(wait)
        try:
            return await asyncio.wait_for(wait.found, seconds)
        except TimeoutError:
            return look()
        finally:
            self._forget(uid, wait)

    def check(self, uid: int) -> None:
        """Let those who look at a node look again; to be called whenever it has changed."""
        for wait in list(self._waits.get(uid, ())):
            wait.check()

    def check_all(self) -> None:
        for uid in list(self._waits):
            self.check(uid)

    def records(self) -> list[NodeRecord]:
        return [next(iter(waits)).record for waits in self._waits.values()]

    def dismiss(self, uid: int, reply: Reply) -> None:
        """Send those away who look at a node that is gone."""
        for wait in list(self._waits.get(uid, ())):
            wait.tell(reply)

    def dismiss_all(self, reply: Reply) -> None:
        for uid in list(self._waits):
            self.dismiss(uid, reply)

    def _forget(self, uid: int, wait: _Wait) -> None:
        waits = self._waits[uid]
        waits.discard(wait)
        if not waits:
            del self._waits[uid]
