"""What the stand-in needs of the emulator: its speed, its images, and to be seen working."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from urllib.parse import quote

TIMEOUT_SECONDS = 5.0


def speed() -> float:
    """Ask how many times faster than real things go; without an answer they go as they are."""
    try:
        return float(json.loads(_ask("GET", "/_emulator/speed"))["speed"])
    except (OSError, ValueError, KeyError):
        return 1.0


def image(name: str) -> Mapping[str, object]:
    """Ask what the configuration says of an image; without an answer, nothing."""
    try:
        told = json.loads(_ask("GET", f"/_emulator/images?name={quote(name, safe='')}"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) and "error" not in told else {}


def tell(activity: Mapping[str, float]) -> None:
    """Say how busy the worker is from now on, in percent; nobody to hear it is no error."""
    try:
        _ask("POST", "/_emulator/activity", json.dumps(activity))
    except (OSError, ValueError):
        return


def request(
    verb: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Ask the worker's own port and give the status and the body; raises OSError, ValueError."""
    host, _, port = os.environ.get("GCE_METADATA_HOST", "").partition(":")
    told = {"Host": host, "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{key}: {value}\r\n" for key, value in told.items())
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as connection:
        connection.sendall(f"{verb} {path} HTTP/1.0\r\n{head}\r\n".encode() + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    start, _, content = answer.partition(b"\r\n\r\n")
    status = start.split(None, 2)[1:2]
    if not status:
        raise ValueError("no answer")
    return int(status[0]), content


def _ask(verb: str, path: str, body: str = "") -> bytes:
    return request(verb, path, body.encode(), {"Metadata-Flavor": "Google"})[1]
