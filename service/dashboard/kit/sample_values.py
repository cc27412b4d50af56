"""Example values for the schemas of an OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

Schema = Mapping[str, Any]

_DEEPEST = 6
"""Objects within objects that an example shows."""

_BY_FORMAT = {
    "date-time": "2026-11-01T12:00:00Z",
    "date": "2026-11-01",
    "uuid": "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11",
}
_BY_TYPE: Mapping[str, Any] = {"string": "string", "integer": 0, "number": 0, "boolean": False}


class Sampler:
    """Makes example values. A field without an example takes one from a field of the same name and
    type elsewhere in the document, so that ids, zones and teams are the same everywhere."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._by_name: dict[tuple[str, str], Any] = {}
        for schema in schemas.values():
            for name, field in schema.get("properties", {}).items():
                for value in _own_examples(field):
                    self._by_name.setdefault((name, type_of(field)), value)

    def make_value(self, schema: Schema, name: str = "", depth: int = 0) -> Any:
        """A value that the schema describes; `name` is that of its field or parameter."""
        schema = first_choice(schema)
        constant = [schema["const"]] if "const" in schema else []
        for value in chain(_own_examples(schema), constant, schema.get("enum", ())):
            return value
        if "$ref" in schema:
            return self.make_value(self._schemas[referenced_name(schema)], name, depth)
        match schema.get("type"):
            case "object":
                return self._sample_object(schema, depth)
            case "array":
                return [self.make_value(schema["items"], name, depth)] if depth < _DEEPEST else []
            case type_:
                plain = schema.get("default", schema.get("minimum", _BY_TYPE.get(str(type_))))
                of_format = _BY_FORMAT.get(schema.get("format", ""), plain)
                return self._by_name.get((name, str(type_)), of_format)

    def _sample_object(self, schema: Schema, depth: int) -> dict[str, Any]:
        if depth >= _DEEPEST:
            return {}
        fields = schema.get("properties", {})
        found = {name: self.make_value(field, name, depth + 1) for name, field in fields.items()}
        more = schema.get("additionalProperties")
        if not fields and isinstance(more, Mapping):
            found["key"] = self.make_value(more, "", depth + 1)
        return found


def _own_examples(schema: Schema) -> Iterator[Any]:
    """The first example of the schema's own, unless it is null."""
    return (value for value in schema.get("examples", ())[:1] if value is not None)


def first_choice(schema: Schema) -> Schema:
    """The first choice that is not null, with what stands beside the choices; the schema itself if
    there are no choices."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return {**choice, **{k: v for k, v in schema.items() if k != "anyOf"}}
    return schema


def type_of(schema: Schema) -> str:
    """The JSON type; empty for a named schema."""
    return str(first_choice(schema).get("type", ""))


def referenced_name(schema: Schema) -> str:
    """The name of the schema that a reference leads to."""
    return str(schema["$ref"]).rpartition("/")[2]
