"""Completes FastAPI's OpenAPI document: all answers, all tokens, examples, and titles."""

from __future__ import annotations

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
"""Statuses of the guard, of the connection and of the authentication. No route declares them."""

_MAPS = frozenset({"properties", "schemas", "paths", "responses", "headers", "content"})
"""Keys whose value maps names to further parts of the document."""

_DATA = frozenset({"default", "example", "examples", "enum", "const", "required"})
"""Keys whose value is data, and no part of the document."""


def correct_document(document: dict[str, Any], *, guarded: bool) -> dict[str, Any]:
    """The document with the descriptions of the API, its tags and its operations, with all answers
    of each route, with its tokens if `guarded`, with examples, and with titles on named schemas
    only. Changes the document in place."""
    document["info"]["description"] = DESCRIPTION
    document["servers"] = SERVERS
    document["tags"] = [{"name": name, "description": said} for name, said in TAGS.items()]
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            identifier = operation["operationId"]
            operation["summary"] = SUMMARIES[identifier]
            if identifier in BODIES:
                operation["requestBody"]["content"][JSON]["example"] = BODIES[identifier]
            operation["responses"] = _build_responses(method, operation, guarded=guarded)
            if guarded and path not in PUBLIC:
                # Any one of these tokens is enough.
                tokens = {
                    "token": True,
                    "password": method.upper() in SAFE_METHODS or not path.startswith("/v1/"),
                    "heartbeat": identifier == HEARTBEAT,
                }
                operation["security"] = [
                    {name: []} for name, is_taken in tokens.items() if is_taken
                ]
            elif guarded:
                del operation["responses"]["401"]
    components["securitySchemes"] = SECURITY_SCHEMES
    components["examples"] = {
        _example_key(kind): {"summary": kind.title, "value": problem_example(kind)}
        for kind in EVERY_KIND
    }
    # Client generators name a class after a title. For two equal titles they make one class, or
    # they fail. Pydantic and FastAPI make titles from the names of fields and parameters.
    _drop_titles(components["schemas"], is_map=True)
    for name, schema in components["schemas"].items():
        schema["title"] = name
    _drop_titles(document["paths"], is_map=True)
    return document


def _build_responses(method: str, operation: dict[str, Any], *, guarded: bool) -> dict[str, Any]:
    """The answers of a route by status. Each problem has its media type and its examples. Some
    statuses are those of answers outside of the route, and of FastAPI for its kind of body."""
    common = list(_BEFORE_EVERY_ROUTE)
    if method.upper() not in SAFE_METHODS:
        common.append(403)
    if not guarded:
        common.append(421)
    if "requestBody" in operation:
        common += (408, 415) if JSON in operation["requestBody"]["content"] else (408,)
    found = {
        str(status): {"description": answer["description"]}
        for status, answer in may_answer(*common).items()
    }
    found |= operation["responses"]
    for status, response in found.items():
        if status >= "400":
            keys = map(_example_key, kinds_of(operation["operationId"], int(status)))
            examples = {key: {"$ref": f"#/components/examples/{key}"} for key in keys}
            response["content"] = {MEDIA_TYPE: {"schema": _SCHEMA, "examples": examples}}
    return {**dict(sorted(found.items())), "default": _OTHERWISE}


def _example_key(kind: ProblemKind) -> str:
    """Name of the example of a kind. It has the status, since two kinds may share a slug."""
    return f"{kind.status}-{kind.slug}"


def _drop_titles(part: Any, *, is_map: bool = False) -> None:
    if isinstance(part, list):
        for item in part:
            _drop_titles(item)
    if not isinstance(part, dict):
        return
    if not is_map:
        part.pop("title", None)
    for key, value in part.items():
        if is_map or key not in _DATA:
            _drop_titles(value, is_map=not is_map and key in _MAPS)
