"""Which fields of a response its caller wants: `fields`, `$fields` and `X-Goog-FieldMask`.

One grammar serves all three: `nodes(name,state)`, `nodes/name` and `nodes.name` may be mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from service.emulator.errors import ApiError, Code, told

HEADER = "x-goog-fieldmask"
TOKEN = re.compile(r"[A-Za-z_@*][\w@-]*|\S")
NAME = re.compile(r"[A-Za-z_@*].*")
MAX_TOKENS = 2000
MAX_DEPTH = 20
MAX_PATHS = 500
# What these hold has no fields that a descriptor knows, so that any path leads into them.
OPEN = {"google.protobuf.Any", "google.protobuf.Struct", "google.protobuf.Value"}
Chosen = dict[str, Any]
"""By field: what of it is wanted; empty for all of it."""
Path = tuple[str, ...]


def chosen_of(mask: str) -> Chosen:
    """Read a selection; no mask, or `*`, is everything. Raises ApiError if it cannot be read."""
    if mask.strip() in {"", "*"}:
        return {}
    chosen: Chosen = {}
    whole: set[Path] = set()
    for path in _read(mask):
        inner = chosen
        for depth, part in enumerate(path, 1):
            inner = inner.setdefault(part, {})
            if path[:depth] in whole:
                break
        else:
            inner.clear()
            whole.add(path)
    return chosen


def resolved(kind: Any, chosen: Chosen, mask: str) -> Chosen:
    """Spell a selection as the JSON of a message does, without wildcards.

    Raises ApiError for the first path that leads to no field; `mask` is the selection as it came.
    """
    try:
        return _resolve(kind, chosen)
    except _Stray as stray:
        raise unknown_path(str(stray), mask) from None


def masked(message: Message, chosen: Chosen) -> Message:
    """A new message with the chosen fields alone; `chosen` is resolved."""
    shown = type(message)()
    _copy(message, shown, chosen)
    return shown


def unknown_path(path: str, mask: str) -> ApiError:
    """The answer that was seen of Google's APIs; the path is named in the details alone."""
    text = f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'."
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=told(mask), description=told(text)
    )
    details = error_details_pb2.BadRequest(field_violations=[violation])
    return ApiError(Code.INVALID_ARGUMENT, "Request contains an invalid argument.", [details])


def _read(mask: str) -> list[Path]:
    """List the paths of a selection; raises ApiError."""
    tokens = TOKEN.findall(mask)
    if len(tokens) > MAX_TOKENS:
        raise unknown_path(mask, mask)
    left = iter([*tokens, ""])
    try:
        paths, last = _several(left, ())
    except StopIteration:
        paths, last = [], "("
    if last or len(paths) > MAX_PATHS:
        raise unknown_path(mask, mask)
    return paths


def _several(left: Iterator[str], above: Path) -> tuple[list[Path], str]:
    """Read paths joined by commas up to a token that is none of theirs, and give that, too."""
    paths: list[Path] = []
    while True:
        more, last = _one(left, above)
        paths += more
        if last != ",":
            return paths, last


def _one(left: Iterator[str], above: Path) -> tuple[list[Path], str]:
    """Read a name, with a path or a list in brackets behind it, and give the token after it."""
    name = next(left)
    here = (*above, name)
    if NAME.fullmatch(name) is None or len(here) > MAX_DEPTH:
        return [], "("
    last = next(left)
    if last in {".", "/"}:
        return _one(left, here)
    if last != "(":
        return [here], last
    paths, end = _several(left, here)
    return (paths, next(left)) if end == ")" else ([], "(")


class _Stray(Exception):
    """A path that leads to no field."""


def _resolve(kind: Any, chosen: Chosen) -> Chosen:
    found: Chosen = {}
    for name, inner in chosen.items():
        below = _below(kind, name, inner)
        if not below:
            raise _Stray(name)
        for key, wanted in below.items():
            found[key] = _both(found[key], wanted) if key in found else wanted
    return found


def _below(kind: Any, name: str, inner: Chosen) -> dict[str, Chosen]:
    """Resolve one name: by field, what of it is wanted. A wildcard skips fields that do not fit."""
    below: dict[str, Chosen] = {}
    for field in kind.fields:
        if name not in {"*", field.name, field.json_name}:
            continue
        try:
            below[field.json_name] = _inside(field, inner)
        except _Stray as stray:
            if name != "*":
                raise _Stray(f"{name}.{stray}") from None
    return below


def _inside(field: FieldDescriptor, inner: Chosen) -> Chosen:
    if not inner or _is_open(field):
        return inner
    if not _has_fields(field):
        raise _Stray(next(iter(inner)))
    return _resolve(field.message_type, inner)


def _both(one: Chosen, other: Chosen) -> Chosen:
    """Join two selections of the same field; all of it includes any part."""
    if not one or not other:
        return {}
    shared = {key: _both(one[key], other[key]) for key in one.keys() & other.keys()}
    return one | other | shared


def _copy(source: Message, into: Message, chosen: Chosen) -> None:
    for field, value in source.ListFields():
        if field.json_name not in chosen:
            continue
        inner = chosen[field.json_name]
        if inner and _has_fields(field) and not _is_open(field):
            for each, copy in _pairs(field, value, into):
                _copy(each, copy, inner)
        elif field.is_repeated or field.message_type is not None:
            getattr(into, field.name).MergeFrom(value)
        else:
            setattr(into, field.name, value)


def _pairs(field: FieldDescriptor, value: Any, into: Message) -> Iterator[tuple[Message, Message]]:
    """Pair each message in a field with an empty one at the same place."""
    if field.is_repeated:
        for each in value:
            yield each, getattr(into, field.name).add()
    else:
        getattr(into, field.name).SetInParent()
        yield value, getattr(into, field.name)


def _has_fields(field: FieldDescriptor) -> bool:
    """Whether a mask may look inside: into messages, not into maps."""
    kind = field.message_type
    return kind is not None and not kind.GetOptions().map_entry


def _is_open(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in OPEN
