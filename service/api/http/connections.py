"""Limits of connections: what uvicorn has no setting for."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.http.problems import ProblemKind, problem

KEEP_ALIVE_SECONDS = 5
"""How long a connection is kept for a next request; uvicorn's own setting."""

_OTHER_FILES = 80
"""Descriptors that are not connections: those of the database, of the log, of bills that come."""
_LEAST, _MOST = 8, 10_000
_SPARE = 16
"""So many connections beyond the limit still get an answer, a 503, before they are closed."""

HEAD_TOO_LARGE = ProblemKind(431, "head-too-large", "Request headers too large")
BUSY = ProblemKind(503, "too-many-connections", "Too many connections", 5)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process allows its connections. All times are in seconds."""

    connections: int
    head_bytes: int = 65_536
    """Of the request line and the headers together."""
    head_seconds: float = 10.0
    """From the connection, or the first byte of a request, to the end of its headers."""
    linger_seconds: float = 10.0
    """For the rest of a body that was answered before it came, and for an answer to be taken in
    before the connection closes."""


def most_connections() -> int:
    """How many connections this process can have open beside its other files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(_LEAST, min(soft - _OTHER_FILES, _MOST))


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines, and with a place for a new connection.

    uvicorn's `limit_concurrency` counts connections that are silent, too, and so refuses everybody
    while somebody else holds them. Here the one that has been idle for longest makes room. A
    connection is idle unless a request on it is being answered.
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
        """Take a connection, and make room for it where there are too many."""
        super().connection_made(transport)
        self._set_deadline(self.limits.head_seconds, self._give_up_head)
        counted = [one for one in self._others() if not one.is_aborted]
        excess = len(counted) + 1 - self.limits.connections
        if excess <= 0:
            return
        idle = [one for one in counted if one.is_idle]
        if idle:
            min(idle, key=lambda one: one.idle_since).abort()
        elif excess > _SPARE:
            self.abort()
        else:
            self._usual = _refusal(BUSY, "all connections are in use; retry in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._clear_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and count what is neither a whole head nor part of a body."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._is_whole:
            self._unseen_bytes += len(data)
        if self._unseen_bytes > self.limits.head_bytes:
            self._end(431, b"Request Header Fields Too Large")
        elif self._deadline is None and (self._in_head or self._waits_unwatched):
            self._set_deadline(self.limits.head_seconds, self._give_up_head)

    def timeout_keep_alive_handler(self) -> None:
        """Close, and do not wait for a caller who never takes the rest of the answer."""
        super().timeout_keep_alive_handler()
        self._set_deadline(self.limits.linger_seconds, self.abort)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        self._in_head, self._is_whole, self._unseen_bytes = True, False, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Have the request answered, or refused where its head is too large."""
        self._in_head, self._unseen_bytes = False, 0
        self._clear_deadline()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        too_large = size > self.limits.head_bytes
        self.app = _TOO_LARGE if too_large else self._usual
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take part of a body."""
        self._unseen_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request is here."""
        self._is_whole, self._unseen_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, and for the rest of this one not for long."""
        super().on_response_complete()
        self.idle_since = self.loop.time()
        if not self._is_whole or self.transport.is_closing():
            self._set_deadline(self.limits.linger_seconds, self.abort)

    # What becomes of a connection

    @property
    def is_idle(self) -> bool:
        """Whether no request on it is being answered."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]

    @property
    def _waits_unwatched(self) -> bool:
        """Whether the rest of a body ended uvicorn's wait for the next request."""
        return self.is_idle and self.timeout_keep_alive_task is None

    def _others(self) -> list[LimitedProtocol]:
        found = (one for one in self.connections if one is not self)
        return [one for one in found if isinstance(one, LimitedProtocol)]

    def _set_deadline(self, seconds: float, then: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, then)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up_head(self) -> None:
        """The head of a request did not come in time."""
        self._deadline = None
        if not self.is_idle:  # the next request, while an answer is under way
            self.cycle.keep_alive = False
        elif self._in_head:
            self._end(408, b"Request Timeout")
        else:
            self.abort()

    def _end(self, status: int, reason: bytes) -> None:
        """Say why, and close; without a word where an answer is under way."""
        if not self.is_idle:
            self.abort()
            return
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % (status, reason)
        )
        self.transport.close()
        self._set_deadline(self.limits.linger_seconds, self.abort)

    def abort(self) -> None:
        """Close it at once, whatever is still to be sent."""
        self.is_aborted = True
        self._clear_deadline()
        self.transport.abort()


def protocol_with(limits: Limits) -> type[LimitedProtocol]:
    """The protocol for uvicorn, which makes one of it for each connection."""
    return type("Limited", (LimitedProtocol,), {"limits": limits})


def _refusal(kind: ProblemKind, detail: str) -> ASGIApp:
    """Answers every request with that problem, and closes the connection."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        refused = problem(scope, kind, detail, headers={"Connection": "close"})
        await refused(scope, receive, send)

    return answer


_TOO_LARGE = _refusal(HEAD_TOO_LARGE, "send fewer headers, or shorter ones")
