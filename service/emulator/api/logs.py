"""The calls of `google.logging.v2.LoggingServiceV2`: list, write and tail entries, list logs."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from google.cloud.audit import audit_log_pb2  # noqa: F401 - lets entries hold audit logs
from google.protobuf import json_format

from service.emulator.api.calls.dispatch import Call
from service.emulator.api.calls.pages import cut_page, read_token, write_token
from service.emulator.errors import ApiError, Code
from service.emulator.names import malformed_name
from service.emulator.telemetry import log_query
from service.emulator.telemetry.log_write import OWNER, Draft, build_draft, store_draft
from service.emulator.telemetry.messages import Logging
from service.emulator.wire import NodeMessage
from service.emulator.world.log_buffer import BufferedLog
from service.emulator.world.world import World

DEFAULT_SIZE, MAX_SIZE = 50, 1000
RESOURCE = re.compile(rf"({OWNER})(?:/locations/[^/]+/buckets/[^/]+/views/[^/]+)?")
# By order_by: whether the newest entries come first.
ORDERS = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}
MAX_WAITING = 10_000
MAX_ERRORS = 20
"""The errors that a failed write details: as many as fit into the trailer of a response."""
END_OF_TIME = 10**20


def list_log_entries(call: Call) -> NodeMessage:
    """List entries by time, fifty to a page by default."""
    request = call.request
    is_wanted = _build_match(request.resource_names, request.filter)
    if request.order_by.strip() not in ORDERS:
        raise ApiError(Code.INVALID_ARGUMENT, f'Unsupported order_by: "{request.order_by}".')
    if not 0 <= request.page_size <= MAX_SIZE:
        raise ApiError(Code.INVALID_ARGUMENT, f"page_size must be from 0 to {MAX_SIZE}.")
    backwards = ORDERS[request.order_by.strip()]
    size = request.page_size or DEFAULT_SIZE
    of = f"entries of {sorted(request.resource_names)}\n{request.filter}\n{backwards}"
    after = read_token(request.page_token, of) if request.page_token else ""
    placed = []
    for entry in call.world.logs:
        at, insert_id = entry.sort_key
        # The position is a text, which a page token can hold.
        place = f"{END_OF_TIME - at if backwards else at:021d}/{insert_id}/{entry.log}"
        placed.append((place, entry))
    placed.sort()
    rest = ((place, entry) for place, entry in placed if place > after and is_wanted(entry))
    shown = list(islice(rest, size + 1))
    token = write_token(shown[size - 1][0], of) if len(shown) > size else ""
    return Logging.ListLogEntriesResponse(
        entries=[message_of(entry) for _, entry in shown[:size]], next_page_token=token
    )


def write_log_entries(call: Call) -> NodeMessage:
    """Write all entries or none; with `partial_success`, the valid entries."""
    request = call.request
    drafts: list[Draft] = []
    errors: dict[int, ApiError] = {}
    for index, entry in enumerate(request.entries):
        try:
            drafts.append(build_draft(entry, request, call.now))
        except ApiError as error:
            errors[index] = error
    if not request.dry_run and (request.partial_success or not errors):
        for found in drafts:
            store_draft(call.world, found, call.now)
    if errors:
        first = errors[min(errors)]
        details = Logging.WriteLogEntriesPartialErrors()
        for index, failed in islice(errors.items(), MAX_ERRORS):
            details.log_entry_errors[index].CopyFrom(failed.to_status())
        raise ApiError(first.code, first.message, [details])
    return Logging.WriteLogEntriesResponse()


def list_logs(call: Call) -> NodeMessage:
    request = call.request
    owners = _parse_owners(request.resource_names or [request.parent])
    names = sorted({entry.log for entry in call.world.logs if _owner_of(entry) in owners})
    of = f"logs of {sorted(owners)}"
    shown, token = cut_page(names, str, of, request.page_size, request.page_token)
    return Logging.ListLogsResponse(log_names=shown, next_page_token=token)


def open_tail(call: Call) -> NodeMessage:
    """Check the first request of a tail; a `Tail` follows. Raises ApiError."""
    _build_match(call.request.resource_names, call.request.filter)
    return Logging.TailLogEntriesResponse()


class Tail:
    """New entries of the requested owners that match the filter."""

    def __init__(self, world: World, request: NodeMessage) -> None:
        self._world = world
        self._is_wanted = _build_match(request.resource_names, request.filter)
        # A deque is thread-safe: entries may come from another thread.
        # A caller that does not read loses the oldest entries.
        self._waiting: deque[BufferedLog] = deque(maxlen=MAX_WAITING)
        self._stop = world.logs.add_listener(self._waiting.append)

    def take_new(self) -> NodeMessage | None:
        self._world.run_due_events()
        found = [self._waiting.popleft() for _ in range(len(self._waiting))]
        messages = [message_of(entry) for entry in found if self._is_wanted(entry)]
        return Logging.TailLogEntriesResponse(entries=messages) if messages else None

    def close(self) -> None:
        self._stop()


def message_of(entry: BufferedLog) -> NodeMessage:
    """Return the message of an entry: as its client wrote it, or made from the world's entry."""
    if entry.message is not None:
        return entry.message
    return json_format.ParseDict(entry.plain, Logging.LogEntry())


def _build_match(resource_names: Iterable[str], text: str) -> Callable[[BufferedLog], bool]:
    """Return a function that says whether an entry matches owners and filter; raises ApiError."""
    owners, holds = _parse_owners(resource_names), log_query.compile_filter(text)
    return lambda entry: _owner_of(entry) in owners and holds(entry)


def _parse_owners(resource_names: Iterable[str]) -> set[str]:
    names = list(resource_names)
    if not names:
        raise ApiError(Code.INVALID_ARGUMENT, "At least one resource name is required.")
    matches = {name: RESOURCE.fullmatch(name) for name in names}
    for name, match in matches.items():
        if match is None:
            raise malformed_name("resourceNames", name, "projects/*")
    return {match[1] for match in matches.values() if match is not None}


def _owner_of(entry: BufferedLog) -> str:
    return entry.log.partition("/logs/")[0]
