"""The system parameter `X-Goog-FieldMask`: which fields of a response its caller wants."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from service.emulator.errors import ApiError, Code

HEADER = "x-goog-fieldmask"
MAX_PATHS = 500
Chosen = dict[str, Any]
"""By field: what of it is wanted; empty for all of it."""


def chosen_of(mask: str) -> Chosen:
    """Read `nodes.name,nodes.networkEndpoints,nextPageToken`; no mask, or `*`, is everything."""
    paths = [path.strip() for path in mask.split(",")] if mask.strip() not in {"", "*"} else []
    if len(paths) > MAX_PATHS:
        raise unknown_path(mask)
    chosen: Chosen = {}
    whole: set[tuple[str, ...]] = set()
    for path in paths:
        parts = tuple(path.split("."))
        inner = chosen
        for depth, part in enumerate(parts, 1):
            inner = inner.setdefault(part, {})
            if parts[:depth] in whole:
                break
        else:
            inner.clear()
            whole.add(parts)
    return chosen


def masked(message: Message, chosen: Chosen) -> Message:
    """A new message with the chosen fields alone; raises ApiError for a field that is none."""
    _check(message.DESCRIPTOR, chosen, "")
    shown = type(message)()
    _copy(message, shown, chosen)
    return shown


def _check(kind: Any, chosen: Chosen, above: str) -> None:
    fields = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    for name, inner in chosen.items():
        field = fields.get(name)
        if field is None or (inner and not _has_fields(field)):
            raise unknown_path(f"{above}{name}")
        if inner:
            _check(field.message_type, inner, f"{above}{name}.")


def _copy(source: Message, into: Message, chosen: Chosen) -> None:
    for field, value in source.ListFields():
        inner = chosen.get(field.name, chosen.get(field.json_name))
        if inner is None:
            continue
        if inner and field.is_repeated:
            for each in value:
                _copy(each, getattr(into, field.name).add(), inner)
        elif inner:
            getattr(into, field.name).SetInParent()
            _copy(value, getattr(into, field.name), inner)
        elif field.is_repeated or field.message_type is not None:
            getattr(into, field.name).MergeFrom(value)
        else:
            setattr(into, field.name, value)


def _has_fields(field: FieldDescriptor) -> bool:
    """Say whether a mask may look inside: into messages, not into maps."""
    kind = field.message_type
    return kind is not None and not kind.GetOptions().map_entry


def unknown_path(path: str) -> ApiError:
    return ApiError(
        Code.INVALID_ARGUMENT,
        f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path[:200]}'.",
    )
