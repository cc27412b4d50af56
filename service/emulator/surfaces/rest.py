"""The REST surface of the API: the table of methods, bound as Google's front end does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response

from service.emulator.api.call import Method, answer
from service.emulator.api.methods import SERVICES
from service.emulator.errors import ApiError, Code
from service.emulator.surfaces.shape import error_json, read_into, to_json, unknown_name
from service.emulator.world import World

Endpoint = Callable[[Request], Awaitable[Response]]

# Query parameters that belong to the front end, not to the request message.
SYSTEM_PARAMETERS = {
    "$.xgafv",
    "$alt",
    "$prettyPrint",
    "access_token",
    "alt",
    "callback",
    "fields",
    "key",
    "oauth_token",
    "prettyPrint",
    "quotaUser",
    "uploadType",
    "upload_protocol",
}
VARIABLE = re.compile(r"\{([a-z_.]+)=([^}]*)\}")


@dataclass(frozen=True)
class Binding:
    """A method with its path as a regular expression and the field that the path fills."""

    method: Method
    pattern: re.Pattern[str]
    field: str


def build_endpoint(world: World) -> Endpoint:
    """Answer every path of the API; to be routed for all verbs."""
    bindings = [
        _binding(method, service.versions) for service in SERVICES for method in service.methods
    ]

    async def endpoint(request: Request) -> Response:
        try:
            binding, name = _route(bindings, request.method, request.url.path)
            message = _message(binding, name, request, await request.body())
        except ApiError as error:
            return error_response(error)
        told = answer(world, binding.method, message)
        if told.delay_seconds:
            await asyncio.sleep(told.delay_seconds)
        if told.error is not None:
            return error_response(told.error)
        assert told.response is not None
        return json_response(to_json(told.response, enum_numbers=_wants_numbers(request)))

    return endpoint


def error_response(error: ApiError) -> Response:
    return json_response(error_json(error), error.http_status)


def json_response(content: object, status: int = 200) -> Response:
    """Write JSON in ASCII, so that even half a surrogate pair finds its way back."""
    text = json.dumps(content, allow_nan=False)
    return Response(text, status_code=status, media_type="application/json")


def parse_body(body: bytes) -> object:
    """Read a JSON body, empty as an empty object; raises ApiError."""
    if not body.strip():
        return {}
    try:
        parsed = json.loads(body)
        if b"\\u" in body:
            # Half a surrogate pair is good JSON, but no text.
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        text = f"Invalid JSON payload received. {error}"
        raise ApiError(Code.INVALID_ARGUMENT, text) from None
    return parsed


def _binding(method: Method, versions: tuple[str, ...]) -> Binding:
    variable = VARIABLE.search(method.path)
    assert variable is not None, method.path
    before, after = method.path[: variable.start()], method.path[variable.end() :]
    inner = variable[2].replace("*", "[^/]+")
    pattern = f"/(?:{'|'.join(versions)}){re.escape(before)}({inner}){re.escape(after)}"
    return Binding(method, re.compile(pattern), variable[1])


def _route(bindings: list[Binding], verb: str, path: str) -> tuple[Binding, str]:
    for binding in bindings:
        match = binding.pattern.fullmatch(path)
        if match is not None and binding.method.verb == verb:
            return binding, match[1]
    raise ApiError(Code.NOT_FOUND, f"The requested URL {path} was not found for {verb}.")


def _message(binding: Binding, name: str, request: Request, body: bytes) -> Message:
    method = binding.method
    message = method.request()
    query = _query(request)
    if method.body == "*":
        read_into(message, parse_body(body))
    elif method.body:
        read_into(getattr(message, method.body), parse_body(body), method.body)
        getattr(message, method.body).SetInParent()
    _read_query(message, query)
    *parents, last = binding.field.split(".")
    target: Any = message
    for parent in parents:
        target = getattr(target, parent)
    setattr(target, last, name)
    return message


def _query(request: Request) -> dict[str, list[str]]:
    params = request.query_params
    return {key: params.getlist(key) for key in params if key not in SYSTEM_PARAMETERS}


def _read_query(message: Message, query: Mapping[str, list[str]]) -> None:
    """Bind query parameters to fields; a mask may be spelled in either case."""
    fields = {
        spelling: field
        for field in message.DESCRIPTOR.fields
        for spelling in (field.name, field.json_name)
    }
    for key, values in query.items():
        field = fields.get(key)
        if field is None:
            raise unknown_name(key)
        read_into(message, {field.json_name: _query_value(field, values)})


def _query_value(field: Any, values: list[str]) -> object:
    if field.is_repeated:
        return values
    value = values[-1]
    if field.type == field.TYPE_BOOL:
        return {"true": True, "false": False}.get(value.lower(), value)
    if field.type == field.TYPE_MESSAGE:
        return re.sub(r"_([a-z])", lambda found: found[1].upper(), value)
    return value


def _wants_numbers(request: Request) -> bool:
    asked = request.query_params.getlist("$alt") + request.query_params.getlist("alt")
    return any("enum-encoding=int" in each for each in asked)
