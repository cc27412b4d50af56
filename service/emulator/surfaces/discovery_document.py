"""The discovery document of an API version, made from the methods and messages of REST.

`readOnly` follows the documentation of Google's Python classes, where the text of such a field
starts with "Output only.": their descriptors have no `google.api.field_behavior`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from operator import attrgetter
from typing import Any

from google.cloud import tpu_v1, tpu_v2, tpu_v2alpha1
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from service.emulator.api.calls.dispatch import Method, Service
from service.emulator.api.methods import SERVICES
from service.emulator.api.products import PRODUCTS
from service.emulator.extra_fields import OUTPUTS
from service.emulator.schema import REST_POOL
from service.emulator.surfaces.binding import SYSTEM_PARAMETERS, VARIABLE

Json = dict[str, Any]

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
MODULES = {"v1": tpu_v1, "v2": tpu_v2, "v2alpha1": tpu_v2alpha1}
PACKAGE = "google.cloud.tpu."
# The names of methods without a verb of their own in the path; GET is "get" or "list".
STANDARD_NAMES = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
OUTPUT_ONLY = re.compile(r"^ +(\w+) \([^:]*\):\s+Output only\.", re.MULTILINE)

FIELD = FieldDescriptor
SCALARS: dict[int, Json] = {
    FIELD.TYPE_BOOL: {"type": "boolean"},
    FIELD.TYPE_BYTES: {"type": "string", "format": "byte"},
    FIELD.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FIELD.TYPE_FLOAT: {"type": "number", "format": "float"},
    FIELD.TYPE_INT32: {"type": "integer", "format": "int32"},
    FIELD.TYPE_INT64: {"type": "string", "format": "int64"},
    FIELD.TYPE_STRING: {"type": "string"},
    FIELD.TYPE_UINT32: {"type": "integer", "format": "uint32"},
    FIELD.TYPE_UINT64: {"type": "string", "format": "uint64"},
}
# Messages with a JSON form of their own, which no schema describes.
WELL_KNOWN: dict[str, Json] = {
    "google.protobuf.Any": {"type": "object", "additionalProperties": {"type": "any"}},
    "google.protobuf.Duration": {"type": "string", "format": "google-duration"},
    "google.protobuf.FieldMask": {"type": "string", "format": "google-fieldmask"},
    "google.protobuf.Timestamp": {"type": "string", "format": "google-datetime"},
}
# Parameters of every method.
COMMON: dict[str, Json] = {
    **{name: {"type": "string", "location": "query"} for name in sorted(SYSTEM_PARAMETERS)},
    "$.xgafv": {"type": "string", "location": "query", "enum": ["1", "2"]},
    "alt": {
        "type": "string",
        "location": "query",
        "enum": ["json", "media", "proto"],
        "default": "json",
    },
    "prettyPrint": {"type": "boolean", "location": "query", "default": "true"},
}


@cache
def describe_version(version: str) -> Json:
    """Return the document of a version, without addresses. Callers must not change it."""
    services = [
        service for service in SERVICES if version in service.versions and service not in PRODUCTS
    ]
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": f"tpu:{version}",
        "name": "tpu",
        "canonicalName": "TPU",
        "version": version,
        "version_module": True,
        "title": "Cloud TPU API",
        "description": "The Cloud TPU API as the emulator answers it.",
        "ownerDomain": "google.com",
        "ownerName": "Google",
        "protocol": "rest",
        "basePath": "",
        "servicePath": "",
        "batchPath": "batch",
        "fullyEncodeReservedExpansion": True,
        "auth": {"oauth2": {"scopes": {SCOPE: {"description": "Use Google Cloud."}}}},
        "parameters": COMMON,
        "resources": _describe_resources(version, services),
        "schemas": _describe_schemas(version, services),
    }


def _describe_resources(version: str, services: Iterable[Service]) -> Json:
    """Describe each method, below the collections of its path: `projects.locations.nodes`."""
    root: Json = {}
    for service in services:
        for method in service.methods:
            _, _, pattern, after = _split_path(method)
            path_after, _, verb = after.partition(":")
            collections = [name for name in (pattern + path_after).split("/") if name != "*"]
            target = root
            for name in collections:
                target = target.setdefault("resources", {}).setdefault(name, {})
            name = verb or STANDARD_NAMES.get(method.verb, "list" if after else "get")
            described = _describe_method(service, version, method)
            described["id"] = ".".join(["tpu", *collections, name])
            target.setdefault("methods", {})[name] = described
    resources: Json = root["resources"]
    return resources


def _describe_method(service: Service, version: str, method: Method) -> Json:
    """Describe a call. The parameter of its path is `name`, even if it fills `node.name`.

    Fields of the request that neither path nor body fills are query parameters.
    """
    before, path, pattern, after = _split_path(method)
    field = path.rpartition(".")[2]
    filled = {
        "type": "string",
        "location": "path",
        "required": True,
        "pattern": "^" + pattern.replace("*", "[^/]+") + "$",
    }
    flat = re.sub(r"(\w+)/\*", r"\1/{\1Id}", pattern)
    query: Json = {}
    if method.body != "*":
        for parameter in _rest_descriptor(method.request).fields:
            if parameter.name not in {method.body, path}:
                repeated = {"repeated": True} if parameter.is_repeated else {}
                described = {**_describe_value(parameter), "location": "query", **repeated}
                query[parameter.json_name] = described
    found: Json = {
        "description": f"Calls {method.name} of {service.name}.",
        "httpMethod": method.verb,
        "path": f"{version}{before}{{+{field}}}{after}",
        "flatPath": f"{version}{before}{flat}{after}",
        "parameters": {field: filled, **query},
        "parameterOrder": [field],
        "response": {"$ref": method.response.DESCRIPTOR.name},
        "scopes": [SCOPE],
    }
    body = _body_message(method)
    return found if body is None else {**found, "request": {"$ref": body.name}}


def _split_path(method: Method) -> tuple[str, str, str, str]:
    """Return the path before its variable, the variable's field and pattern, and the rest."""
    variable = VARIABLE.search(method.path)
    assert variable is not None, f"no variable in {method.path}"
    before, after = method.path[: variable.start()], method.path[variable.end() :]
    return before, variable[1], variable[2], after


