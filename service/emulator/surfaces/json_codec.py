"""Messages as Google's REST front end writes and reads them in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from service.emulator.errors import ApiError, Code, truncate_text
from service.emulator.schema import REST_POOL, to_extended
from service.emulator.surfaces.json_errors import PAYLOAD, Misfit, find_misfit, unknown_field

Shown = dict[str, Any]


def to_json(message: Message, *, enum_numbers: bool) -> Shown:
    """Convert a message to JSON, with the fields that clients expect even when they are empty."""
    whole = to_extended(message)
    # The messages packed in an operation are in the pool of the operation's class.
    pool = None if whole is message else REST_POOL
    shown = json_format.MessageToDict(
        whole, use_integers_for_enums=enum_numbers, descriptor_pool=pool
    )
    return _complete_fields(shown, whole.DESCRIPTOR)


def error_json(error: ApiError) -> Shown:
    """Convert an error to JSON, in the envelope of AIP-193."""
    status = json_format.MessageToDict(error.to_status())
    shown: Shown = {
        "code": error.http_status,
        "message": error.message,
        "status": error.code.name,
    }
    if "details" in status:
        shown["details"] = status["details"]
    return {"error": shown}


def read_into(message: Message, body: object, at: str = "") -> None:
    """Fill a message from JSON with camelCase or snake_case keys; raises ApiError."""
    if not isinstance(body, dict):
        raise _misfit_error(unknown_field("", at, "Root element must be a message."))
    said = _in_lists(body, message.DESCRIPTOR)
    try:
        json_format.ParseDict(said, message)
    except (json_format.ParseError, AttributeError, RecursionError, TypeError, ValueError):
        found = find_misfit(message.DESCRIPTOR, said, at)
        raise _misfit_error(found or Misfit(at, PAYLOAD)) from None


def unknown_name(name: str, where: str = "") -> ApiError:
    return _misfit_error(unknown_field(name, where))


def _in_lists(body: object, kind: Any) -> Any:
    """Return the body with a list for a bare object in a repeated field.

    Google's front end was seen to accept such an object as a list of one.
    """
    if not isinstance(body, dict):
        return body
    fields = {
        spelling: field
        for field in kind.fields
        for spelling in (field.name, field.json_name)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry
    }
    found = {}
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            found[key] = value
        elif isinstance(value, list):
            found[key] = [_in_lists(item, field.message_type) for item in value]
        else:
            inner = _in_lists(value, field.message_type)
            found[key] = [inner] if field.is_repeated and isinstance(value, dict) else inner
    return found


def _misfit_error(found: Misfit) -> ApiError:
    description = truncate_text(found.text)
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=truncate_text(found.path), description=description
    )
    return ApiError(
        Code.INVALID_ARGUMENT,
        description,
        [error_details_pb2.BadRequest(field_violations=[violation])],
    )


def _complete_fields(shown: Shown, kind: Any) -> Shown:
    """Add the fields that clients read without a check, in inner messages too."""
    for field in kind.fields:
        value = shown.get(field.json_name)
        if field.message_type is not None and isinstance(value, dict | list):
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict):
                    _complete_fields(inner, field.message_type)
    complete = COMPLETE.get(kind.full_name)
    if complete is not None:
        complete(shown)
    return shown


def _complete_operation(shown: Shown) -> None:
    shown.setdefault("done", False)
    response = shown.get("response", {})
    kind = response.get("@type", "").rpartition("/")[2]
    if kind.startswith("google.cloud.tpu."):
        _complete_fields(response, REST_POOL.FindMessageTypeByName(kind))


def _complete_node(shown: Shown, *, is_legacy: bool = False) -> None:
    for empty in ("labels",) if is_legacy else ("labels", "metadata"):
        shown.setdefault(empty, {})
    model = shown.setdefault("schedulingConfig", {})
    for flag in ("preemptible", "reserved") if is_legacy else ("preemptible", "reserved", "spot"):
        model.setdefault(flag, False)


def _complete_spec(shown: Shown) -> None:
    _complete_node(shown.setdefault("node", {}))


def _complete_rate(shown: Shown) -> None:
    """Add the zeros of a price, which clients expect."""
    shown.setdefault("startUsageAmount", 0)
    shown["unitPrice"] = {"units": "0", "nanos": 0, **shown.get("unitPrice", {})}


COMPLETE: dict[str, Callable[[Shown], None]] = {
    "google.cloud.billing.v1.PricingExpression.TierRate": _complete_rate,
    "google.longrunning.Operation": _complete_operation,
    "google.cloud.tpu.v1.Node": lambda shown: _complete_node(shown, is_legacy=True),
    "google.cloud.tpu.v2.Node": _complete_node,
    "google.cloud.tpu.v2alpha1.Node": _complete_node,
    "google.cloud.tpu.v2.QueuedResource.Tpu.NodeSpec": _complete_spec,
    "google.cloud.tpu.v2alpha1.QueuedResource.Tpu.NodeSpec": _complete_spec,
}
