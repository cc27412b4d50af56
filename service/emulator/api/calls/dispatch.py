"""One call of the API, from any surface: run due events, apply faults, answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError, Message

from service.emulator.api.calls.field_masks import (
    Chosen,
    chosen_of,
    mask_message,
    resolve_selection,
)
from service.emulator.api.calls.match_facts import facts_of, resource_of
from service.emulator.errors import ApiError, Code
from service.emulator.faults.faults import Effects
from service.emulator.permissions import find_denial
from service.emulator.wire import NodeMessage
from service.emulator.world.world import World

MAX_CACHED = 64
NO_EFFECTS = Effects()

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """The argument of a function that answers an RPC. The surfaces do not read it."""

    world: World
    request: NodeMessage
    now: float
    effects: Effects
    chosen: Chosen = field(default_factory=dict)
    """The requested fields of the response; empty for all."""


class CallStream(Protocol):
    """An open stream of messages. The next message is None if there is none yet."""

    def take_new(self) -> Message | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Method:
    """One RPC: its messages, its function, and its REST binding; the path has no version."""

    name: str
    request: type[Message]
    response: type[Message]
    answer: Callable[[Call], Message]
    verb: str
    path: str
    body: str = ""
    """The field that the JSON body fills; `*` for the whole request, empty for no body."""
    steady: bool = False
    """Whether the response depends on the state of the world alone, not on the time."""
    stream: Callable[[World, NodeMessage], CallStream] | None = None
    """Opens the stream after the response to a valid first request; only over gRPC."""


@dataclass(frozen=True)
class Service:
    """A gRPC service, and the versions of the REST API that have its methods."""

    name: str
    versions: tuple[str, ...]
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class Answer:
    """A response or an error, to be sent after a delay in real seconds."""

    response: Message | None = None
    error: ApiError | None = None
    delay_seconds: float = 0.0


def answer_message(
    world: World, method: Method, request: Message, mask: str = "", token: str = ""
) -> Answer:
    """Apply a request and return its response or error. Never raises.

    `mask` names the requested fields of the response; empty for all. The request has no effect if
    the mask names an unknown field, or if the caller with this `token` lacks a permission.
    """
    effects = NO_EFFECTS
    try:
        with _convert_exceptions(method.name):
            chosen = resolve_selection(method.response.DESCRIPTOR, chosen_of(mask), mask)
            now = world.run_due_events()
            callers = world.config.permissions
            denied = (
                find_denial(callers, token, method.name, resource_of(request)) if callers else None
            )
            if denied is not None:
                raise denied
            if not world.faults.is_empty:
                effects = world.faults.apply_to(method.name, facts_of(world, request), now)
            if effects.refusal is not None:
                raise effects.refusal
            response = _find_response(method, Call(world, request, now, effects, chosen))
            if effects.operation_lost:
                world.operations.delete(response.name)
            if effects.loss is not None:
                raise effects.loss
    except ApiError as error:
        return Answer(error=error, delay_seconds=effects.delay_seconds)
    return Answer(response=response, delay_seconds=effects.delay_seconds)


def _find_response(method: Method, call: Call) -> NodeMessage:
    """Apply the call, or answer a steady one from the cache."""
    world = call.world
    if method.verb != "GET":
        world.clear_cache()
    if not method.steady or call.effects != NO_EFFECTS:
        response: NodeMessage = method.answer(call)
        if call.effects.emptied or call.effects.shortened:
            # A fault removes items of the list, and the response does not show it.
            fields = response.DESCRIPTOR.fields
            items = getattr(response, next(field.name for field in fields if field.is_repeated))
            del items[0 if call.effects.emptied else len(items) // 2 :]
            response.next_page_token = ""
        return _apply_mask(response, call.chosen)
    # Versions share the names of methods, but not the names of messages.
    kind = f"{method.request.DESCRIPTOR.full_name}?{call.chosen}"
    key = (kind, call.request.SerializeToString())
    if key not in world.response_cache:
        response = _apply_mask(method.answer(call), call.chosen)
        if len(world.response_cache) >= MAX_CACHED:
            world.clear_cache()
        world.response_cache[key] = response
    return world.response_cache[key]


def _apply_mask(response: NodeMessage, chosen: Chosen) -> NodeMessage:
    return mask_message(response, chosen) if chosen else response


def answer_bytes(
    world: World, method: Method, raw: bytes, mask: str = "", token: str = ""
) -> Answer:
    """Answer a serialized request. Never raises."""
    try:
        request = method.request.FromString(raw)
    except DecodeError:
        text = f"The request is not a {method.request.DESCRIPTOR.full_name}."
        return Answer(error=ApiError(Code.INVALID_ARGUMENT, text))
    # A gRPC client cannot set the fields that only REST has, and only REST checks them.
    request.DiscardUnknownFields()
    return answer_message(world, method, request, mask, token)


@contextmanager
def _convert_exceptions(rpc: str) -> Iterator[None]:
    """Log an unexpected exception and raise ApiError with code 13 in its place."""
    try:
        yield
    except ApiError:
        raise
    except Exception as error:
        log.exception("%s failed inside the emulator", rpc)
        raise ApiError(Code.INTERNAL, "an internal error has occurred") from error
