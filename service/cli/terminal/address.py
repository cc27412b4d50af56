"""Addresses of this program's servers: parsing, listening and connecting."""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.cli.terminal.errors import MISUSED, Failure
from service.domain.network import LAST_PORT

if TYPE_CHECKING:
    from service.settings import Settings


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port of a server. `setting` is the environment variable that sets them."""

    host: str
    port: int
    setting: str

    @classmethod
    def from_text(cls, text: str, setting: str) -> Address:
        """Parse `host:port`, with or without `http://`. Raises Failure for any other text."""
        host, _, port = text.strip().removeprefix("http://").rstrip("/").rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > LAST_PORT:
            raise Failure(
                f"{setting}: {text!r} is not host:port, as in 127.0.0.1:9470", code=MISUSED
            )
        return cls(host.strip("[]"), int(port), setting)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """URL for a browser on this machine, also for an address of all interfaces."""
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://{Address(reached, self.port, self.setting)}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the address. True for no name but `localhost`."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def can_connect(self, seconds: float) -> bool:
        """Whether a server accepts a connection within this number of seconds."""
        try:
            socket.create_connection((self.host, self.port), seconds).close()
        except OSError:
            return False
        return True

    def open_listener(self) -> socket.socket:
        """Listen on the address. Raises Failure with the reason and the setting."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=2_048)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Failure(
                    f"port {self.port} on {self.host} is taken ({self.setting})"
                ) from None
            raise Failure(
                f"cannot listen on {self} ({self.setting}): {error.strerror or error}"
            ) from None


def address_of(settings: Settings) -> Address:
    """Address at which the service listens."""
    return Address(settings.host, settings.port, "STEWARD_PORT")
