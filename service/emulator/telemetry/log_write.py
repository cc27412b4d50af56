"""Log entries that clients write: completed, checked and added to the log buffer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import DecodeError

from service.emulator.errors import ApiError, Code
from service.emulator.telemetry.log_query import SEVERITIES
from service.emulator.wire import NodeMessage, copy_message
from service.emulator.world.log_buffer import NANOS, moment_text, to_nanoseconds
from service.emulator.world.world import World

OWNER = r"(?:projects|organizations|folders|billingAccounts)/[^/]+"
LOG_NAME = re.compile(rf"{OWNER}/logs/[A-Za-z0-9/_.%-]{{1,512}}")
MAX_BYTES = 256 * 1024
MAX_LABELS = 64
# Google accepts older and newer entries, and drops them.
PAST_NANOS, FUTURE_NANOS = 30 * 86_400 * NANOS, 86_400 * NANOS


@dataclass(frozen=True)
class Draft:
    """A valid entry as JSON and as a message; `at` in nanoseconds."""

    at: int
    plain: dict[str, Any]
    message: NodeMessage


def build_draft(entry: NodeMessage, request: NodeMessage, now: float) -> Draft:
    """Return an entry with the defaults of its request. Raises ApiError."""
    message = copy_message(entry)
    message.log_name = message.log_name or request.log_name
    if not message.HasField("resource"):
        message.resource.CopyFrom(request.resource)
    for key, value in request.labels.items():
        if key not in message.labels:
            message.labels[key] = value
    received = to_nanoseconds(now)
    _set_moment(message.receive_timestamp, received)
    if not message.HasField("timestamp"):
        _set_moment(message.timestamp, received)
    _check_entry(message)
    try:
        plain: dict[str, Any] = MessageToDict(message)
    except (DecodeError, SerializeToJsonError, TypeError, ValueError, RecursionError):
        raise _entry_error("The log entry cannot be written as JSON.") from None
    plain.setdefault("severity", "DEFAULT")
    timestamp = message.timestamp
    return Draft(int(timestamp.seconds * NANOS + timestamp.nanos), plain, message)


def store_draft(world: World, found: Draft, now: float) -> None:
    """Store an entry. An entry with a time out of bounds is dropped without an error."""
    age = to_nanoseconds(now) - found.at
    if not -FUTURE_NANOS <= age <= PAST_NANOS:
        return
    found.plain["timestamp"] = moment_text(found.at)
    limit = world.config.telemetry.log_entries
    entry = world.logs.add(found.plain, found.at, limit, found.message)
    if entry is not None:
        found.message.insert_id = entry.plain["insertId"]


def _check_entry(message: NodeMessage) -> None:
    if LOG_NAME.fullmatch(message.log_name) is None:
        raise _entry_error(f'The log name "{message.log_name}" is invalid.')
    if not message.resource.type:
        raise _entry_error("A monitored resource must be specified for each log entry.")
    if message.severity not in SEVERITIES.values():
        raise _entry_error(f"Invalid severity: {message.severity}.")
    if len(message.labels) > MAX_LABELS:
        raise _entry_error(f"A log entry can have at most {MAX_LABELS} labels.")
    size = message.ByteSize()
    if size > MAX_BYTES:
        kilobytes = f"{size / 1024:.1f}K"
        raise _entry_error(f"Log entry with size {kilobytes} exceeds maximum size of 256.0K.")


def _set_moment(moment: NodeMessage, at: int) -> None:
    moment.seconds, moment.nanos = divmod(at, NANOS)


def _entry_error(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, text)
