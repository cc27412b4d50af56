"""Where JSON does not fit a message, in the words of Google's front end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message_factory import GetMessageClass

MAX_SHOWN = 200
MAX_DEPTH = 100
# These have a JSON form of their own, in which nothing lies.
WHOLE = "google.protobuf."
PAYLOAD = "Invalid JSON payload received."


@dataclass(frozen=True)
class Misfit:
    """What is wrong at a path, whose fields are spelled as in the definition of the API."""

    path: str
    text: str


def find_misfit(kind: Any, body: dict[str, Any], at: str = "") -> Misfit | None:
    """Find the first key or value that no field of a message takes; None if all fit."""
    fields = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    chosen: set[str] = set()
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            return unknown(key, at)
        found = _in_field(field, value, f"{at}.{_name(field)}".lstrip("."))
        found = found or _in_oneof(field, value, chosen, at)
        if found is not None:
            return found
    return None


def unknown(name: str, at: str = "", why: str = "Cannot find field.") -> Misfit:
    place = f" at '{at}'" if at else ""
    return Misfit(at, f'{PAYLOAD} Unknown name "{name}"{place}: {why}')


def _in_field(field: Any, value: object, path: str) -> Misfit | None:
    if value is None:
        return None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _in_map(field, value, path)
    if not field.is_repeated:
        return _in_value(field, value, path)
    if not isinstance(value, list):
        return _invalid(field, value, path)
    inside = (_in_value(field, each, f"{path}[{index}]") for index, each in enumerate(value))
    return next((found for found in inside if found is not None), None)


def _in_map(field: Any, value: object, path: str) -> Misfit | None:
    if not isinstance(value, dict):
        return _invalid(field, value, path)
    of = field.message_type.fields_by_name["value"]
    inside = (
        _in_value(of, each, f"{path}[{index}].value") for index, each in enumerate(value.values())
    )
    return next((found for found in inside if found is not None), None)


def _in_value(field: Any, value: object, path: str) -> Misfit | None:
    """Try one value: an item of a list, a value of a map, or all of a field."""
    kind = field.message_type
    is_plain = kind is not None and not kind.full_name.startswith(WHOLE)
    if isinstance(value, list) and not is_plain:
        above, _, name = path.rpartition(".")
        return unknown(name, above, "Proto field is not repeating, cannot start list.")
    if is_plain and isinstance(value, dict) and path.count(".") < MAX_DEPTH:
        return find_misfit(kind, value, path)
    if isinstance(value, dict) and kind is None:
        text = f"Invalid value at '{path}' ({_type(field)}), Starting an object on a scalar field"
        return Misfit(path, text)
    return None if not is_plain and _fits(field, value) else _invalid(field, value, path)


def _in_oneof(field: Any, value: object, chosen: set[str], at: str) -> Misfit | None:
    """Note which field of a oneof is set; only one of them may be."""
    oneof = field.containing_oneof
    if oneof is None or value is None:
        return None
    if oneof.name in chosen:
        text = f"oneof field '{oneof.name}' is already set. Cannot set '{_name(field)}'"
        return Misfit(at, f"Invalid value at '{at}' (oneof), {text}")
    chosen.add(oneof.name)
    return None


def _fits(field: Any, value: object) -> bool:
    body = {field.json_name: [value] if field.is_repeated else value}
    try:
        json_format.ParseDict(body, GetMessageClass(field.containing_type)())
    except (json_format.ParseError, AttributeError, RecursionError, TypeError, ValueError):
        return False
    return True


def _invalid(field: Any, value: object, path: str) -> Misfit:
    shown = json.dumps(value, ensure_ascii=False)[:MAX_SHOWN]
    return Misfit(path, f"Invalid value at '{path}' ({_type(field)}), {shown}")


def _type(field: Any) -> str:
    """Name a type as Google does: `TYPE_INT32`, or the message or enum by its address."""
    named = field.message_type or field.enum_type
    if named is not None:
        return f"type.googleapis.com/{named.full_name}"
    return str(FieldDescriptorProto.Type.Name(field.type))


def _name(field: Any) -> str:
    # The client library calls a field `type_` that the API calls `type`.
    return str(field.name).rstrip("_")
