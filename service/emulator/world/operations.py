"""Long-running operations: started with a verb and a target, finished once, looked at by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from google.protobuf.message import Message

from service.emulator.clock import stamp
from service.emulator.errors import ApiError, not_found
from service.emulator.names import Place
from service.emulator.wire import NodeMessage, Operation, Tpu, TpuV1, TpuV2Alpha1


@dataclass(frozen=True)
class Voice:
    """How operations are told to those who began them in one version of the API."""

    api_version: str
    metadata: Any
    """The class of the version's metadata; the fields are the same in all of them."""
    word: Callable[[Message], Message]
    """Put what came of an operation, said in v2, into the words of the version."""


V2_VOICE = Voice("v2", Tpu.OperationMetadata, lambda response: response)
METADATA = {
    each.OperationMetadata.DESCRIPTOR.full_name: each.OperationMetadata
    for each in (Tpu, TpuV1, TpuV2Alpha1)
}


class Operations:
    """Every operation by name; `random` makes the ids, so that a seed makes them again."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._open: dict[str, NodeMessage] = {}
        self._done: dict[str, bytes] = {}
        """Those that are over, packed: there are many of them, and few are asked for."""
        self._voice = V2_VOICE
        self._voices: dict[str, Voice] = {}
        """How to tell of those that were not begun in v2."""

    @contextmanager
    def speaking(self, voice: Voice) -> Iterator[None]:
        """Tell of the operations that begin meanwhile in the words of another version."""
        before, self._voice = self._voice, voice
        try:
            yield
        finally:
            self._voice = before

    def start(self, verb: str, target: str, place: Place, at: float) -> NodeMessage:
        voice = self._voice
        metadata = voice.metadata(
            create_time=stamp(at), target=target, verb=verb, api_version=voice.api_version
        )
        operation = Operation(name=place.child("operations", self._new_id(at)), done=False)
        operation.metadata.Pack(metadata)
        self._open[operation.name] = operation
        if voice is not V2_VOICE:
            self._voices[operation.name] = voice
        return operation

    def succeed(self, operation: NodeMessage, at: float, response: Message) -> None:
        if not operation.done:
            voice = self._voices.get(operation.name, V2_VOICE)
            operation.response.Pack(voice.word(response))
            self._close(operation, at)

    def fail(self, operation: NodeMessage, at: float, error: ApiError) -> None:
        if not operation.done:
            operation.error.CopyFrom(error.status())
            self._close(operation, at)

    def get(self, name: str) -> NodeMessage:
        if name in self._open:
            return self._open[name]
        if name in self._done:
            return Operation.FromString(self._done[name])
        raise not_found(name)

    def under(self, place: Place) -> list[NodeMessage]:
        """List a zone's operations, oldest first; `-` lists every zone of the project."""
        prefix = f"projects/{place.project}/locations/"
        if not place.everywhere:
            prefix = f"{place.parent}/"
        return [self.get(name) for name in sorted(self._names()) if name.startswith(prefix)]

    def everything(self) -> list[NodeMessage]:
        """List the operations of every project, oldest first."""
        names = sorted(self._names(), key=lambda name: name.rpartition("/")[2])
        return [self.get(name) for name in names]

    def _names(self) -> list[str]:
        return [*self._open, *self._done]

    def cancel(self, name: str) -> None:
        """Note the wish; as with the real API, nothing promises that it is heard."""
        operation = self.get(name)
        if not operation.done:
            metadata = metadata_of(operation)
            metadata.cancel_requested = True
            operation.metadata.Pack(metadata)

    def forget(self, name: str) -> None:
        """Drop an operation that nobody asks for any more; what it does goes on."""
        self.get(name)
        self._open.pop(name, None)
        self._done.pop(name, None)
        self._voices.pop(name, None)

    def clear(self) -> None:
        self._open.clear()
        self._done.clear()
        self._voices.clear()

    def _close(self, operation: NodeMessage, at: float) -> None:
        metadata = metadata_of(operation)
        metadata.end_time.CopyFrom(stamp(at))
        operation.metadata.Pack(metadata)
        operation.done = True
        self._voices.pop(operation.name, None)
        if self._open.pop(operation.name, None) is not None:
            self._done[operation.name] = operation.SerializeToString()

    def _new_id(self, at: float) -> str:
        widths = (13, 8, 8)
        parts = (f"{self._random.getrandbits(4 * width):0{width}x}" for width in widths)
        return f"operation-{int(at * 1000):013d}-{'-'.join(parts)}"


def metadata_of(operation: NodeMessage) -> NodeMessage:
    metadata = METADATA[operation.metadata.TypeName()]()
    operation.metadata.Unpack(metadata)
    return metadata
