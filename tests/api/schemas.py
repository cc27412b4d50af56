"""Walks the schemas of an OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_ONE = ("items", "additionalProperties", "not", "propertyNames", "schema")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties")


def schemas_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a document, nested ones included, each with the place at which it stands."""
    for name, schema in document["components"]["schemas"].items():
        yield from _with_nested(f"#/components/schemas/{name}", schema)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for place, schema in _of_operation(operation):
                yield from _with_nested(f"{method} {path} {place}", schema)


def _of_operation(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for parameter in operation.get("parameters", ()):
        yield parameter["name"], parameter["schema"]
    contents = {"body": operation.get("requestBody", {}), **operation["responses"]}
    for name, one in contents.items():
        for media_type, content in one.get("content", {}).items():
            yield f"{name} {media_type}", content.get("schema", {})
        for header, said in one.get("headers", {}).items():
            yield f"{name} {header}", said["schema"]


def _with_nested(place: str, schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(schema, dict):
        return
    yield place, schema
    for key in _ONE:
        yield from _with_nested(f"{place}/{key}", schema.get(key))
    for key in _SEVERAL:
        for number, one in enumerate(schema.get(key, ())):
            yield from _with_nested(f"{place}/{key}/{number}", one)
    for key in _NAMED:
        for name, one in schema.get(key, {}).items():
            yield from _with_nested(f"{place}/{name}", one)
