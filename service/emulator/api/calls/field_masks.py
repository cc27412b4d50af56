"""The requested fields of a response: `fields`, `$fields` and `X-Goog-FieldMask`.

All three have one grammar: `nodes(name,state)`, `nodes/name` and `nodes.name` may be mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from service.emulator.errors import ApiError, Code, truncate_text

HEADER = "x-goog-fieldmask"
TOKEN = re.compile(r"[A-Za-z_@*][\w@-]*|\S")
NAME = re.compile(r"[A-Za-z_@*].*")
MAX_TOKENS = 2000
MAX_DEPTH = 20
MAX_PATHS = 500
# Messages whose content no descriptor describes, so any path into them is valid.
OPEN = {"google.protobuf.Any", "google.protobuf.Struct", "google.protobuf.Value"}
Chosen = dict[str, Any]
"""By field: the requested fields inside; empty for all of them."""
Path = tuple[str, ...]


def chosen_of(mask: str) -> Chosen:
    """Parse a selection; an empty mask and `*` select everything. Raises ApiError."""
    if mask.strip() in {"", "*"}:
        return {}
    tokens = TOKEN.findall(mask)
    if len(tokens) > MAX_TOKENS:
        raise unknown_path(mask, mask)
    try:
        paths, last = _parse_list(iter([*tokens, ""]), ())
    except StopIteration:
        paths, last = [], "("
    if last or len(paths) > MAX_PATHS:
        raise unknown_path(mask, mask)
    chosen: Chosen = {}
    whole: set[Path] = set()
    for path in paths:
        inner = chosen
        for depth, part in enumerate(path, 1):
            inner = inner.setdefault(part, {})
            if path[:depth] in whole:
                break
        else:
            inner.clear()
            whole.add(path)
    return chosen


def resolve_selection(kind: Any, chosen: Chosen, mask: str) -> Chosen:
    """Return a selection with the JSON names of a message's fields and without wildcards.

    Raises ApiError for the first path without a field; `mask` is the text of the selection.
    """
    try:
        return _resolve_names(kind, chosen)
    except _Stray as stray:
        raise unknown_path(str(stray), mask) from None


def mask_message(message: Message, chosen: Chosen) -> Message:
    """Return a new message with only the chosen fields; `chosen` is resolved."""
    shown = type(message)()
    _copy_fields(message, shown, chosen)
    return shown


def unknown_path(path: str, mask: str) -> ApiError:
    """Make the error that Google's APIs were seen to send; only the details name the path."""
    text = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=truncate_text(mask), description=truncate_text(text)
    )
    details = error_details_pb2.BadRequest(field_violations=[violation])
    return ApiError(Code.INVALID_ARGUMENT, "Request contains an invalid argument.", [details])


def _parse_list(left: Iterator[str], above: Path) -> tuple[list[Path], str]:
    """Parse paths joined by commas. Returns the paths and the token after them."""
    paths: list[Path] = []
    while True:
        more, last = _parse_path(left, above)
        paths += more
        if last != ",":
            return paths, last


def _parse_path(left: Iterator[str], above: Path) -> tuple[list[Path], str]:
    """Parse a name, with a path or a list in parentheses after it.

    Returns the paths and the token after them; for an invalid name, no path and `(`.
    """
    name = next(left)
    here = (*above, name)
    if NAME.fullmatch(name) is None or len(here) > MAX_DEPTH:
        return [], "("
    last = next(left)
    if last in {".", "/"}:
        return _parse_path(left, here)
    if last != "(":
        return [here], last
    paths, end = _parse_list(left, here)
    return (paths, next(left)) if end == ")" else ([], "(")


class _Stray(Exception):
    """A path without a field."""


def _resolve_names(kind: Any, chosen: Chosen) -> Chosen:
    found: Chosen = {}
    for name, inner in chosen.items():
        below = _resolve_name(kind, name, inner)
        if not below:
            raise _Stray(name)
        for key, wanted in below.items():
            found[key] = _join_selections(found[key], wanted) if key in found else wanted
    return found


def _resolve_name(kind: Any, name: str, inner: Chosen) -> dict[str, Chosen]:
    """Return the selection inside each field with this name.

    A wildcard skips the fields in which the selection is invalid.
    """
    below: dict[str, Chosen] = {}
    for field in kind.fields:
        if name not in {"*", field.name, field.json_name}:
            continue
        try:
            below[field.json_name] = _resolve_inside(field, inner)
        except _Stray as stray:
            if name != "*":
                raise _Stray(f"{name}.{stray}") from None
    return below


def _resolve_inside(field: FieldDescriptor, inner: Chosen) -> Chosen:
    if not inner or _is_open(field):
        return inner
    if not _has_fields(field):
        raise _Stray(next(iter(inner)))
    return _resolve_names(field.message_type, inner)


def _join_selections(first: Chosen, other: Chosen) -> Chosen:
    """Join two selections of the same field; the whole field includes any part of it."""
    if not first or not other:
        return {}
    shared = {key: _join_selections(first[key], other[key]) for key in first.keys() & other.keys()}
    return first | other | shared


def _copy_fields(source: Message, into: Message, chosen: Chosen) -> None:
    for field, value in source.ListFields():
        if field.json_name not in chosen:
            continue
        inner = chosen[field.json_name]
        if inner and _has_fields(field) and not _is_open(field):
            target = getattr(into, field.name)
            if field.is_repeated:
                for message in value:
                    _copy_fields(message, target.add(), inner)
            else:
                target.SetInParent()
                _copy_fields(value, target, inner)
        elif field.is_repeated or field.message_type is not None:
            getattr(into, field.name).MergeFrom(value)
        else:
            setattr(into, field.name, value)


def _has_fields(field: FieldDescriptor) -> bool:
    """Whether a mask may select fields inside: in messages, not in maps."""
    kind = field.message_type
    return kind is not None and not kind.GetOptions().map_entry


def _is_open(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in OPEN
