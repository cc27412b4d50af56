"""The metadata server, Cloud Logging and Cloud Storage of one worker, on loopback."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.parse
from contextlib import suppress
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.answer(*self.server.google.read(self.path, self.headers))

    def do_PUT(self) -> None:
        self.server.google.take_report(self.body())
        self.answer(200, "", b"")

    def do_POST(self) -> None:
        self.answer(self.server.google.take_entries(self.body()), "", b'{"error": "no"}')

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, status: int, etag: str, body: bytes) -> None:
        with suppress(OSError):
            self.send_response(status)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    google: FakeGoogle


class FakeGoogle:
    """Holds what the worker may read, and what the worker wrote; `set` wakes who waits."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.attributes: dict[str, str] = {"agent-worker-number": "1"}
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE", "id": "4711"}
        self.reports: list[tuple[float, dict[str, Any]]] = []
        self.entries: list[dict[str, Any]] = []
        self.logging_status = 200
        self.failures = 0
        """How many more writes of entries fail before one is taken."""
        self.storage: dict[str, tuple[int, Any]] = {}
        self.is_open = True
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.google = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def take_report(self, report: Any) -> None:
        with self.changed:
            self.reports.append((time.monotonic(), report))
            self.changed.notify_all()

    def take_entries(self, body: Any) -> int:
        with self.changed:
            if self.failures:
                self.failures -= 1
                return 503
            if self.logging_status == 200:
                # Cloud Logging adds what the request says to each entry.
                self.entries += [
                    {**body, **entry, "labels": {**body["labels"], **entry["labels"]}}
                    for entry in body.pop("entries")
                ]
        return self.logging_status

    def close(self) -> None:
        with self.changed:
            self.is_open = False
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def set(self, **values: str) -> None:
        with self.changed:
            self.values.update({key.replace("_", "-"): value for key, value in values.items()})
            self.changed.notify_all()

    def set_attribute(self, key: str, value: str | None) -> None:
        with self.changed:
            self.attributes.pop(key, None)
            if value is not None:
                self.attributes[key] = value
            self.changed.notify_all()

    def read(self, path: str, headers: Any) -> tuple[int, str, bytes]:
        url = urllib.parse.urlsplit(path)
        if url.path.startswith("/storage/"):
            status, answer = self.storage.get(url.path, (200, {"items": [1], "permissions": [1]}))
            return status, "", json.dumps(answer).encode()
        if headers["Metadata-Flavor"] != "Google":
            return 403, "", b""
        name = url.path.removeprefix("/computeMetadata/v1/instance/")
        query = dict(urllib.parse.parse_qsl(url.query))
        if name.endswith("/token"):
            return 200, "", b'{"access_token": "secret", "expires_in": 3599}'
        with self.changed:
            if "wait_for_change" in query:
                self.changed.wait_for(
                    lambda: not self.is_open or self.etag(name) != query.get("last_etag"), 5
                )
            return 200, self.etag(name), self.text(name).encode()

    def text(self, name: str) -> str:
        return json.dumps(self.attributes) if name == "attributes/" else self.values[name]

    def etag(self, name: str) -> str:
        return f"{hash(self.text(name)):x}"
