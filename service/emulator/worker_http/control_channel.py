"""The emulator's own paths on a worker's port, for stand-ins. No real API has these paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from service.emulator.errors import ApiError, Code
from service.emulator.nodes import activity
from service.emulator.nodes.worker import Worker
from service.emulator.surfaces.rest import json_response, parse_body
from service.emulator.world.world import World

MAX_COUNTED = 10_000


@dataclass
class ControlChannel:
    """Paths of a worker's own port.

    `GET …/speed`, `GET …/images?name=` before each pull, and `POST …/activity` with percentages.
    """

    world: World
    _pulls: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    """By the uid of a node, the number of a worker and the name of an image."""

    async def answer_request(self, request: Request, worker: Worker, path: str) -> Response:
        """Answer a request. Raises ApiError. The header keeps web pages out, as for metadata."""
        if request.headers.get("metadata-flavor") != "Google":
            raise ApiError(Code.PERMISSION_DENIED, "Missing required header: Metadata-Flavor")
        if (request.method, path) == ("GET", "/_emulator/speed"):
            return json_response({"speed": self.world.config.speed})
        if (request.method, path) == ("GET", "/_emulator/images"):
            return json_response(
                self._describe_pull(worker, str(request.query_params.get("name", "")))
            )
        if (request.method, path) == ("POST", "/_emulator/activity"):
            changes = parse_body(await request.body())
            if not isinstance(changes, Mapping):
                raise ApiError(Code.INVALID_ARGUMENT, "the body must be a JSON object")
            checked = {key: activity.check_value(key, value) for key, value in changes.items()}
            now = self.world.run_due_events()
            if worker.record.state == "READY":
                activity.record_activity(worker.record, now, checked, worker.number)
            return json_response({})
        raise ApiError(Code.NOT_FOUND, f"{request.method} {path} is not known here")

    def _describe_pull(self, worker: Worker, name: str) -> dict[str, object]:
        """Count a pull, and return its settings."""
        settings = self.world.config.images.get(name)
        if settings is None:
            return {}
        if len(self._pulls) > MAX_COUNTED:
            self._pulls.clear()
        key = worker.uid, worker.number, name
        self._pulls[key] += 1
        return (
            settings.describe_pull()
            if not settings.times or self._pulls[key] <= settings.times
            else {}
        )
