"""The details that a fault puts into its error: `google.rpc` messages, written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from service.emulator.validation import mapping, refusal

KINDS: Mapping[str, Any] = error_details_pb2.DESCRIPTOR.message_types_by_name
PACKAGE = "google.rpc"
MAX_BYTES = 2000
"""Of all details together: they have to fit into a trailer of 8 KiB, as the message does."""
Details = tuple[dict[str, Any], ...]


def details_of(raw: object) -> Details:
    """Check details and give them as they are shown; raises ApiError that says what is known."""
    if not isinstance(raw, list | tuple):
        raise refusal("details must be a list of objects with an @type")
    found = [_message(each, f"details[{index}]") for index, each in enumerate(raw)]
    if sum(each.ByteSize() for each in found) > MAX_BYTES:
        raise refusal(f"details must have {MAX_BYTES} bytes at most")
    return tuple(_shown(each) for each in found)


def messages_of(details: Details) -> Sequence[Message]:
    return [_message(each, "details") for each in details]


def _message(raw: object, where: str) -> Message:
    said = dict(mapping(raw, where))
    name = str(said.pop("@type", "")).rpartition("/")[2]
    package, _, kind = name.rpartition(".")
    if package != PACKAGE or kind not in KINDS:
        known = ", ".join(f"{PACKAGE}.{each}" for each in sorted(KINDS))
        raise refusal(f"unknown @type {name!r} of {where}; known: {known}")
    message: Message = getattr(error_details_pb2, kind)()
    try:
        return json_format.ParseDict(said, message)
    except (json_format.ParseError, AttributeError, RecursionError, TypeError, ValueError):
        names = ", ".join(field.json_name for field in message.DESCRIPTOR.fields)
        raise refusal(f"{where} cannot be read as {name}, whose fields are: {names}") from None


def _shown(message: Message) -> dict[str, Any]:
    kind = f"type.googleapis.com/{message.DESCRIPTOR.full_name}"
    return {"@type": kind, **json_format.MessageToDict(message)}
