"""The whole service as a user runs it: real processes on free ports of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.domain.jobs.startup import script_digest
from tests.ports import free_port

PATIENCE = 60
"""Seconds after which something that should have happened will not."""


class House:
    """An emulator, a server and a daemon, each of which can be killed and started again."""

    def __init__(
        self,
        folder: Path,
        speed: float = 20,
        database: str = "",
        *,
        supervisors: bool = False,
    ) -> None:
        """`supervisors` are run on the workers."""
        self.api = f"http://127.0.0.1:{(port := free_port())}"
        grpc_port, rest_port = free_port(), free_port()
        self.emulator = f"http://127.0.0.1:{rest_port}"
        self._folder = folder
        self.environment = {
            **os.environ,
            "STEWARD_DATABASE_URL": database or f"sqlite:///{folder}/steward.db",
            "STEWARD_PROJECTS": "lab",
            "STEWARD_EMULATOR": f"127.0.0.1:{grpc_port}",
            "STEWARD_EMULATOR_REST": f"127.0.0.1:{rest_port}",
            "STEWARD_PORT": str(port),
            "STEWARD_URL": self.api,
            "STEWARD_INVENTORY_SECONDS": "1",
            "STEWARD_LIFECYCLE_SECONDS": "1",
            "STEWARD_METERING_SECONDS": "1",
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._run("migrate").wait(PATIENCE)
        ports = ["--grpc-port", str(grpc_port), "--rest-port", str(rest_port)]
        if supervisors:
            ports += ["--run-startup-scripts-of", script_digest()]
        self.start("emulator", *ports, "--speed", str(speed))
        self.start("serve")
        self.until(lambda: bool(self.get("/readyz")), "the server to answer")
        self.until(lambda: bool(self.get("/_emulator/config", self.emulator)), "the emulator")
        self.start("daemon")

    def start(self, command: str, *options: str, name: str = "") -> None:
        """Start a part of the house; a second one of its kind under a name of its own."""
        self._processes[name or command] = self._run(command, *options)

    def process(self, command: str) -> int:
        """The process id of a part."""
        return self._processes[command].pid

    def runs(self, command: str) -> bool:
        """Whether a part has not ended."""
        return self._processes[command].poll() is None

    def kill(self, command: str) -> None:
        """The part is gone at once: SIGKILL, which nothing can catch."""
        self._end(command, signal.SIGKILL)

    def suspend(self, command: str) -> None:
        """The part does nothing more, and holds what it holds: SIGSTOP."""
        self._processes[command].send_signal(signal.SIGSTOP)

    def resume(self, command: str) -> None:
        """The part goes on where it was suspended."""
        self._processes[command].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Everything stops as it would at the end of a day."""
        for name in reversed(self._processes.copy()):
            self._end(name, signal.SIGTERM)

    def logs(self, command: str) -> str:
        """What a part has written so far."""
        log = self._folder / f"{command}.log"
        return log.read_text() if log.exists() else ""

    def get(self, path: str, base: str | None = None) -> Any:
        """The JSON at a path of the API, or of the emulator."""
        return self._ask("GET", path, None, base)

    def post(self, path: str, body: object = None, base: str | None = None) -> Any:
        """The JSON that a POST is answered with."""
        return self._ask("POST", path, body, base)

    def delete(self, path: str) -> Any:
        """The JSON that a DELETE is answered with."""
        return self._ask("DELETE", path, None, None)

    def node(self, node: Any) -> Any:
        """The node as it is now."""
        return self.get(f"/v1/nodes/{node['id']}")

    def until_state(self, node: Any, state: str) -> Any:
        """Wait until the node is in that state; answers it."""
        self.until(lambda: self.node(node)["state"] == state, f"{node['name']} to be {state}")
        return self.node(node)

    def until(self, condition: Callable[[], bool], what: str = "it") -> None:
        """Wait for something to become true."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.1)
        raise AssertionError(
            f"waited {PATIENCE} s for {what} in vain\n"
            + "\n".join(f"{name}: {self.logs(name)[-2000:]}" for name in self._processes)
        )

    def story(self, node: Any) -> list[str]:
        """What is told of the node, a sentence each, the oldest first."""
        events = self.get(f"/v1/nodes/{node['id']}/events?page_size=200")["events"]
        return [event["message"] for event in events]

    def delete_and_see_it_gone(self, node: Any) -> Any:
        """The node after its deletion has come to its end."""
        self.delete(f"/v1/nodes/{node['id']}")
        return self.until_state(node, "DELETED")

    def bill(self, name: str = "") -> Any:
        """The emulator's own account, of those nodes whose name in the cloud begins so."""
        entries = self.get("/_emulator/bill", self.emulator)["entries"]
        return [entry for entry in entries if _begins(entry, name)]

    def in_cloud(self, name: str) -> list[Any]:
        """The nodes in the emulator whose name begins so, as Google shows them."""
        nodes = self.get("/_emulator/state", self.emulator)["nodes"]
        return [node["node"] for node in nodes if _begins(node, name)]

    def in_queue(self, name: str) -> list[Any]:
        """The queued resources in the emulator whose name begins so, as Google shows them."""
        queue = self.get("/_emulator/state", self.emulator)["queued_resources"]
        return [resource for resource in queue if _begins(resource, name)]

    def configure(self, **patch: object) -> None:
        """Have the emulator be otherwise from now on."""
        self._ask("PATCH", "/_emulator/config", patch, self.emulator)

    def fault(self, **fault: object) -> None:
        """Have the emulator fail."""
        self.post("/_emulator/faults", fault, self.emulator)

    def happens(self, what: str, to: Any, **more: object) -> None:
        """Have something happen to a node of the emulator: `preempt`, `maintenance`, ..."""
        self.post(f"/_emulator/nodes/{what}", {"name": to["name"], **more}, self.emulator)

    def _ask(self, method: str, path: str, body: object, base: str | None) -> Any:
        request = urllib.request.Request(
            (base or self.api) + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"} if body is not None else {},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")

    def _run(self, command: str, *options: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{command}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "service.cli", command, *options],
                env=self.environment,
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )

    def _end(self, command: str, how: signal.Signals) -> None:
        process = self._processes.pop(command)
        process.send_signal(how)
        process.wait(PATIENCE)


def _begins(thing: Any, name: str) -> bool:
    return str(thing["name"]).rpartition("/")[2].startswith(name)
