"""HEAD for every path that has GET: the same status and headers, and no body."""

from __future__ import annotations

from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LENGTH = b"content-length"


class Head:
    """Answers a HEAD request like the GET request of the same path, without the body.

    An answer without a `Content-Length` is a stream, such as an export or a log that is followed.
    No part of a stream is produced.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request. Only HEAD requests are changed."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}
        with CancelScope() as answering:

            async def send_headers(message: Message) -> None:
                if message["type"] != "http.response.start":
                    return
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                if all(name.lower() != _LENGTH for name, _ in message["headers"]):
                    answering.cancel()

            await self._app(as_get, receive, send_headers)
        scope.update(as_get, method="HEAD")  # the route, which the metrics name
