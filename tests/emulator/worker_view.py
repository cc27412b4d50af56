"""What a program on a worker of the emulated cloud sees, asked for from a test."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from service.emulator.app import Emulator
from tests.emulator.factories import Web

ZONE = "us-west4-a"
PARENT = f"projects/lab/locations/{ZONE}"
POD = {"acceleratorType": "v5litepod-16", "runtimeVersion": "v2-alpha-tpuv5-lite"}
SINGLE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Metadata:
    """A metadata server at a URL, asked as curl would: no redirect is followed."""

    url: str
    headers: tuple[tuple[str, str], ...] = (("Metadata-Flavor", "Google"),)

    def ask(self, verb: str, path: str, body: bytes | None = None, **query: object) -> Answer:
        at = urlsplit(self.url)
        suffix = f"?{urlencode(query)}" if query else ""
        assert at.hostname is not None
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(verb, at.path + path + suffix, body, dict(self.headers))
            told = connection.getresponse()
            return Answer(told.status, told.read().decode(), dict(told.headers))
        finally:
            connection.close()

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", f"/computeMetadata/v1/{path}", **query)

    def put(self, path: str, value: str | bytes) -> int:
        raw = value.encode() if isinstance(value, str) else value
        path = f"/computeMetadata/v1/instance/guest-attributes/{path}"
        return self.ask("PUT", path, raw).status


def beside(emulator: Emulator, node_id: str, worker: int = 0) -> Metadata:
    """Find a worker's metadata server on the REST port."""
    path = f"/_emulator/nodes/lab/{ZONE}/{node_id}/workers/{worker}"
    return Metadata(emulator.rest_url + path)


def create(web: Web, node_id: str, node: dict[str, Any], **metadata: str) -> str:
    """Create a node and wait until it is READY; returns its name."""
    asked = {**node, "metadata": metadata}
    status, _ = web.ask("POST", f"/v2/{PARENT}/nodes?nodeId={node_id}", asked)
    assert status == 200
    name = f"{PARENT}/nodes/{node_id}"
    until(lambda: web.ask("GET", f"/v2/{name}")[1].get("state") == "READY")
    return name


def until(found: Any) -> Any:
    """Look again and again until something is found, and give it."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def serial(web: Web, name: str, worker: int = 0) -> dict[str, Any]:
    status, shown = web.ask("GET", f"/_emulator/nodes/serial?name={name}&worker={worker}")
    assert status == 200, shown
    return shown


def port(web: Web, name: str, worker: int = 0) -> Metadata:
    """Have a port opened for a worker."""
    _, told = web.ask("POST", "/_emulator/nodes/metadata-server", {"name": name, "worker": worker})
    return Metadata(f"http://{told['address']}")
