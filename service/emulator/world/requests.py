"""Requests that carry an id of their own: asked twice, they are done once."""

from __future__ import annotations

import re
from typing import NamedTuple

from service.emulator.errors import ApiError, invalid_argument
from service.emulator.wire import NodeMessage

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
REMEMBERED_SECONDS = 3600.0
"""How long Google asks its services to remember an id, at least."""


class _Done(NamedTuple):
    at: float
    content: object
    operation: NodeMessage


class Requests:
    """The operations that requests with an id began, by project and id."""

    def __init__(self) -> None:
        self._done: dict[tuple[str, str], _Done] = {}

    def repeated(
        self, project: str, request: NodeMessage, now: float, terms: object = None
    ) -> NodeMessage | None:
        """Give the operation of the same request; raises ApiError for another with this id.

        `terms` is what was asked for besides the message.
        """
        self._forget_old(now)
        if not request.request_id:
            return None
        if UUID.fullmatch(request.request_id) is None:
            raise _refused(request, "must be a UUID")
        done = self._done.get((project, request.request_id))
        if done is not None and done.content != _content(request, terms):
            raise _refused(request, "was used for another request")
        return done.operation if done else None

    def remember(
        self,
        project: str,
        request: NodeMessage,
        operation: NodeMessage,
        now: float,
        terms: object = None,
    ) -> None:
        if request.request_id:
            key = (project, request.request_id)
            self._done[key] = _Done(now, _content(request, terms), operation)

    def clear(self) -> None:
        self._done.clear()

    def _forget_old(self, now: float) -> None:
        while self._done:
            key, oldest = next(iter(self._done.items()))
            if oldest.at > now - REMEMBERED_SECONDS:
                break
            del self._done[key]


def _content(request: NodeMessage, terms: object) -> tuple[str, bytes, object]:
    """Give what makes two requests the same one; equal messages give equal bytes."""
    body = bytes(request.SerializeToString(deterministic=True))
    return str(request.DESCRIPTOR.full_name), body, terms


def _refused(request: NodeMessage, why: str) -> ApiError:
    return invalid_argument(f'The field "RequestId" cannot be "{request.request_id}": it {why}.')
