"""Limits of connections for which uvicorn has no setting."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.http.problems import ProblemKind, make_problem

KEEP_ALIVE_SECONDS = 5
"""How long a connection is kept for its next request. A setting of uvicorn."""

_OTHER_FILES = 80
"""File descriptors for the database, the log and received bills."""
_LEAST, _MOST = 8, 10_000
_SPARE = 16
"""Connections beyond the limit that still get a 503 before they are closed."""

HEAD_TOO_LARGE = ProblemKind(431, "head-too-large", "Request headers too large")
BUSY = ProblemKind(503, "too-many-connections", "Too many connections", 5)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process allows its connections. All times are in seconds."""

    connections: int
    head_bytes: int = 65_536
    """Largest size of the request line and the headers together."""
    head_seconds: float = 10.0
    """Longest time from the connection, or the first byte of a request, to the end of the head."""
    linger_seconds: float = 10.0
    """Longest time for the rest of a body that was answered already, and for an answer to be
    received before the connection closes."""


def most_connections() -> int:
    """Largest number of connections of this process, by its limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(_LEAST, min(soft - _OTHER_FILES, _MOST))


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines, and with room for a new connection.

    uvicorn's `limit_concurrency` also counts silent connections: one client that holds them locks
    out all others. Here the connection that has been idle for longest is closed. A connection is
    idle unless a request on it is being answered.
    """

    limits: ClassVar[Limits]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._usual = self.app
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = False
        self._is_whole = True
        self._unseen_bytes = 0
        self.is_aborted = False
        self.idle_since = self.loop.time()

    # What asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection. Above the limit, close an idle one or refuse the new one."""
        super().connection_made(transport)
        self._set_deadline(self.limits.head_seconds, self._give_up_head)
        others = [
            other
            for other in self.connections
            if other is not self and isinstance(other, LimitedProtocol) and not other.is_aborted
        ]
        excess = len(others) + 1 - self.limits.connections
        if excess <= 0:
            return
        idle = [other for other in others if other.is_idle]
        if idle:
            min(idle, key=lambda other: other.idle_since).close_at_once()
        elif excess > _SPARE:
            self.close_at_once()
        else:
            self._usual = _refuse_all(BUSY, "all connections are in use; retry in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._clear_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, and limit the bytes that are neither a complete head nor a body."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._is_whole:
            self._unseen_bytes += len(data)
        if self._unseen_bytes > self.limits.head_bytes:
            self._close_with(431, b"Request Header Fields Too Large")
            return
        # The rest of a body ends uvicorn's own wait for the next request.
        is_unwatched = self.is_idle and self.timeout_keep_alive_task is None
        if self._deadline is None and (self._in_head or is_unwatched):
            self._set_deadline(self.limits.head_seconds, self._give_up_head)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, soon even if the client does not receive the rest of the answer."""
        super().timeout_keep_alive_handler()
        self._set_deadline(self.limits.linger_seconds, self.close_at_once)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Start to count the bytes of a head."""
        self._in_head, self._is_whole, self._unseen_bytes = True, False, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Pass the request to the application. A head that is too large is refused."""
        self._in_head, self._unseen_bytes = False, 0
        self._clear_deadline()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        too_large = size > self.limits.head_bytes
        self.app = _TOO_LARGE if too_large else self._usual
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body."""
        self._unseen_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        self._is_whole, self._unseen_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request. The rest of the current request has a deadline."""
        super().on_response_complete()
        self.idle_since = self.loop.time()
        if not self._is_whole or self.transport.is_closing():
            self._set_deadline(self.limits.linger_seconds, self.close_at_once)

    # The state and the end of a connection

    @property
    def is_idle(self) -> bool:
        """Whether no request on the connection is being answered."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]

    def _set_deadline(self, seconds: float, then: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, then)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up_head(self) -> None:
        """Answer 408 to a late head, or close if no head has begun. While an answer is being sent,
        the connection closes after it."""
        self._deadline = None
        if not self.is_idle:  # the next request, while an answer is under way
            self.cycle.keep_alive = False
        elif self._in_head:
            self._close_with(408, b"Request Timeout")
        else:
            self.close_at_once()

    def _close_with(self, status: int, reason: bytes) -> None:
        """Send a status and close. Only close while an answer is being sent."""
        if not self.is_idle:
            self.close_at_once()
            return
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % (status, reason)
        )
        self.transport.close()
        self._set_deadline(self.limits.linger_seconds, self.close_at_once)

    def close_at_once(self) -> None:
        """Close the connection at once. Unsent data is lost."""
        self.is_aborted = True
        self._clear_deadline()
        self.transport.abort()


def protocol_with(limits: Limits) -> type[LimitedProtocol]:
    """The protocol class for uvicorn, which makes an instance for each connection."""
    return type("Limited", (LimitedProtocol,), {"limits": limits})


def _refuse_all(kind: ProblemKind, detail: str) -> ASGIApp:
    """An application that answers every request with this problem, and closes the connection."""

    async def send_refusal(scope: Scope, receive: Receive, send: Send) -> None:
        refused = make_problem(scope, kind, detail, headers={"Connection": "close"})
        await refused(scope, receive, send)

    return send_refusal


_TOO_LARGE = _refuse_all(HEAD_TOO_LARGE, "send fewer headers, or shorter ones")
