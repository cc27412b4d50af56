"""The guard: request ids, security headers, and limits of requests and answers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

import structlog
from anyio import current_time, fail_after
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.http.problems import (
    BODY_LIMIT,
    MAX_BODY_BYTES,
    ProblemKind,
    internal_error,
    make_problem,
    too_large,
)

LOOPBACK = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
"""The host names of requests that are answered while no token is set."""

MISDIRECTED = ProblemKind(421, "misdirected-request", "Misdirected request")
CROSS_SITE = ProblemKind(403, "cross-site-request", "Cross-site request refused")
UNREADABLE = ProblemKind(400, "unreadable-address", "Malformed URL")

STALLED_SECONDS = 30.0
"""How long a body may stall. After that, resources held for it, such as one of the few places for
bills, are free again."""

SLOWEST_BYTES = 4_096
"""Smallest average rate of a body, in bytes a second, after `STALLED_SECONDS`. Only the time in
which the service waits for the body counts."""

UNREAD_SECONDS = 120.0
"""How long a client may take to receive a piece of a long answer. A piece of an export has up to a
megabyte."""

_LINKS = "/links/"
"""Pages with a form, whose address is a secret. `Referrer-Policy` hides the address, so a browser
sends `Origin: null` with the form."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,100}")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY = (
    b"default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; object-src 'none';"
    b" base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
]
_API_HEADERS = [*_HEADERS, (b"cache-control", b"no-store")]

log = structlog.get_logger(__name__)


class _Unread(Exception):
    """The client does not receive the rest of a long answer."""


class Guard:
    """Outside of authentication and routes: refusals and failures have the security headers too.

    Only `RequestMetrics` and `Head` are further out.

    `loopback_only`: without a token the service is safe only because no other machine reaches it. A
    page of another site can make its own name resolve to this machine (DNS rebinding); the Host
    header shows that name. `roomy` has the paths with a larger limit of the body, in bytes.
    `patience` is the number of seconds for which a body may stall, and an answer may be unread.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        loopback_only: bool,
        roomy: Mapping[str, int] | None = None,
        patience: tuple[float, float] = (STALLED_SECONDS, UNREAD_SECONDS),
    ) -> None:
        self._app = app
        self._loopback_only = loopback_only
        self._roomy = roomy or {}
        self._stalled_seconds, self._unread_seconds = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        request_id = headers.get(b"x-request-id", b"")
        if not _REQUEST_ID.fullmatch(request_id):  # missing, or unfit for a log
            request_id = secrets.token_hex(8).encode()
        structlog.contextvars.bind_contextvars(request_id=request_id.decode())
        more = [
            *(_API_HEADERS if scope["path"].startswith("/v1") else _HEADERS),
            (b"x-request-id", request_id),
        ]
        started, send_in_time = False, _limit_sending(send, self._unread_seconds)

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], *more]
            await send_in_time(message)

        scope[BODY_LIMIT] = self._roomy.get(scope["path"], MAX_BODY_BYTES)
        app = self._find_refusal(scope, headers) or self._app
        receive = _limit_body(receive, scope[BODY_LIMIT], self._stalled_seconds)
        try:
            await app(scope, receive, send_with_headers)
        except _Unread:
            log.warning("answer left unread", method=scope["method"], path=_path_for_log(scope))
        except Exception:
            log.exception("request failed", method=scope["method"], path=_path_for_log(scope))
            if started:
                raise
            await internal_error(scope)(scope, receive, send_with_headers)

    def _find_refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """The answer to a request that must not reach a route. None for any other request."""
        host = headers.get(b"host", b"")
        if self._loopback_only and not _is_loopback(host):
            return make_problem(
                scope,
                MISDIRECTED,
                "without an admin token the service answers only to the name localhost; use that"
                " name, or set STEWARD_ADMIN_TOKEN",
            )
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return make_problem(scope, UNREADABLE, "a URL cannot contain a NUL character")
        hides_origin = scope["path"].startswith(_LINKS)
        if scope["method"] not in SAFE_METHODS and _is_cross_site(
            headers, host, hides_origin=hides_origin
        ):
            return make_problem(
                scope,
                CROSS_SITE,
                "a page of another site may not change anything here: Origin and Host must match",
            )
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length.lstrip(b"0")[:20] or b"0") > scope[BODY_LIMIT]:
            return too_large(scope)
        return None


@lru_cache(256)
def _is_loopback(host: bytes) -> bool:
    name, colon, port = host.lower().rpartition(b":")
    return host.lower() in LOOPBACK or (bool(colon) and port.isdigit() and name in LOOPBACK)


def _path_for_log(scope: Scope) -> str:
    """The path, shortened, and without the token of a link."""
    path: str = scope["path"]
    return f"{_LINKS}..." if path.startswith(_LINKS) else path[:200]


def _is_cross_site(headers: dict[bytes, bytes], host: bytes, *, hides_origin: bool) -> bool:
    if headers.get(b"sec-fetch-site") == b"cross-site":
        return True
    origin = headers.get(b"origin")
    if origin is None or (hides_origin and origin == b"null"):
        return False
    try:
        return urlsplit(origin.lower()).netloc != host.lower()
    except ValueError:
        return True


def _limit_body(receive: Receive, limit: int, seconds: float) -> Receive:
    """Receives a body of at most `limit` bytes, whatever its Content-Length says.

    Raises HTTPException above the limit, when the body stalls for `seconds`, and when it is slower
    than SLOWEST_BYTES.
    """
    total, more, waited = 0, True, 0.0

    async def receive_counted() -> Message:
        nonlocal total, more, waited
        if not more:  # the next message is the disconnect of the client, which may take any time
            return await receive()
        began, left = current_time(), seconds + total / SLOWEST_BYTES - waited
        try:
            with fail_after(max(0.0, min(seconds, left))):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, headers={"Connection": "close"}) from None
        waited += current_time() - began
        more = message.get("more_body", False)
        total += len(message.get("body", b""))
        if total > limit:
            raise HTTPException(413)
        return message

    return receive_counted


def _limit_sending(send: Send, seconds: float) -> Send:
    """Sends an answer. Raises _Unread when the client takes longer than `seconds` for a piece of an
    answer in pieces."""
    streams = False

    async def send_in_time(message: Message) -> None:
        nonlocal streams
        streams = streams or message.get("more_body", False)
        if not streams:
            await send(message)
            return
        try:
            with fail_after(seconds):
                await send(message)
        except TimeoutError:
            raise _Unread from None

    return send_in_time
