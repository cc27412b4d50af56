"""The REST surface of the API: the table of methods, answered as by Google's front end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.emulator.api.calls.dispatch import answer_message
from service.emulator.api.calls.field_masks import HEADER, chosen_of, resolve_selection
from service.emulator.api.methods import SERVICES
from service.emulator.errors import ApiError, Code
from service.emulator.permissions import token_of
from service.emulator.schema import extended_class
from service.emulator.surfaces.binding import (
    Binding,
    Query,
    bindings_of,
    get_binding,
    message_of,
    verbs_of,
)
from service.emulator.surfaces.json_codec import Shown, error_json, to_json
from service.emulator.surfaces.partial_response import select_keys
from service.emulator.surfaces.request_body import is_form, parse_body, parse_form, read_body
from service.emulator.world.world import World

__all__ = ["build_endpoint", "error_response", "json_response", "parse_body"]

Endpoint = Callable[[Request], Awaitable[Response]]
OVERRIDE = "x-http-method-override"
CLIENT_GONE = 499


def build_endpoint(world: World) -> Endpoint:
    """Return an endpoint for every path and verb of the API."""
    bindings = bindings_of(SERVICES)

    async def answer_request(request: Request) -> Response:
        try:
            if request.method == "OPTIONS":
                path = request.scope["path"]
                verbs = verbs_of(bindings, path)
                if not verbs:
                    text = f"The requested URL {path} was not found."
                    return error_response(ApiError(Code.NOT_FOUND, text))
                return Response(headers={"Allow": ", ".join([*verbs, "OPTIONS"])})
            return await _answer_call(world, bindings, request)
        except ApiError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)

    return answer_request


async def _answer_call(world: World, bindings: list[Binding], request: Request) -> Response:
    body = await read_body(request)
    query: Query = parse_form(request.scope["query_string"])
    if OVERRIDE in request.headers and is_form(request):
        # A GET whose URL would be too long sends its parameters as a form.
        query, body = {**query, **parse_form(body)}, b""
    # A POST may stand for another verb, and HEAD is GET without the body of the response.
    override = request.headers.get(OVERRIDE, "") if request.method == "POST" else ""
    verb = {"HEAD": "GET"}.get(request.method, override.upper() or request.method)
    binding, name = get_binding(bindings, verb, request.scope["path"])
    # A parameter has precedence over the header.
    wanted = _last_value(query, "fields") or _last_value(query, "$fields")
    wanted = wanted or request.headers.get(HEADER, "")
    response = binding.method.response.DESCRIPTOR
    extended = extended_class(response.full_name)
    selectable = extended.DESCRIPTOR if extended else response
    chosen = resolve_selection(selectable, chosen_of(wanted), wanted)
    message = message_of(binding, name, query, parse_body(body) if binding.method.body else {})
    token = token_of(request.headers.get("authorization", ""))
    told = answer_message(world, binding.method, message, token=token)
    if told.delay_seconds:
        await asyncio.sleep(told.delay_seconds)
    if told.error is not None:
        raise told.error
    assert told.response is not None
    formats = [*query.get("$alt", []), *query.get("alt", [])]
    enum_numbers = any("enum-encoding=int" in format_ for format_ in formats)
    shown: Shown = to_json(told.response, enum_numbers=enum_numbers)
    return json_response(select_keys(shown, chosen))


def error_response(error: ApiError) -> Response:
    return json_response(error_json(error), error.http_status)


def json_response(content: object, status: int = 200) -> Response:
    """Make a JSON response in ASCII, which can represent even a lone surrogate."""
    text = json.dumps(content, allow_nan=False)
    return Response(text, status_code=status, media_type="application/json")


def _last_value(query: Query, key: str) -> str:
    return query.get(key, [""])[-1]
