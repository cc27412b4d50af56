"""An API that answers what a test says, nodes as it shows them, and the program to run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typer.testing import CliRunner, Result

from service.cli.app import app

ID = "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"
OTHER = "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a12"


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any


NO_FLEET = {"hourly_cost": "0.000000000", "unused_reservations_hourly_cost": "0.000000000"}
NO_JOBS = {"jobs": [], "next_page_token": ""}


@dataclass
class Api:
    """Answers each (method, path) with its next status and document; the last one for ever."""

    url: str = ""
    media_type: str = "application/json"
    media_types: dict[str, str] = field(default_factory=dict)
    """Of paths that answer with something else."""
    answers: dict[tuple[str, str], list[tuple[int, Any]]] = field(
        default_factory=lambda: {
            ("GET", "/v1/jobs"): [(200, NO_JOBS)],
            ("GET", "/v1/fleet"): [(200, NO_FLEET)],
        }
    )
    calls: list[Call] = field(default_factory=list)

    def when(self, method: str, path: str, *documents: Any, status: int = 200) -> None:
        self.answers[method, path] = [(status, document) for document in documents]

    def answer(self, call: Call) -> tuple[int, str]:
        self.calls.append(call)
        if call.path.endswith("/policy") and (call.method, call.path) not in self.answers:
            return 200, json.dumps({"ends": []})
        left = self.answers[call.method, call.path]
        status, document = left.pop(0) if len(left) > 1 else left[0]
        return status, document if isinstance(document, str) else json.dumps(document)


@contextmanager
def served(api: Api) -> Iterator[Api]:
    """The API on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            parts = urlsplit(self.path)
            said = json.loads(body) if body else None
            query = parse_qs(parts.query, keep_blank_values=True)
            call = Call(str(self.command), parts.path, query, dict(self.headers), said)
            status, text = api.answer(call)
            self.send_response(status)
            self.send_header("Content-Type", api.media_types.get(parts.path, api.media_type))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(said: bytes | str) -> Iterator[str]:
    """The address of a program that says these very bytes to whoever connects, and hangs up."""

    def talk() -> None:
        while True:
            caller, _ = listener.accept()
            with caller, suppress(OSError):  # who has heard enough may be gone by now
                caller.settimeout(5)
                if not caller.recv(65_536):
                    return
                caller.sendall(said if isinstance(said, bytes) else said.encode())
                caller.shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=talk)
        thread.start()
        host, port = listener.getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            socket.create_connection((host, port)).close()
            thread.join()


def steward(*arguments: str, **environment: str) -> Result:
    """Run a command in this process."""
    return CliRunner(env=environment).invoke(app, arguments, prog_name="tpu-steward")


def program(*arguments: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own, in that folder."""
    inherited = {name: value for name, value in os.environ.items() if name[:8] != "STEWARD_"}
    checkout = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-m", "service.cli", *arguments],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(checkout), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def node(**overrides: Any) -> dict[str, Any]:
    """A node as the API shows it."""
    return {
        "id": ID,
        "name": "trainer",
        "cloud_id": "trainer-3d6c2a11",
        "project": "lab",
        "zone": "us-west4-a",
        "zones": ["us-west4-a"],
        "accelerator_type": "v5litepod-8",
        "accelerator_types": ["v5litepod-8"],
        "generation": "v5e",
        "topology": "2x4",
        "chips": 8,
        "hosts": 1,
        "runtime_version": "v2-alpha-tpuv5-lite",
        "provisioning_model": "spot",
        "queued": False,
        "queue_state": "",
        "slices": 1,
        "slice_states": [],
        "reservation": "",
        "max_wait_seconds": None,
        "valid_until": None,
        "asked": "present",
        "state": "READY",
        "state_since": "2026-11-05T11:58:00Z",
        "health": "HEALTHY",
        "endpoints": [{"worker": 0, "ip": "10.0.0.2", "port": 8470, "external_ip": ""}],
        "created_at": "2026-11-05T11:56:48Z",
        "ready_at": "2026-11-05T11:58:00Z",
        "ended_at": None,
        "deletes_at": "2026-11-05T13:58:00Z",
        "delete_requested_at": None,
        "delete_reason": "",
        "replacing_since": None,
        "overdue_since": None,
        "placements": [
            {
                "attempt": 1,
                "zone": "us-west4-a",
                "accelerator_type": "v5litepod-8",
                "provisioning_model": "spot",
                "cloud_id": "trainer-3d6c2a11",
                "started_at": "2026-11-05T11:56:50Z",
                "ended_at": None,
                "outcome": "ready",
                "reason": "",
            }
        ],
        "last_error": "",
        "labels": {"run": "17"},
        "owner": "ada",
        "team": "vision",
        "version": 3,
        "hourly_cost": "4.623200000",
        "cost": "0.154106667",
        **overrides,
    }


def page(*nodes: dict[str, Any], token: str = "") -> dict[str, Any]:
    return {"nodes": list(nodes), "next_page_token": token}
