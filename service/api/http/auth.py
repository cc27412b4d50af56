"""Authentication by the admin token, by a heartbeat token or by the secret of a link."""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.http.problems import ProblemKind, make_problem
from service.domain.idle.signals.heartbeat import PREFIX

PUBLIC = frozenset({"/healthz", "/readyz"})
"""Paths of the probes. They show no more of the fleet than projects without a daemon."""

_LINK = re.compile(r"/links/[^/]+")
"""Links of messages. Their token is a secret of its own; the receiver has no other token."""

_HEARTBEAT = re.compile(r"/v1/nodes/[^/]+/heartbeat")
"""The only route that takes heartbeat tokens. The route checks the token."""

_STATIC = "/static/"
"""Styles and scripts. They contain nothing secret, and the page of a link needs them."""

_READING = frozenset({"GET", "HEAD"})

UNAUTHORIZED = ProblemKind(401, "unauthorized", "Unauthorized")


class Auth:
    """Requires the admin token.

    `Authorization: Bearer <token>` is taken everywhere. HTTP Basic with the token as the password
    is taken outside of /v1 and for GET and HEAD, so that a browser can open the dashboard and the
    files that it links to. A browser sends the password for a page of another site too, so the
    password changes nothing in /v1. Cookies and query parameters are never read.
    """

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass requests with the token, requests for public paths, and heartbeats with a token."""
        if (
            scope["type"] == "lifespan"
            or scope["path"] in PUBLIC
            or scope["path"].startswith(_STATIC)
            or _LINK.fullmatch(scope["path"]) is not None
            or hmac.compare_digest(_read_token(scope), self._token)
            or heartbeat_token_of(scope) is not None
        ):
            await self._app(scope, receive, send)
            return
        scheme = "Bearer" if _is_api(scope) else "Basic"
        refusal = make_problem(
            scope,
            UNAUTHORIZED,
            "send the header Authorization: Bearer <STEWARD_ADMIN_TOKEN>",
            headers={"WWW-Authenticate": f'{scheme} realm="tpu-steward"'},
        )
        await refusal(scope, receive, send)


class OpenAuth:
    """Passes every request, since no admin token is set. Only a heartbeat token on another route
    than its own is refused."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a heartbeat token of a request that is no heartbeat."""
        is_misplaced = (
            scope["type"] != "lifespan"
            and _read_token(scope).startswith(PREFIX.encode())
            and heartbeat_token_of(scope) is None
        )
        if not is_misplaced:
            await self._app(scope, receive, send)
            return
        said = "a heartbeat token is valid only for heartbeats of its node"
        await make_problem(scope, UNAUTHORIZED, said)(scope, receive, send)


def heartbeat_token_of(scope: Scope) -> str | None:
    """The heartbeat token of a heartbeat. None for any other token, method or route. The route
    checks whether the token is valid."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    scheme, secret = _parse_authorization(scope)
    token = secret.strip().decode("latin-1")
    is_one = scheme == b"bearer" and token.startswith(PREFIX)
    return token if is_one and _HEARTBEAT.fullmatch(scope["path"]) else None


def _parse_authorization(scope: Scope) -> tuple[bytes, bytes]:
    """The scheme, in lower case, and the secret of the first Authorization header. Both are empty
    without the header."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = value.partition(b" ")
            return scheme.lower(), secret
    return b"", b""


def _read_token(scope: Scope) -> bytes:
    """The token of the Authorization header. Empty without a token that counts for this request."""
    scheme, secret = _parse_authorization(scope)
    if scheme == b"bearer":
        return secret.strip()
    if scheme != b"basic" or (_is_api(scope) and scope.get("method") not in _READING):
        return b""
    try:
        return b64decode(secret.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _is_api(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == "/v1" or path.startswith("/v1/")
