"""Connections to addresses that callers name: public ones only, and for a limited time."""

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
"""Opens a connection to the host of a URL, which is shut down after so many seconds."""


class NotPublic(Exception):
    """The host of a URL has an address that is not on the public internet."""


@contextmanager
def dial(
    url: SplitResult, seconds: float, *, allow_private: bool = False
) -> Iterator[http.client.HTTPConnection]:
    """A connection to the host of an http or https URL. Raises NotPublic, OSError.

    Every address of the host's name is checked, and the connection goes to a checked address: the
    name is resolved only once.
    """
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not allow_private and not all(map(is_public, found)):
        raise NotPublic(host)
    with (
        socket.create_connection((found[0], port), timeout=seconds) as plain,
        _cut_off(plain, seconds),
        closing(http.client.HTTPConnection(host, port, timeout=seconds)) as caller,
    ):
        caller.sock = (
            ssl.create_default_context().wrap_socket(plain, server_hostname=host)
            if url.scheme == "https"
            else plain
        )
        yield caller


def request_target(url: SplitResult) -> str:
    """The request target of a URL (RFC 9112, 3.2.1): the path and the query."""
    path = url.path or "/"
    return f"{path}?{url.query}" if url.query else path


@contextmanager
def _cut_off(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the connection down after so many seconds, however slowly the other end sends."""
    with connection.dup() as same:
        timer = threading.Timer(seconds, _shut_down, [same])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