def _body_message(method: Method) -> Descriptor | None:
    """Return the message of the body; None if there is none.

    Google's documents show no body for CancelOperation, whose request is only its path.
    """
    request = _rest_descriptor(method.request)
    if method.body == "*":
        return request if request.file.package.startswith(PACKAGE) else None
    return request.fields_by_name[method.body].message_type if method.body else None


def _describe_schemas(version: str, services: Iterable[Service]) -> Json:
    """Describe every message inside a body, a response or an operation, by name.

    A message that is a body has no property for the field that the path fills.
    """
    waiting = [REST_POOL.FindMessageTypeByName(f"{PACKAGE}{version}.OperationMetadata")]
    elsewhere: dict[str, str] = {}
    for method in (method for service in services for method in service.methods):
        waiting += [_rest_descriptor(method.response), *filter(None, [_body_message(method)])]
        if method.body == "*":
            elsewhere[method.request.DESCRIPTOR.full_name] = _split_path(method)[1]
    found: Json = {}
    while waiting:
        message = waiting.pop()
        if message.name not in found:
            outputs = _output_fields(message)
            properties = {
                field.json_name: _describe_property(field, is_output=field.name in outputs)
                for field in message.fields
                if field.name != elsewhere.get(message.full_name, "")
            }
            found[message.name] = {"id": message.name, "type": "object", "properties": properties}
            kinds = ((_map_value(field) or field).message_type for field in message.fields)
            waiting += [
                kind for kind in kinds if kind is not None and kind.full_name not in WELL_KNOWN
            ]
    return dict(sorted(found.items()))


def _describe_property(field: FieldDescriptor, *, is_output: bool) -> Json:
    value = _map_value(field)
    described = _describe_value(field if value is None else value)
    if value is not None:
        described = {"type": "object", "additionalProperties": described}
    elif field.is_repeated:
        described = {"type": "array", "items": described}
    return described | ({"readOnly": True} if is_output else {})


def _describe_value(field: FieldDescriptor) -> Json:
    """Describe a single value of a field, also for a repeated one."""
    if field.message_type is not None:
        return dict(WELL_KNOWN.get(field.message_type.full_name, {"$ref": field.message_type.name}))
    if field.enum_type is not None:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    return dict(SCALARS[field.type])


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the field that describes the values of a map; None if `field` is no map."""
    kind = field.message_type
    if kind is None or not kind.GetOptions().map_entry:
        return None
    return kind.fields_by_name["value"]


def _output_fields(message: Descriptor) -> set[str]:
    """Return the names of the fields of a message that only the cloud may set."""
    package = message.file.package
    owner = message.full_name.removeprefix(f"{package}.")
    found = {name for where, whose, name in OUTPUTS if (where, whose) == (package, owner)}
    if not package.startswith(PACKAGE):
        return found
    try:
        known = attrgetter(owner)(MODULES[package.removeprefix(PACKAGE)])
    except AttributeError:  # Google's classes lack this message.
        return found
    return found | set(OUTPUT_ONLY.findall(known.__doc__ or ""))


def _rest_descriptor(kind: type[Message]) -> Descriptor:
    """Return the descriptor of a message with the fields that only REST has."""
    return REST_POOL.FindMessageTypeByName(kind.DESCRIPTOR.full_name)
