"""One call of the API, from whichever surface it came: settle, apply faults, answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError, Message

from service.emulator.api.field_masks import Chosen, chosen_of, masked, resolved
from service.emulator.api.match_facts import facts_of, resource_of
from service.emulator.errors import ApiError, Code
from service.emulator.faults.faults import Effects
from service.emulator.permissions import denial
from service.emulator.wire import NodeMessage
from service.emulator.world.world import World

MAX_CACHED = 64
NO_EFFECTS = Effects()

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """What a function that answers an RPC is given; the surfaces never look inside."""

    world: World
    request: NodeMessage
    now: float
    effects: Effects
    chosen: Chosen = field(default_factory=dict)
    """The fields of the response that its caller wants; empty for all."""


class CallStream(Protocol):
    """A call that goes on: it hands out what is new, None for nothing, until it is closed."""

    def take(self) -> Message | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Method:
    """One RPC: its messages, what answers it, and its REST binding, the path without a version."""

    name: str
    request: type[Message]
    response: type[Message]
    answer: Callable[[Call], Message]
    verb: str
    path: str
    body: str = ""
    """The field that the JSON body fills; `*` for the whole request, empty for no body."""
    steady: bool = False
    """Its answer stays the same until something happens, however much time passes."""
    stream: Callable[[World, NodeMessage], CallStream] | None = None
    """What goes on after the answer to a first request that was found good; only over gRPC."""


@dataclass(frozen=True)
class Service:
    """A gRPC service, and the versions of the REST API under which its methods are found."""

    name: str
    versions: tuple[str, ...]
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class Answer:
    """Either a response or an error, to be sent after a delay in real seconds."""

    response: Message | None = None
    error: ApiError | None = None
    delay_seconds: float = 0.0


def answer(
    world: World, method: Method, request: Message, mask: str = "", token: str = ""
) -> Answer:
    """Let a request take effect and say what its caller is to be told. Never raises.

    `mask` names the fields of the response that the caller wants; empty for all. Nothing happens
    where it names a field that is none, or where the caller with this `token` lacks a permission.
    """
    effects = NO_EFFECTS
    try:
        with _no_surprises(method.name):
            chosen = resolved(method.response.DESCRIPTOR, chosen_of(mask), mask)
            now = world.settle()
            denied = _denial(world, method.name, request, token)
            if denied is not None:
                raise denied
            if not world.faults.quiet:
                effects = world.faults.take(method.name, facts_of(world, request), now)
            if effects.refusal is not None:
                raise effects.refusal
            response = _response(method, Call(world, request, now, effects, chosen))
            if effects.operation_lost:
                world.operations.forget(response.name)
            if effects.loss is not None:
                raise effects.loss
    except ApiError as error:
        return Answer(error=error, delay_seconds=effects.delay_seconds)
    return Answer(response=response, delay_seconds=effects.delay_seconds)


def _response(method: Method, call: Call) -> NodeMessage:
    """Let the call take effect, or answer it from the cache."""
    world = call.world
    if method.verb != "GET":
        world.touch()
    if not method.steady or call.effects != NO_EFFECTS:
        return _masked(_distorted(method.answer(call), call.effects), call.chosen)
    # Versions share the names of methods, not those of messages.
    kind = f"{method.request.DESCRIPTOR.full_name}?{call.chosen}"
    key = (kind, call.request.SerializeToString())
    if key not in world.response_cache:
        response = _masked(method.answer(call), call.chosen)
        if len(world.response_cache) >= MAX_CACHED:
            world.touch()
        world.response_cache[key] = response
    return world.response_cache[key]


def _masked(response: NodeMessage, chosen: Chosen) -> NodeMessage:
    return masked(response, chosen) if chosen else response


def _denial(world: World, rpc: str, request: NodeMessage, token: str) -> ApiError | None:
    callers = world.config.permissions
    return denial(callers, token, rpc, resource_of(request)) if callers else None


def answer_bytes(
    world: World, method: Method, raw: bytes, mask: str = "", token: str = ""
) -> Answer:
    """Answer a request as it came over the wire. Never raises."""
    try:
        request = method.request.FromString(raw)
    except DecodeError:
        text = f"The request is not a {method.request.DESCRIPTOR.full_name}."
        return Answer(error=ApiError(Code.INVALID_ARGUMENT, text))
    # What its own classes lack, a client cannot say; only REST has more, and checks it.
    request.DiscardUnknownFields()
    return answer(world, method, request, mask, token)


@contextmanager
def _no_surprises(rpc: str) -> Iterator[None]:
    try:
        yield
    except ApiError:
        raise
    except Exception as error:
        log.exception("%s failed inside the emulator", rpc)
        raise ApiError(Code.INTERNAL, "an internal error has occurred") from error


def _distorted(response: NodeMessage, effects: Effects) -> NodeMessage:
    """Leave out what a fault wants left out of a list, without a word about it."""
    if effects.emptied or effects.shortened:
        items = getattr(response, _items(response))
        del items[0 if effects.emptied else len(items) // 2 :]
        response.next_page_token = ""
    return response


def _items(response: Message) -> str:
    """Name the field of a list response that holds what is listed."""
    return next(field.name for field in response.DESCRIPTOR.fields if field.is_repeated)
