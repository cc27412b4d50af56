"""What a container's play needs of the emulator: how fast time goes, and to be seen working."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

TIMEOUT_SECONDS = 5.0


def speed() -> float:
    """Ask how many times faster than real things go; without an answer they go as they are."""
    try:
        return float(json.loads(_ask("GET", "/_emulator/speed"))["speed"])
    except (OSError, ValueError, KeyError):
        return 1.0


def tell(activity: Mapping[str, float]) -> None:
    """Say how busy the worker is from now on, in percent; nobody to hear it is no error."""
    try:
        _ask("POST", "/_emulator/activity", json.dumps(activity))
    except (OSError, ValueError):
        return


def _ask(verb: str, path: str, body: str = "") -> bytes:
    host, _, port = os.environ.get("GCE_METADATA_HOST", "").partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as connection:
        head = (
            f"{verb} {path} HTTP/1.0\r\nHost: {host}\r\nMetadata-Flavor: Google\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall((head + body).encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return answer.partition(b"\r\n\r\n")[2]
