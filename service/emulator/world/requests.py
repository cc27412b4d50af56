"""Requests with a request id: a repeated request takes effect once."""

from __future__ import annotations

import re
from typing import NamedTuple

from service.emulator.errors import ApiError, invalid_argument
from service.emulator.wire import NodeMessage

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
REMEMBERED_SECONDS = 3600.0
"""The shortest time for which Google asks its services to remember an id."""


class _Done(NamedTuple):
    at: float
    content: object
    operation: NodeMessage


class Requests:
    """The operations that requests with an id started, by project and id."""

    def __init__(self) -> None:
        self._done: dict[tuple[str, str], _Done] = {}

    def find_repeated(
        self, project: str, request: NodeMessage, now: float, terms: object = None
    ) -> NodeMessage | None:
        """Return the operation of an earlier request with this id; None if there is none.

        Raises ApiError if the earlier request was a different one. `terms` are the parts of the
        request that its message does not hold.
        """
        while self._done:
            key, oldest = next(iter(self._done.items()))
            if oldest.at > now - REMEMBERED_SECONDS:
                break
            del self._done[key]
        if not request.request_id:
            return None
        if UUID.fullmatch(request.request_id) is None:
            raise _invalid_id(request, "must be a UUID")
        done = self._done.get((project, request.request_id))
        if done is not None and done.content != _request_content(request, terms):
            raise _invalid_id(request, "was used for another request")
        return done.operation if done else None

    def remember_operation(
        self,
        project: str,
        request: NodeMessage,
        operation: NodeMessage,
        now: float,
        terms: object = None,
    ) -> None:
        if request.request_id:
            key = (project, request.request_id)
            self._done[key] = _Done(now, _request_content(request, terms), operation)

    def clear(self) -> None:
        self._done.clear()


def _request_content(request: NodeMessage, terms: object) -> tuple[str, bytes, object]:
    """Return a value that is equal for equal requests; serialization is deterministic."""
    body = bytes(request.SerializeToString(deterministic=True))
    return str(request.DESCRIPTOR.full_name), body, terms


def _invalid_id(request: NodeMessage, why: str) -> ApiError:
    return invalid_argument(f'The field "RequestId" cannot be "{request.request_id}": it {why}.')
