"""The REST surface of the API: the table of methods, told as Google's front end does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.emulator.api.dispatch import answer
from service.emulator.api.field_masks import HEADER, Chosen, chosen_of, resolved
from service.emulator.api.methods import SERVICES
from service.emulator.errors import ApiError, Code
from service.emulator.permissions import token_of
from service.emulator.schema import extended_class
from service.emulator.surfaces.binding import (
    Binding,
    Query,
    bindings_of,
    find,
    message_of,
    verbs_of,
)
from service.emulator.surfaces.json_codec import Shown, error_json, to_json
from service.emulator.surfaces.partial_response import select
from service.emulator.surfaces.request_body import is_form, parse_body, parse_form, read_body
from service.emulator.world.world import World

__all__ = ["build_endpoint", "error_response", "json_response", "parse_body"]

Endpoint = Callable[[Request], Awaitable[Response]]
OVERRIDE = "x-http-method-override"
CLIENT_GONE = 499


def build_endpoint(world: World) -> Endpoint:
    """Answer every path of the API; to be routed for all verbs."""
    bindings = bindings_of(SERVICES)

    async def endpoint(request: Request) -> Response:
        try:
            if request.method == "OPTIONS":
                return _options(bindings, request)
            return await _answer(world, bindings, request)
        except ApiError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)

    return endpoint


async def _answer(world: World, bindings: list[Binding], request: Request) -> Response:
    raw = await read_body(request)
    query, body = _parts(request, raw)
    binding, name = find(bindings, _verb(request), request.scope["path"])
    chosen = _chosen(binding, request, query)
    message = message_of(binding, name, query, parse_body(body) if binding.method.body else {})
    token = token_of(request.headers.get("authorization", ""))
    told = answer(world, binding.method, message, token=token)
    if told.delay_seconds:
        await asyncio.sleep(told.delay_seconds)
    if told.error is not None:
        raise told.error
    assert told.response is not None
    shown: Shown = to_json(told.response, enum_numbers=_wants_numbers(query))
    return json_response(select(shown, chosen))


def _chosen(binding: Binding, request: Request, query: Query) -> Chosen:
    """Read what of the response is wanted, a parameter before the header; raises ApiError."""
    wanted = _last(query, "fields") or _last(query, "$fields") or request.headers.get(HEADER, "")
    response = binding.method.response.DESCRIPTOR
    shown = extended_class(response.full_name)
    return resolved(shown.DESCRIPTOR if shown else response, chosen_of(wanted), wanted)


def error_response(error: ApiError) -> Response:
    return json_response(error_json(error), error.http_status)


def json_response(content: object, status: int = 200) -> Response:
    """Write JSON in ASCII, so that even half a surrogate pair finds its way back."""
    text = json.dumps(content, allow_nan=False)
    return Response(text, status_code=status, media_type="application/json")


def _verb(request: Request) -> str:
    """Name the verb that is meant: a POST may stand for another, HEAD is GET without the body."""
    verb = request.headers.get(OVERRIDE, "") if request.method == "POST" else ""
    return {"HEAD": "GET"}.get(request.method, verb.upper() or request.method)


def _parts(request: Request, raw: bytes) -> tuple[Query, bytes]:
    """Tell parameters and body apart: those of a GET that was too long come as a form."""
    query = parse_form(request.scope["query_string"])
    if OVERRIDE in request.headers and is_form(request):
        return query | parse_form(raw), b""
    return query, raw


def _options(bindings: list[Binding], request: Request) -> Response:
    verbs = verbs_of(bindings, request.scope["path"])
    if not verbs:
        raise ApiError(Code.NOT_FOUND, f"The requested URL {request.scope['path']} was not found.")
    return Response(headers={"Allow": ", ".join([*verbs, "OPTIONS"])})


def _last(query: Query, key: str) -> str:
    return query.get(key, [""])[-1]


def _wants_numbers(query: Query) -> bool:
    asked = [*query.get("$alt", []), *query.get("alt", [])]
    return any("enum-encoding=int" in each for each in asked)
