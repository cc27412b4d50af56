"""Refuses requests of web pages, which a browser sends without its user's knowledge.

Any page can send a simple POST to 127.0.0.1. Such a request would break tests and, if startup
scripts are run, run a script. No client of a Google API sends an Origin.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces.rest import error_response


class Hosts(Enum):
    """The host names to which the emulator answers, in addition to the allowed ones."""

    ANY = "any: whoever is behind the guard looks himself"
    LOCAL = "addresses, and names without a dot: no web page can make these mean this machine"
    LOOPBACK = "names of this machine alone, as scripts are run on it"


class Guard:
    """Refuses requests of web pages of other origins, and unknown host names (DNS rebinding).

    `allowed` are further host names to which the emulator answers.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Hosts = Hosts.LOCAL, allowed: Collection[str] = ()
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._allowed = frozenset(name.lower() for name in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            reason = self._find_reason(headers)
            if reason:
                refusal = ApiError(Code.PERMISSION_DENIED, reason)
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find_reason(self, headers: Headers) -> str:
        """Return the reason to refuse the request; empty if there is none."""
        origin = headers.get("origin")
        if origin is not None:
            is_cross_origin = urlsplit(origin).netloc != headers.get("host")
        else:
            is_cross_site = headers.get("sec-fetch-site") == "cross-site"
            is_cross_origin = is_cross_site and headers.get("sec-fetch-mode") != "navigate"
        if is_cross_origin:
            return "The emulator takes no orders from web pages."
        try:
            host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        except ValueError:
            host = ""
        is_accepted = host in self._allowed
        match self._hosts:
            case Hosts.ANY:
                is_accepted = True
            case Hosts.LOOPBACK:
                is_accepted |= is_loopback(host)
            case Hosts.LOCAL:
                is_accepted |= _parse_address(host) is not None or (host != "" and "." not in host)
        if is_accepted:
            return ""
        return (
            f"The emulator does not answer to the host name {host[:100]!r}, which a web page may"
            " have made to mean this machine. If you mean it, start the emulator with"
            f" --allow-host {host[:100]}"
        )


def is_loopback(host: str) -> bool:
    """Whether a host name always means this machine."""
    address = _parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
