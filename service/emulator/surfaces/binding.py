"""Which method a REST request calls, and how its path, query and body become the message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from service.emulator.api.dispatch import Method, Service
from service.emulator.errors import ApiError, Code
from service.emulator.schema import drop_outputs, extended_class
from service.emulator.surfaces.json_codec import read_into, unknown_name

Query = Mapping[str, list[str]]
# Query parameters that belong to the front end, not to the request message, as do all with a `$`.
SYSTEM_PARAMETERS = {
    "access_token",
    "alt",
    "callback",
    "fields",
    "key",
    "oauth_token",
    "prettyPrint",
    "quotaUser",
    "uploadType",
    "upload_protocol",
}
MAX_DEPTH = 32
VARIABLE = re.compile(r"\{([a-z_.]+)=([^}]*)\}")


@dataclass(frozen=True)
class Binding:
    """A method with its path as a regular expression and the field that the path fills."""

    method: Method
    pattern: re.Pattern[str]
    field: str


def bindings_of(services: Iterable[Service]) -> list[Binding]:
    """Bind every method, those with a verb of their own first: their paths fit others, too."""
    bindings = [
        _binding(method, service.versions)
        for service in services
        for method in service.methods
        if method.stream is None
    ]
    return sorted(bindings, key=lambda each: ":" not in each.method.path)


def find(bindings: list[Binding], verb: str, path: str) -> tuple[Binding, str]:
    """Find what a path calls, and what fills its variable; raises ApiError."""
    for binding in bindings:
        match = binding.pattern.fullmatch(path)
        if match is not None and binding.method.verb == verb:
            return binding, match[1]
    raise ApiError(Code.NOT_FOUND, f"The requested URL {path} was not found for {verb}.")


def verbs_of(bindings: list[Binding], path: str) -> list[str]:
    """Name the verbs that a path knows, none if there is no such path."""
    return sorted(
        {each.method.verb for each in bindings if each.pattern.fullmatch(path) is not None}
    )


def message_of(binding: Binding, name: str, query: Query, body: object) -> Message:
    """Make the request message, with the fields that only REST has; raises ApiError.

    What only the cloud may set is dropped, as Google does with output-only fields.
    """
    method = binding.method
    known = extended_class(method.request.DESCRIPTOR.full_name)
    message = (known or method.request)()
    if method.body == "*":
        read_into(message, body)
    elif method.body:
        read_into(getattr(message, method.body), body, method.body)
        getattr(message, method.body).SetInParent()
    _read_query(message, query)
    _set_path(message, binding.field, name)
    if known is None:
        return message
    drop_outputs(message)
    return method.request.FromString(message.SerializeToString())


def _binding(method: Method, versions: tuple[str, ...]) -> Binding:
    variable = VARIABLE.search(method.path)
    if variable is None:
        pattern = f"/(?:{'|'.join(versions)}){re.escape(method.path)}()"
        return Binding(method, re.compile(pattern), "")
    before, after = method.path[: variable.start()], method.path[variable.end() :]
    inner = variable[2].replace("**", ".+").replace("*", "[^/]+")
    pattern = f"/(?:{'|'.join(versions)}){re.escape(before)}({inner}){re.escape(after)}"
    return Binding(method, re.compile(pattern), variable[1])


def _set_path(message: Message, field: str, name: str) -> None:
    if not field:
        return
    *parents, last = field.split(".")
    target: Any = message
    for parent in parents:
        target = getattr(target, parent)
    setattr(target, last, name)


def _read_query(message: Message, query: Query) -> None:
    """Bind query parameters to fields, `interval.endTime` to one inside another."""
    for key, values in query.items():
        if not key.startswith("$") and key not in SYSTEM_PARAMETERS:
            path = key.split(".")
            if len(path) > MAX_DEPTH:
                raise unknown_name(key)
            read_into(message, _bound(message.DESCRIPTOR, key, path, values))


def _bound(kind: Any, key: str, path: list[str], values: list[str]) -> dict[str, object]:
    """Give the JSON that a parameter stands for; a field may be spelled in either case."""
    spelled = (each for each in kind.fields if path[0] in {each.name, each.json_name})
    field = next(spelled, None)
    if field is None or (len(path) > 1 and field.message_type is None):
        raise unknown_name(key)
    if len(path) == 1:
        return {field.json_name: _query_value(field, values)}
    return {field.json_name: _bound(field.message_type, key, path[1:], values)}


def _query_value(field: Any, values: list[str]) -> object:
    if field.is_repeated:
        return values
    value = values[-1]
    if field.type == field.TYPE_BOOL:
        return {"true": True, "false": False}.get(value.lower(), value)
    if field.type == field.TYPE_MESSAGE:
        # A mask may be spelled in either case.
        return re.sub(r"_([a-z])", lambda found: found[1].upper(), value)
    return value
