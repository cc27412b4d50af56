"""One call of the API, from whichever surface it came: settle, apply faults, answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from service.emulator import catalog
from service.emulator.errors import ApiError, Code
from service.emulator.faults import Effects
from service.emulator.nodes import provisioning_model
from service.emulator.wire import NodeMessage
from service.emulator.world import World

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """What a function that answers an RPC is given; the surfaces never look inside."""

    world: World
    request: NodeMessage
    now: float
    effects: Effects


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


def answer(world: World, method: Method, request: Message) -> Answer:
    """Let a request take effect and say what its caller is to be told. Never raises."""
    effects = Effects()
    try:
        with _no_surprises(method.name):
            now = world.settle()
            effects = world.faults.take(method.name, facts_of(world, request), now)
            if effects.refusal is not None:
                raise effects.refusal
            response = _distorted(method.answer(Call(world, request, now, effects)), effects)
            if effects.operation_lost:
                world.operations.forget(response.name)
            if effects.loss is not None:
                raise effects.loss
    except ApiError as error:
        return Answer(error=error, delay_seconds=effects.delay_seconds)
    return Answer(response=response, delay_seconds=effects.delay_seconds)


def answer_bytes(world: World, method: Method, raw: bytes) -> Answer:
    """Answer a request as it came over the wire. Never raises."""
    try:
        request = method.request.FromString(raw)
    except DecodeError as error:
        return Answer(error=ApiError(Code.INVALID_ARGUMENT, f"Unreadable request: {error}"))
    return answer(world, method, request)


def facts_of(world: World, request: NodeMessage) -> Mapping[str, str]:
    """Say about a request what a fault may match on, as far as it tells."""
    node = getattr(request, "node", None)
    name = getattr(request, "name", "") or getattr(node, "name", "")
    where = (name or getattr(request, "parent", "")).split("/")
    path = dict(zip(where[::2], where[1::2], strict=False))
    node_id = getattr(request, "node_id", "") or path.get("nodes", "")
    parent = f"projects/{path.get('projects', '')}/locations/{path.get('locations', '')}"
    facts = {
        "project": path.get("projects", ""),
        "zone": path.get("locations", ""),
        "node_id": node_id,
        "name": name or (f"{parent}/nodes/{node_id}" if node_id else ""),
        "page": "next" if getattr(request, "page_token", "") else "first",
    }
    return facts | _node_facts(world, facts["name"], node)


def _node_facts(world: World, name: str, asked: NodeMessage) -> dict[str, str]:
    record = world.nodes.get(name)
    node = record.message if record else asked
    if node is None:
        return {}
    accelerator = catalog.find(
        catalog.accelerators().values(),
        node.accelerator_type,
        node.accelerator_config.type_,
        node.accelerator_config.topology,
    )
    return {
        "accelerator_type": accelerator.name if accelerator else node.accelerator_type,
        "generation": accelerator.generation if accelerator else "",
        "runtime_version": node.runtime_version,
        "provisioning_model": provisioning_model(node),
    }


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
    return next(
        field.name
        for field in response.DESCRIPTOR.fields
        if field.is_repeated and field.message_type is not None
    )
