"""The OpenAPI document: FastAPI's, with every answer that a route can give, with examples, and with
names for types alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.api.http.auth import PUBLIC
from service.api.http.middleware import SAFE_METHODS
from service.api.http.problem_kinds import EVERY_KIND, kinds_of
from service.api.http.problems import MEDIA_TYPE, ProblemKind, may_answer
from service.api.openapi.documentation import (
    DESCRIPTION,
    HEARTBEAT,
    SECURITY_SCHEMES,
    SERVERS,
    SUMMARIES,
    TAGS,
)
from service.api.openapi.examples import BODIES, problem_example

JSON = "application/json"

_SCHEMA = {"$ref": "#/components/schemas/Problem"}
_OTHERWISE = {"description": "Any other problem", "content": {MEDIA_TYPE: {"schema": _SCHEMA}}}

_BEFORE_EVERY_ROUTE = (400, 401, 413, 431, 500, 503)
"""Answers of the guard, of the connection and of the authentication, which no route declares."""

_MAPS = frozenset({"properties", "schemas", "paths", "responses", "headers", "content"})
"""Keys whose value maps names to further parts of the document."""

_DATA = frozenset({"default", "example", "examples", "enum", "const", "required"})
"""Keys whose value is no part of the document, but data."""


def corrected(document: dict[str, Any], *, guarded: bool) -> dict[str, Any]:
    """The document with every answer that a route can give, with the token where one is needed,
    with examples, and with titles on named schemas only."""
    _describe(document)
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            operation["responses"] = _responses(method, operation, guarded=guarded)
            if guarded and path not in PUBLIC:
                operation["security"] = _security(method, path, operation["operationId"])
            elif guarded:
                del operation["responses"]["401"]
    components["securitySchemes"] = SECURITY_SCHEMES
    components["examples"] = {
        _key(kind): {"summary": kind.title, "value": problem_example(kind)} for kind in EVERY_KIND
    }
    _drop_inline_titles(document)
    return document


def _describe(document: dict[str, Any]) -> None:
    """Say what the API, its tags and its operations are for, and give each body an example."""
    document["info"]["description"] = DESCRIPTION
    document["servers"] = SERVERS
    document["tags"] = [{"name": name, "description": said} for name, said in TAGS.items()]
    for operations in document["paths"].values():
        for operation in operations.values():
            name = operation["operationId"]
            operation["summary"] = SUMMARIES[name]
            if name in BODIES:
                operation["requestBody"]["content"][JSON]["example"] = BODIES[name]


def _security(method: str, path: str, name: str) -> list[dict[str, list[str]]]:
    """The tokens that the operation takes: any one of them."""
    found = [{"token": list[str]()}]
    if method.upper() in SAFE_METHODS or not path.startswith("/v1/"):
        found.append({"password": []})
    if name == HEARTBEAT:
        found.append({"heartbeat": []})
    return found


def _responses(method: str, operation: dict[str, Any], *, guarded: bool) -> dict[str, Any]:
    """The answers of a route, by status, each problem with its media type and its examples."""
    found = {
        str(status): {"description": one["description"]}
        for status, one in may_answer(*_common(method, operation, guarded=guarded)).items()
    }
    found |= operation["responses"]
    for status, response in found.items():
        if status >= "400":
            kinds = kinds_of(operation["operationId"], int(status))
            response["content"] = {MEDIA_TYPE: {"schema": _SCHEMA, "examples": _examples(kinds)}}
    return {**dict(sorted(found.items())), "default": _OTHERWISE}


def _examples(kinds: tuple[ProblemKind, ...]) -> dict[str, Any]:
    keys = map(_key, kinds)
    return {key: {"$ref": f"#/components/examples/{key}"} for key in keys}


def _key(kind: ProblemKind) -> str:
    """The name of the example of a kind; two kinds may share a slug."""
    return f"{kind.status}-{kind.slug}"


def _common(method: str, operation: dict[str, Any], *, guarded: bool) -> Iterator[int]:
    """The statuses that are answered outside of a route, or by FastAPI for its kind of body."""
    yield from _BEFORE_EVERY_ROUTE
    if method.upper() not in SAFE_METHODS:
        yield 403
    if not guarded:
        yield 421
    if "requestBody" in operation:
        yield 408
        if JSON in operation["requestBody"]["content"]:
            yield 415


def _drop_inline_titles(document: dict[str, Any]) -> None:
    """Remove the titles that pydantic and FastAPI make of the names of fields and parameters.

    Generators of clients name a class after a title. Of two that are the same they make one class,
    or refuse the second.
    """
    schemas = document["components"]["schemas"]
    _drop_titles(schemas, is_map=True)
    for name, schema in schemas.items():
        schema["title"] = name
    _drop_titles(document["paths"], is_map=True)


def _drop_titles(part: Any, *, is_map: bool = False) -> None:
    if isinstance(part, list):
        for one in part:
            _drop_titles(one)
    if not isinstance(part, dict):
        return
    if not is_map:
        part.pop("title", None)
    for key, value in part.items():
        if is_map or key not in _DATA:
            _drop_titles(value, is_map=not is_map and key in _MAPS)
