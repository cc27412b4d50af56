"""The errors of JSON that does not fit a message, with the texts of Google's front end."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message_factory import GetMessageClass

MAX_SHOWN = 200
MAX_DEPTH = 100
# Messages of this package have a JSON form of their own, without fields.
WHOLE = "google.protobuf."
PAYLOAD = "Invalid JSON payload received."


@dataclass(frozen=True)
class Misfit:
    """An error at a path, whose fields have the spelling of the API's definition."""

    path: str
    text: str


def find_misfit(kind: Any, body: dict[str, Any], at: str = "") -> Misfit | None:
    """Return the first key or value that does not fit a field of the message; None if all fit."""
    fields = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    chosen: set[str] = set()
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            return unknown_field(key, at)
        found = _find_in_field(field, value, f"{at}.{_field_name(field)}".lstrip("."))
        oneof = field.containing_oneof
        if found is None and oneof is not None and value is not None:
            if oneof.name in chosen:
                text = f"oneof field '{oneof.name}' is already set. Cannot set"
                text = f"{text} '{_field_name(field)}'"
                return Misfit(at, f"Invalid value at '{at}' (oneof), {text}")
            chosen.add(oneof.name)
        if found is not None:
            return found
    return None


def unknown_field(name: str, at: str = "", why: str = "Cannot find field.") -> Misfit:
    place = f" at '{at}'" if at else ""
    return Misfit(at, f'{PAYLOAD} Unknown name "{name}"{place}: {why}')


def _find_in_field(field: Any, value: object, path: str) -> Misfit | None:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if value is None:
        return None
    if not is_map and not field.is_repeated:
        return _find_in_value(field, value, path)
    if is_map and isinstance(value, dict):
        of = field.message_type.fields_by_name["value"]
        items = enumerate(value.values())
        inside = (_find_in_value(of, item, f"{path}[{index}].value") for index, item in items)
    elif not is_map and isinstance(value, list):
        items = enumerate(value)
        inside = (_find_in_value(field, item, f"{path}[{index}]") for index, item in items)
    else:
        return _invalid_value(field, value, path)
    return next((found for found in inside if found is not None), None)


def _find_in_value(field: Any, value: object, path: str) -> Misfit | None:
    """Check a single value: an item of a list, a value of a map, or the value of a field."""
    kind = field.message_type
    is_plain = kind is not None and not kind.full_name.startswith(WHOLE)
    if isinstance(value, list) and not is_plain:
        above, _, name = path.rpartition(".")
        return unknown_field(name, above, "Proto field is not repeating, cannot start list.")
    if is_plain and isinstance(value, dict) and path.count(".") < MAX_DEPTH:
        return find_misfit(kind, value, path)
    if isinstance(value, dict) and kind is None:
        kind_name = _type_name(field)
        text = f"Invalid value at '{path}' ({kind_name}), Starting an object on a scalar field"
        return Misfit(path, text)
    if not is_plain:
        body = {field.json_name: [value] if field.is_repeated else value}
        with suppress(
            json_format.ParseError, AttributeError, RecursionError, TypeError, ValueError
        ):
            json_format.ParseDict(body, GetMessageClass(field.containing_type)())
            return None
    return _invalid_value(field, value, path)


def _invalid_value(field: Any, value: object, path: str) -> Misfit:
    shown = json.dumps(value, ensure_ascii=False)[:MAX_SHOWN]
    return Misfit(path, f"Invalid value at '{path}' ({_type_name(field)}), {shown}")


def _type_name(field: Any) -> str:
    """Return Google's name of a type: `TYPE_INT32`, or the URL of the message or enum."""
    named = field.message_type or field.enum_type
    if named is not None:
        return f"type.googleapis.com/{named.full_name}"
    return str(FieldDescriptorProto.Type.Name(field.type))


def _field_name(field: Any) -> str:
    # The client library has a field `type_` where the API has `type`.
    return str(field.name).rstrip("_")
