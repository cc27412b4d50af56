"""The `filter` and `order_by` of lists: comparisons joined with AND, and one field to sort by."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format

from service.emulator.api.calls.field_masks import OPEN
from service.emulator.errors import ApiError, Code
from service.emulator.wire import NodeMessage

TERM = re.compile(r'\s*([A-Za-z_@][\w.@]*)\s*(!=|=|:)\s*("[^"]*"|\S+)\s*')
AND = re.compile(r"\s+AND\s+")
MAX_LENGTH = 2000
Test = Callable[[dict[str, Any]], bool]


def filter_and_sort(
    kind: Any, items: list[NodeMessage], expression: str, order_by: str
) -> list[NodeMessage]:
    """Return the items that match the filter, in the requested order; raises ApiError.

    `kind` is the class of the items, which has the fields that may be named.
    """
    for what, text in (("list filter", expression), ("order_by", order_by)):
        if len(text) > MAX_LENGTH:
            raise ApiError(Code.INVALID_ARGUMENT, f"Invalid {what}: it is too long.")
    tests = [_build_test(kind, term) for term in AND.split(expression)] if expression else []
    field, _, direction = order_by.strip().partition(" ")
    if direction.strip() not in {"", "asc", "desc"}:
        raise ApiError(Code.INVALID_ARGUMENT, f'Invalid order_by: "{order_by}"')
    if field:
        _require_known(kind, field, "order_by")
    kept = [item for item in items if all(test(_to_plain(item)) for test in tests)]
    if not field:
        return kept
    return sorted(
        kept, key=lambda item: _look_up(_to_plain(item), field), reverse=direction.strip() == "desc"
    )


def _require_known(kind: Any, field: str, what: str) -> None:
    if not _is_known(kind.DESCRIPTOR, field.split(".")):
        text = f'Invalid {what}: unknown field "{field}".'
        raise ApiError(Code.INVALID_ARGUMENT, text)


def _is_known(kind: Any, path: list[str]) -> bool:
    """Whether a path names a field; any path inside a map or a packed message does."""
    first, *rest = path
    for field in kind.fields:
        if first in {field.name, field.json_name}:
            inner = field.message_type
            if not rest or inner is None:
                return not rest
            open_ended = inner.GetOptions().map_entry or inner.full_name in OPEN
            return open_ended or _is_known(inner, rest)
    return False


def _build_test(kind: Any, term: str) -> Test:
    match = TERM.fullmatch(term)
    if match is None:
        raise ApiError(Code.INVALID_ARGUMENT, f'Invalid list filter: "{term}"')
    field, operator, quoted = match.groups()
    _require_known(kind, field, "list filter")
    wanted = quoted.strip('"')
    if operator == ":":
        return lambda plain: wanted in _look_up(plain, field)
    return lambda plain: (_look_up(plain, field) == wanted) == (operator == "=")


def _to_plain(message: NodeMessage) -> dict[str, Any]:
    plain: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return plain


def _look_up(plain: dict[str, Any], field: str) -> str:
    value: Any = plain
    for part in field.split("."):
        snake = re.sub(r"(?<!^)([A-Z])", lambda found: f"_{found[1].lower()}", part)
        # The client library has a field `type_` where filters have `type`.
        value = value.get(snake, value.get(f"{snake}_", "")) if isinstance(value, dict) else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
