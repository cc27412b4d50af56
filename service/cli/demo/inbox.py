"""A receiver of webhooks on this machine: it takes the messages of the demo, and shows them."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
KEPT = 200
LONGEST_BYTES = 1_000_000


class Inbox(ThreadingHTTPServer):
    """Answers 204 to each POST; GET shows the last messages as text, the newest first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Handler)
        self.messages: deque[tuple[str, str]] = deque(maxlen=KEPT)
        """The path and the body of each message, the newest last."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def as_text(self) -> str:
        """One line for each message."""
        lines = []
        for path, body in reversed(list(self.messages)):
            try:
                facts = json.loads(body)
            except ValueError:
                text = body
            else:
                text = str(facts.get("message", facts) if isinstance(facts, dict) else facts)
            lines.append(f"{path}  {text[:200]}")
        return "\n".join([*lines, ""]) or "No message yet.\n"


class _Handler(BaseHTTPRequestHandler):
    server: Inbox
    timeout = 10

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_BYTES:
            self.send_error(413)
            return
        body = self.rfile.read(int(length)).decode(errors="replace")
        self.server.messages.append((self.path, body))
        self.send_response(204)
        self.end_headers()

    def do_GET(self) -> None:
        text = self.server.as_text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextmanager
def open_inbox() -> Iterator[Inbox]:
    """Receive messages on a free port of this machine."""
    with Inbox() as inbox:
        thread = threading.Thread(target=inbox.serve_forever, name="inbox", daemon=True)
        thread.start()
        try:
            yield inbox
        finally:
            inbox.shutdown()
            thread.join()
