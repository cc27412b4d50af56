"""Asks every caller for the admin token, when there is one."""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.http.problems import ProblemKind, problem
from service.domain.idle.heartbeat import PREFIX

PUBLIC = frozenset({"/healthz", "/readyz"})
"""What probes ask. Of the fleet they learn no more than the names of projects without a daemon."""

_LINK = re.compile(r"/links/[^/]+")
"""The token of a link is a secret of its own, and all that whoever got the message has."""

_HEARTBEAT = re.compile(r"/v1/nodes/[^/]+/heartbeat")
"""The one route for which a heartbeat token is good; the route looks whether it is."""

_STATIC = "/static/"
"""Styles and scripts are the same in every installation; the page of a link needs them."""

_READING = frozenset({"GET", "HEAD"})

UNAUTHORIZED = ProblemKind(401, "unauthorized", "Unauthorized")


class Auth:
    """`Authorization: Bearer <token>` everywhere; outside /v1, and for what only reads, also HTTP
    Basic with the token as the password, so that a browser can open the dashboard and the files it
    links to. A browser sends that unasked, also for a page of somebody else's: so nothing in /v1
    can be changed by it. Never a cookie, never a query parameter."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in those who know the token, and everyone to what is public."""
        is_open = scope["type"] == "lifespan" or _is_public(scope["path"])
        if is_open or self._knows(scope) or heartbeat_token_of(scope) is not None:
            await self._app(scope, receive, send)
            return
        scheme = "Bearer" if _is_api(scope) else "Basic"
        refusal = problem(
            scope,
            UNAUTHORIZED,
            "send the header Authorization: Bearer <STEWARD_ADMIN_TOKEN>",
            headers={"WWW-Authenticate": f'{scheme} realm="tpu-steward"'},
        )
        await refusal(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        scheme, secret = _authorization(scope)
        return hmac.compare_digest(_told(scope, scheme, secret), self._token)


class OpenAuth:
    """Lets every caller in, as no admin token is set, but for one: a heartbeat token is refused on
    every route that is not its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a heartbeat token that is shown anywhere but with a heartbeat."""
        if scope["type"] == "lifespan" or not _is_misplaced(scope):
            await self._app(scope, receive, send)
            return
        said = "a heartbeat token is valid only for heartbeats of its node"
        await problem(scope, UNAUTHORIZED, said)(scope, receive, send)


def _is_misplaced(scope: Scope) -> bool:
    token = _told(scope, *_authorization(scope))
    return token.startswith(PREFIX.encode()) and heartbeat_token_of(scope) is None


def heartbeat_token_of(scope: Scope) -> str | None:
    """The heartbeat token that comes with a heartbeat; None for any other token, method or route.
    Whether it is good is for the route to look."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    scheme, secret = _authorization(scope)
    token = secret.strip().decode("latin-1")
    is_one = scheme == b"bearer" and token.startswith(PREFIX)
    return token if is_one and _HEARTBEAT.fullmatch(scope["path"]) else None


def _authorization(scope: Scope) -> tuple[bytes, bytes]:
    """The scheme, in lower case, and the secret of the first header of that name; both empty
    without one."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = value.partition(b" ")
            return scheme.lower(), secret
    return b"", b""


def _is_public(path: str) -> bool:
    """Whether everyone may ask for it."""
    return path in PUBLIC or path.startswith(_STATIC) or _LINK.fullmatch(path) is not None


def _told(scope: Scope, scheme: bytes, secret: bytes) -> bytes:
    """The token that the header holds; empty when it holds none."""
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
