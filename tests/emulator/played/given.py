"""A cloud whose workers are played, and the service's side of the contract."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcTransport,
)

from service.emulator.errors import ApiError
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.world.container_runs import ContainerRun
from tests.emulator.factories import ClientCloud, Cloud, configured, name_of, node

POD = {"accelerator_type": "v4-32"}
SUPERVISOR = {"steward-supervisor": "source"}


def task(action: str = "run", generation: int = 1, attempt: str = "j-1", **more: Any) -> str:
    """A task for all workers of a v4-8 or v4-32; `env` and `command` are the container's."""
    container = {
        "image": "gcr.io/lab/trainer@sha256:" + "0" * 64,
        "command": more.pop("command", []),
        "args": [],
        "env": more.pop("env", {}),
        "forms": ["device", "privileged"],
    }
    return json.dumps(
        {
            "v": 1,
            "generation": generation,
            "attempt": attempt,
            "action": action,
            "slice": 0,
            "workers": [0, 1, 2, 3],
            "first_worker": 0,
            "container": container,
            "stop_grace_seconds": 25,
            "max_duration_seconds": 86_400,
            "pull_seconds": 1_800,
            "log": {
                "write": {
                    "logName": "projects/lab/logs/tpu-steward-jobs",
                    "labels": {"job": "j", "attempt": "1"},
                },
            },
            "report_seconds": 15,
            **more,
        }
    )


class Jobs:
    """A played cloud, and what the service would write and read."""

    def __init__(self, cloud: Cloud | None = None, **patch: Any) -> None:
        self.cloud = cloud or configured(played_workers="all", **patch)

    @property
    def runs(self) -> list[ContainerRun]:
        return list(self.cloud.world.runs)

    def ready(self, text: str | None = None, node_id: str = "a", **wanted: Any) -> str:
        """A READY node with a supervisor, and perhaps a task from its birth."""
        metadata = {**SUPERVISOR, **({"steward-task": text} if text else {})}
        return self.cloud.ready(node_id, metadata=metadata, **wanted)

    def say(self, text: str, node_id: str = "a") -> None:
        """Change the task of a node."""
        wanted = node(name=name_of(node_id), metadata={**SUPERVISOR, "steward-task": text})
        self.cloud.ask("UpdateNode", node=wanted, update_mask={"paths": ["metadata"]})
        self.cloud.wait(self.cloud.world.config.seconds_for("update") + 1)

    def report(self, worker: int = 0, node_id: str = "a") -> dict[str, Any]:
        """The report of a worker, as the service reads it."""
        asked = {"name": name_of(node_id), "query_path": "steward/report"}
        found = self.cloud.ask("GetGuestAttributes", **asked, worker_ids=[str(worker)])
        (item,) = found.guest_attributes[0].query_value.items
        told: dict[str, Any] = json.loads(item.value)
        return told

    def until(self, state: str, worker: int = 0, node_id: str = "a", most: int = 7_200) -> Any:
        """Wait, second by second, until a worker reports a state; its report."""
        told: dict[str, Any] = {}
        for _ in range(most):
            self.cloud.wait(1)
            with suppress(ApiError):  # nothing is written before the first boot
                told = self.report(worker, node_id)
            if told.get("state") == state:
                return told
        raise AssertionError(f"still {told}")

    def lines(self, job: str = "j") -> list[Any]:
        """The log entries of a job."""
        client = LoggingServiceV2Client(
            transport=LoggingServiceV2GrpcTransport(channel=LocalChannel(self.cloud.world))
        )
        wanted = f'logName="projects/lab/logs/tpu-steward-jobs" AND labels.job="{job}"'
        asked = {"resource_names": ["projects/lab"], "filter": wanted, "page_size": 1_000}
        return list(client.list_log_entries(request=asked, timeout=10))


__all__ = ["POD", "ClientCloud", "Jobs", "task"]
