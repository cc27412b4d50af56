"""Requests that wait for a changed value, answered at the moment of the change."""

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

    def check_value(self) -> None:
        """Read the value again, and answer if it changed, even if it changes back later."""
        reply = self.look()
        if reply.etag != self.etag:
            self.set_reply(reply)

    def set_reply(self, reply: Reply) -> None:
        # The world may run in another thread than the waiting request.
        self.loop.call_soon_threadsafe(self._set_result, reply)

    def _set_result(self, reply: Reply) -> None:
        if not self.found.done():
            self.found.set_result(reply)


class Waiting:
    """All waiting requests by node."""

    def __init__(self) -> None:
        self._waits: dict[int, set[_Wait]] = {}

    def __bool__(self) -> bool:
        return bool(self._waits)

    async def wait_for_change(
        self, record: NodeRecord, look: Look, last_etag: str, seconds: float | None
    ) -> Reply:
        """Return the value once its etag differs from `last_etag`, or the value at the time limit.

        Without `last_etag`, wait for a change of the present value.
        """
        now = look()
        # A missing or refused path is answered at once.
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
            waits = self._waits[uid]
            waits.discard(wait)
            if not waits:
                del self._waits[uid]

    def check_node(self, uid: int) -> None:
        """Check the waiting requests of a node. Call this after each change of the node."""
        for wait in list(self._waits.get(uid, ())):
            wait.check_value()

    def check_all(self) -> None:
        for uid in list(self._waits):
            self.check_node(uid)

    def dismiss_node(self, uid: int, reply: Reply) -> None:
        """Answer all waiting requests of a node that is gone."""
        for wait in list(self._waits.get(uid, ())):
            wait.set_reply(reply)

    def dismiss_all(self, reply: Reply) -> None:
        for uid in list(self._waits):
            self.dismiss_node(uid, reply)
