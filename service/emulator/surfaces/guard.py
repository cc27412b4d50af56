"""Keeps web pages out: a browser must not carry a stranger's orders to the emulator.

Any page can send a plain POST to 127.0.0.1. It would break tests and, where startup scripts are
run, run a script. No client of a Google API sends an Origin.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces.rest import error_response


class Guard:
    """`loopback_only` also refuses a host name that somebody may have made to mean this machine."""

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if _foreign(headers) or (self._loopback_only and not is_loopback(_host(headers))):
                refusal = ApiError(
                    Code.PERMISSION_DENIED, "The emulator takes no orders from web pages."
                )
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_loopback(host: str) -> bool:
    """Say whether a host name can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _foreign(headers: Headers) -> bool:
    origin = headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc != headers.get("host")
    return (
        headers.get("sec-fetch-site") == "cross-site"
        and headers.get("sec-fetch-mode") != "navigate"
    )


def _host(headers: Headers) -> str:
    try:
        return urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""
