"""The details that a fault puts into its error: `google.rpc` messages, written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from service.emulator.validation import invalid_value, parse_mapping

KINDS: Mapping[str, Any] = error_details_pb2.DESCRIPTOR.message_types_by_name
PACKAGE = "google.rpc"
MAX_BYTES = 2000
"""Size of all details together. They share a trailer of 8 KiB with the message."""
Details = tuple[dict[str, Any], ...]


def details_of(raw: object) -> Details:
    """Return the checked details as JSON. Raises ApiError, which lists the known types."""
    if not isinstance(raw, list | tuple):
        raise invalid_value("details must be a list of objects with an @type")
    found = [_parse_detail(detail, f"details[{index}]") for index, detail in enumerate(raw)]
    if sum(detail.ByteSize() for detail in found) > MAX_BYTES:
        raise invalid_value(f"details must have {MAX_BYTES} bytes at most")
    return tuple(
        {
            "@type": f"type.googleapis.com/{detail.DESCRIPTOR.full_name}",
            **json_format.MessageToDict(detail),
        }
        for detail in found
    )


def messages_of(details: Details) -> Sequence[Message]:
    return [_parse_detail(detail, "details") for detail in details]


def _parse_detail(raw: object, where: str) -> Message:
    fields = dict(parse_mapping(raw, where))
    name = str(fields.pop("@type", "")).rpartition("/")[2]
    package, _, kind = name.rpartition(".")
    if package != PACKAGE or kind not in KINDS:
        known = ", ".join(f"{PACKAGE}.{kind}" for kind in sorted(KINDS))
        raise invalid_value(f"unknown @type {name!r} of {where}; known: {known}")
    message: Message = getattr(error_details_pb2, kind)()
    try:
        return json_format.ParseDict(fields, message)
    except (json_format.ParseError, AttributeError, RecursionError, TypeError, ValueError):
        names = ", ".join(field.json_name for field in message.DESCRIPTOR.fields)
        raise invalid_value(
            f"{where} cannot be read as {name}, whose fields are: {names}"
        ) from None
