"""The REST door to a world in the same process: requests and answers are bytes, and no socket."""

from __future__ import annotations

import json as text
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from service.emulator.api.calls.dispatch import answer_message
from service.emulator.api.methods import SERVICES
from service.emulator.errors import ApiError
from service.emulator.surfaces.binding import Binding, bindings_of, get_binding, message_of
from service.emulator.surfaces.json_codec import error_json, to_json
from service.emulator.surfaces.request_body import parse_body
from service.emulator.world.world import World

ADDRESS = "https://tpu.googleapis.com"


@dataclass(frozen=True)
class Reply:
    """As `requests` has it."""

    status_code: int
    content: bytes
    request: Any

    def json(self) -> Any:
        return text.loads(self.content)


@dataclass(frozen=True)
class RestTransport:
    """`sleep` is called with the seconds that a fault delays an answer by; it moves the clock."""

    world: World
    sleep: Callable[[float], None]

    def post(self, url: str, *, params: Mapping[str, str], json: object, timeout: float) -> Reply:
        """Raises TimeoutError, though what was asked may have taken effect."""
        body = text.dumps(json).encode()
        return self._reply("POST", url, params, body, timeout)

    def get(self, url: str, *, params: Mapping[str, str], timeout: float) -> Reply:
        """Raises TimeoutError."""
        return self._reply("GET", url, params, b"", timeout)

    def _reply(
        self, verb: str, url: str, params: Mapping[str, str], body: bytes, timeout: float
    ) -> Reply:
        asked = SimpleNamespace(method=verb, url=url)
        try:
            shown = self._answer(verb, urlsplit(url).path, params, body, timeout)
        except ApiError as error:
            return Reply(error.http_status, text.dumps(error_json(error)).encode(), asked)
        return Reply(200, text.dumps(shown).encode(), asked)

    def _answer(
        self, verb: str, path: str, params: Mapping[str, str], body: bytes, timeout: float
    ) -> object:
        binding, name = get_binding(_bindings(), verb, path)
        query = {key: [value] for key, value in params.items()}
        told = answer_message(
            self.world, binding.method, message_of(binding, name, query, parse_body(body))
        )
        self.sleep(min(told.delay_seconds, timeout))
        if told.delay_seconds >= timeout:
            raise TimeoutError("the deadline passed")
        if told.error is not None:
            raise told.error
        assert told.response is not None
        return to_json(told.response, enum_numbers=False)


@cache
def _bindings() -> list[Binding]:
    return bindings_of(SERVICES)
