"""Requests of the stand-in to the emulator: its speed, its images, and reports of activity."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from urllib.parse import quote

TIMEOUT_SECONDS = 5.0


def read_speed() -> float:
    """Return the emulator's speed; 1 without an answer."""
    try:
        return float(json.loads(_ask_emulator("GET", "/_emulator/speed"))["speed"])
    except (OSError, ValueError, KeyError):
        return 1.0


def read_image_settings(name: str) -> Mapping[str, object]:
    """Return the configured settings of an image; empty without an answer."""
    try:
        told = json.loads(_ask_emulator("GET", f"/_emulator/images?name={quote(name, safe='')}"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) and "error" not in told else {}


def send_activity(activity: Mapping[str, float]) -> None:
    """Report the worker's activity from now on, in percent; a failed request is ignored."""
    try:
        _ask_emulator("POST", "/_emulator/activity", json.dumps(activity))
    except (OSError, ValueError):
        return


def send_request(
    verb: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Send a request to the worker's port, return status and body. Raises OSError, ValueError."""
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


def _ask_emulator(verb: str, path: str, body: str = "") -> bytes:
    return send_request(verb, path, body.encode(), {"Metadata-Flavor": "Google"})[1]
