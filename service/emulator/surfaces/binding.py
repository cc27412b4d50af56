"""The method that a REST request calls, and its message from path, query and body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from service.emulator.api.calls.dispatch import Method, Service
from service.emulator.errors import ApiError, Code
from service.emulator.schema import drop_outputs, extended_class
from service.emulator.surfaces.json_codec import read_into, unknown_name

Query = Mapping[str, list[str]]
# Query parameters of the front end, which are not part of the request message. All parameters with
# a `$` are of the front end too.
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
    """Bind every method without a stream.

    Methods with a verb of their own come first, as their paths match other patterns too.
    """
    bindings = []
    for service in services:
        prefix = f"/(?:{'|'.join(service.versions)})"
        for method in service.methods:
            if method.stream is not None:
                continue
            variable = VARIABLE.search(method.path)
            if variable is None:
                pattern, field = f"{prefix}{re.escape(method.path)}()", ""
            else:
                before, after = method.path[: variable.start()], method.path[variable.end() :]
                inner = variable[2].replace("**", ".+").replace("*", "[^/]+")
                pattern = f"{prefix}{re.escape(before)}({inner}){re.escape(after)}"
                field = variable[1]
            bindings.append(Binding(method, re.compile(pattern), field))
    return sorted(bindings, key=lambda binding: ":" not in binding.method.path)


def get_binding(bindings: list[Binding], verb: str, path: str) -> tuple[Binding, str]:
    """Return the binding of a path, and the value of its variable; raises ApiError."""
    for binding in bindings:
        match = binding.pattern.fullmatch(path)
        if match is not None and binding.method.verb == verb:
            return binding, match[1]
    raise ApiError(Code.NOT_FOUND, f"The requested URL {path} was not found for {verb}.")


def verbs_of(bindings: list[Binding], path: str) -> list[str]:
    """Return the verbs of a path; empty if there is no such path."""
    matching = (binding for binding in bindings if binding.pattern.fullmatch(path) is not None)
    return sorted({binding.method.verb for binding in matching})


def message_of(binding: Binding, name: str, query: Query, body: object) -> Message:
    """Make the request message, with the fields that only REST has; raises ApiError.

    Output-only fields are dropped, as Google does.
    """
    method = binding.method
    known = extended_class(method.request.DESCRIPTOR.full_name)
    message = (known or method.request)()
    if method.body == "*":
        read_into(message, body)
    elif method.body:
        read_into(getattr(message, method.body), body, method.body)
        getattr(message, method.body).SetInParent()
    for key, values in query.items():
        if not key.startswith("$") and key not in SYSTEM_PARAMETERS:
            # `interval.endTime` is a field inside a message.
            read_into(message, _to_json_body(message.DESCRIPTOR, key, key.split("."), values))
    if binding.field:
        *parents, last = binding.field.split(".")
        target: Any = message
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, last, name)
    if known is None:
        return message
    drop_outputs(message)
    return method.request.FromString(message.SerializeToString())


def _to_json_body(kind: Any, key: str, path: list[str], values: list[str]) -> dict[str, object]:
    """Return the JSON body that a parameter stands for; a field may have either spelling."""
    if len(path) > MAX_DEPTH:
        raise unknown_name(key)
    spelled = (field for field in kind.fields if path[0] in {field.name, field.json_name})
    field = next(spelled, None)
    if field is None or (len(path) > 1 and field.message_type is None):
        raise unknown_name(key)
    if len(path) > 1:
        return {field.json_name: _to_json_body(field.message_type, key, path[1:], values)}

    if field.is_repeated:
        return {field.json_name: values}
    value = values[-1]
    if field.type == field.TYPE_BOOL:
        return {field.json_name: {"true": True, "false": False}.get(value.lower(), value)}
    if field.type == field.TYPE_MESSAGE:
        # A field mask may have either spelling.
        value = re.sub(r"_([a-z])", lambda found: found[1].upper(), value)
    return {field.json_name: value}
