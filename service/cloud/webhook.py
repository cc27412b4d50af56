"""Sends messages to webhooks: signed, to public addresses only, and never anywhere else from
there."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import SplitResult, urlsplit

from service.domain.addresses import is_public
from service.domain.budgets import Budget
from service.domain.errors import CloudUnavailable, InvalidRequest
from service.domain.notification import Notification, sign

TIMEOUT_SECONDS = 10.0
GONE = 410
"""The one answer by which a receiver says that it never wants to hear of it again."""


class WebhookMessenger:
    """Every address that the host's name stands for is looked at, and the one that was looked at is
    the one that is connected to: a name that changes its mind in between leads nowhere else."""

    def __init__(self, *, allow_private: bool = False, timeout: float = TIMEOUT_SECONDS) -> None:
        self._allow_private = allow_private
        self._timeout = timeout

    def send(self, one: Notification, budget: Budget, now: int) -> None:
        """POST the message. Only an answer of 2xx counts as received; a redirect does not."""
        parts = urlsplit(budget.webhook)
        if parts.scheme not in ("http", "https") or not parts.hostname or not budget.secret:
            raise InvalidRequest("the budget has no webhook that can be sent to")
        body = one.body.encode()
        headers = {
            "Host": parts.netloc,
            "Content-Type": "application/json",
            "User-Agent": "tpu-steward",
            "X-Steward-Delivery": one.id,
            "X-Steward-Timestamp": str(now),
            "X-Steward-Signature": sign(budget.secret, now, body),
        }
        try:
            status = self._post(parts, body, headers)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise CloudUnavailable(
                f"the webhook at {parts.hostname} cannot be reached: {type(error).__name__}"
            ) from None
        if status == GONE:
            raise InvalidRequest(f"the webhook at {parts.hostname} answers 410: it is gone")
        if not 200 <= status < 300:
            raise CloudUnavailable(f"the webhook at {parts.hostname} answers {status}")

    def _post(self, parts: SplitResult, body: bytes, headers: dict[str, str]) -> int:
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        address = self._address(host, port)
        path = parts.path or "/"
        target = f"{path}?{parts.query}" if parts.query else path
        with (
            socket.create_connection(address, timeout=self._timeout) as plain,
            _cut_off(plain, self._timeout),
            closing(http.client.HTTPConnection(host, port, timeout=self._timeout)) as caller,
        ):
            caller.sock = _encrypted(plain, host) if parts.scheme == "https" else plain
            caller.request("POST", target, body, headers)
            with caller.getresponse() as answer:
                return answer.status

    def _address(self, host: str, port: int) -> tuple[str, int]:
        """The address to connect to. Raises InvalidRequest where any of the host's is not
        public."""
        found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        if not self._allow_private and not all(map(is_public, found)):
            raise InvalidRequest(
                f"the webhook at {host} leads to an address that is not public; set"
                " STEWARD_WEBHOOK_ALLOW_PRIVATE to allow that"
            )
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
