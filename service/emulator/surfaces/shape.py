"""Messages as Google's REST front end writes and reads them: JSON out, JSON in."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from service.emulator.errors import ApiError, Code

NODE_TYPE = "google.cloud.tpu.v2.Node"
OPERATION_TYPE = "google.longrunning.Operation"
MODELS = ("preemptible", "reserved", "spot")
UNKNOWN_FIELD = re.compile(r'has no field named "([^"]*)" at "([^"]*)"')


def to_json(message: Message, *, enum_numbers: bool) -> dict[str, Any]:
    """Write a message with the fields that clients count on, even when they are empty."""
    shown = json_format.MessageToDict(message, use_integers_for_enums=enum_numbers)
    return _completed(shown, message.DESCRIPTOR.full_name)


def error_json(error: ApiError) -> dict[str, Any]:
    """Write an error in the envelope of AIP-193."""
    status = json_format.MessageToDict(error.status())
    shown: dict[str, Any] = {
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
        raise _refusal(f"Root element must be a message, not {type(body).__name__}.")
    try:
        json_format.ParseDict(body, message)
    except json_format.ParseError as error:
        raise _refusal(_explained(str(error), at)) from None
    except (AttributeError, RecursionError, TypeError, ValueError):
        raise _refusal("Invalid value.") from None


def unknown_name(name: str, where: str = "") -> ApiError:
    if where:
        return _refusal(f"Unknown name \"{name}\" at '{where}': Cannot find field.")
    return _refusal(f'Unknown name "{name}": Cannot find field.')


def _explained(problem: str, at: str) -> str:
    """Turn the parser's complaint into the text of Google's front end."""
    stranger = UNKNOWN_FIELD.search(problem)
    if stranger is None:
        return problem.partition("\n")[0].rstrip(".") + "."
    path = [each for each in (at, *stranger[2].split(".")[1:]) if each]
    return unknown_name(stranger[1], ".".join(path)).message.partition(" received. ")[2]


def _refusal(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {text}")


def _completed(shown: dict[str, Any], kind: str) -> dict[str, Any]:
    if kind == OPERATION_TYPE:
        return _completed_operation(shown)
    if kind == NODE_TYPE:
        return _completed_node(shown)
    for key, value in shown.items():
        if key in {"nodes", "operations"} and isinstance(value, list):
            item = NODE_TYPE if key == "nodes" else OPERATION_TYPE
            shown[key] = [_completed(each, item) for each in value]
    return shown


def _completed_operation(shown: dict[str, Any]) -> dict[str, Any]:
    shown.setdefault("done", False)
    response = shown.get("response", {})
    if response.get("@type", "").endswith(f"/{NODE_TYPE}"):
        shown["response"] = _completed_node(response)
    return shown


def _completed_node(shown: dict[str, Any]) -> dict[str, Any]:
    for empty in ("labels", "metadata"):
        shown.setdefault(empty, {})
    model = shown.setdefault("schedulingConfig", {})
    for each in MODELS:
        model.setdefault(each, False)
    return shown
