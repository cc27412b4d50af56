"""Keeps web pages out: a browser must not carry a stranger's orders to the emulator.

Any page can send a plain POST to 127.0.0.1. It would break tests and, where startup scripts are
run, run a script. No client of a Google API sends an Origin.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces.rest import error_response


class Hosts(Enum):
    """The host names to which the emulator answers, besides those that were allowed."""

    ANY = "any: whoever is behind the guard looks himself"
    LOCAL = "addresses, and names without a dot: no web page can make these mean this machine"
    LOOPBACK = "names of this machine alone, as scripts are run on it"


class Guard:
    """Refuses what a page of somebody else's sends, and host names that somebody may have made to
    mean this machine (DNS rebinding); `allowed` are further names that are meant."""

    def __init__(
        self, app: ASGIApp, *, hosts: Hosts = Hosts.LOCAL, allowed: Collection[str] = ()
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._allowed = frozenset(name.lower() for name in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            said = self._refusal(headers)
            if said:
                refusal = ApiError(Code.PERMISSION_DENIED, said)
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> str:
        """Why the request is refused; empty where it is not."""
        if _foreign(headers):
            return "The emulator takes no orders from web pages."
        host = _host(headers)
        if host in self._allowed or _is_meant(host, self._hosts):
            return ""
        return (
            f"The emulator does not answer to the host name {host[:100]!r}, which a web page may"
            " have made to mean this machine. If you mean it, start the emulator with"
            f" --allow-host {host[:100]}"
        )


def _is_meant(host: str, hosts: Hosts) -> bool:
    match hosts:
        case Hosts.ANY:
            return True
        case Hosts.LOOPBACK:
            return is_loopback(host)
        case Hosts.LOCAL:
            return _is_address(host) or (host != "" and "." not in host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


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
