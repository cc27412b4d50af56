"""Connections to addresses that somebody else names: public ones only, and for a bounded time."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from urllib.parse import SplitResult

from service.domain.network import is_public

Dial = Callable[[SplitResult, float], AbstractContextManager[http.client.HTTPConnection]]
"""Opens a connection to the host of a URL, which is cut off after so many seconds."""


class NotPublic(Exception):
    """The host of a URL has an address that is not on the open internet."""


@contextmanager
def dial(
    url: SplitResult, seconds: float, *, allow_private: bool = False
) -> Iterator[http.client.HTTPConnection]:
    """A connection to the host of an http or https URL. Raises NotPublic, OSError.

    Every address that the host's name stands for is looked at, and the one that was looked at is
    the one that is connected to: a name that changes its mind in between leads nowhere else.
    """
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    address = _address(host, port, allow_private=allow_private)
    with (
        socket.create_connection(address, timeout=seconds) as plain,
        _cut_off(plain, seconds),
        closing(http.client.HTTPConnection(host, port, timeout=seconds)) as caller,
    ):
        caller.sock = _encrypted(plain, host) if url.scheme == "https" else plain
        yield caller


def target_of(url: SplitResult) -> str:
    """What a request for a URL names in its first line: the path and the query."""
    path = url.path or "/"
    return f"{path}?{url.query}" if url.query else path


def _address(host: str, port: int, *, allow_private: bool) -> tuple[str, int]:
    found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not allow_private and not all(map(is_public, found)):
        raise NotPublic(host)
    return found[0], port


def _encrypted(plain: socket.socket, host: str) -> socket.socket:
    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


@contextmanager
def _cut_off(connection: socket.socket, seconds: float) -> Iterator[None]:
    """The connection ends after so long, however slowly its other end drips."""
    with connection.dup() as same:
        clock = threading.Timer(seconds, _shut, [same])
        clock.daemon = True
        clock.start()
        try:
            yield
        finally:
            clock.cancel()


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
