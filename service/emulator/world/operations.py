"""Long-running operations: each has a verb and a target, ends once, and is read by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from google.protobuf.message import Message

from service.emulator.clock import to_timestamp
from service.emulator.errors import ApiError, not_found
from service.emulator.names import Place
from service.emulator.wire import NodeMessage, Operation, Tpu, TpuV1, TpuV2Alpha1


@dataclass(frozen=True)
class Voice:
    """How one version of the API shows the operations that it started."""

    api_version: str
    metadata: Any
    """The class of the version's metadata; all versions have the same fields."""
    word: Callable[[Message], Message]
    """Converts the response of an operation from v2 to this version."""


V2_VOICE = Voice("v2", Tpu.OperationMetadata, lambda response: response)
METADATA = {
    version.OperationMetadata.DESCRIPTOR.full_name: version.OperationMetadata
    for version in (Tpu, TpuV1, TpuV2Alpha1)
}


class Operations:
    """Every operation by name; `random` makes the ids, so the same seed gives the same ids."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._open: dict[str, NodeMessage] = {}
        self._done: dict[str, bytes] = {}
        """Ended operations, serialized to save memory: there are many, and few are read."""
        self._voice = V2_VOICE
        self._voices: dict[str, Voice] = {}
        """The voices of open operations that were not started in v2."""

    @contextmanager
    def using_voice(self, voice: Voice) -> Iterator[None]:
        """Show the operations that start inside the block in another version of the API."""
        before, self._voice = self._voice, voice
        try:
            yield
        finally:
            self._voice = before

    def start(self, verb: str, target: str, place: Place, at: float) -> NodeMessage:
        """Return a new operation that is not done."""
        voice = self._voice
        metadata = voice.metadata(
            create_time=to_timestamp(at), target=target, verb=verb, api_version=voice.api_version
        )
        widths = (13, 8, 8)
        parts = (f"{self._random.getrandbits(4 * width):0{width}x}" for width in widths)
        operation_id = f"operation-{int(at * 1000):013d}-{'-'.join(parts)}"
        operation = Operation(name=place.child_name("operations", operation_id), done=False)
        operation.metadata.Pack(metadata)
        self._open[operation.name] = operation
        if voice is not V2_VOICE:
            self._voices[operation.name] = voice
        return operation

    def mark_succeeded(self, operation: NodeMessage, at: float, response: Message) -> None:
        if not operation.done:
            voice = self._voices.get(operation.name, V2_VOICE)
            operation.response.Pack(voice.word(response))
            self._mark_done(operation, at)

    def mark_failed(self, operation: NodeMessage, at: float, error: ApiError) -> None:
        if not operation.done:
            operation.error.CopyFrom(error.to_status())
            self._mark_done(operation, at)

    def get(self, name: str) -> NodeMessage:
        """Return an operation by its full name; raises ApiError."""
        if name in self._open:
            return self._open[name]
        if name in self._done:
            return Operation.FromString(self._done[name])
        raise not_found(name)

    def list_under(self, place: Place) -> list[NodeMessage]:
        """List a zone's operations, oldest first; `-` lists every zone of the project."""
        prefix = f"projects/{place.project}/locations/"
        if not place.is_wildcard:
            prefix = f"{place.parent}/"
        return [self.get(name) for name in sorted(self._all_names()) if name.startswith(prefix)]

    def list_all(self) -> list[NodeMessage]:
        """List the operations of every project, oldest first."""
        names = sorted(self._all_names(), key=lambda name: name.rpartition("/")[2])
        return [self.get(name) for name in names]

    def _all_names(self) -> list[str]:
        return [*self._open, *self._done]

    def request_cancel(self, name: str) -> None:
        """Record the request to cancel, without effect: Google's API gives no guarantee either."""
        operation = self.get(name)
        if not operation.done:
            metadata = metadata_of(operation)
            metadata.cancel_requested = True
            operation.metadata.Pack(metadata)

    def delete(self, name: str) -> None:
        """Drop an operation; the change that it reports continues. Raises ApiError."""
        self.get(name)
        self._open.pop(name, None)
        self._done.pop(name, None)
        self._voices.pop(name, None)

    def clear(self) -> None:
        self._open.clear()
        self._done.clear()
        self._voices.clear()

    def _mark_done(self, operation: NodeMessage, at: float) -> None:
        metadata = metadata_of(operation)
        metadata.end_time.CopyFrom(to_timestamp(at))
        operation.metadata.Pack(metadata)
        operation.done = True
        self._voices.pop(operation.name, None)
        if self._open.pop(operation.name, None) is not None:
            self._done[operation.name] = operation.SerializeToString()


def metadata_of(operation: NodeMessage) -> NodeMessage:
    metadata = METADATA[operation.metadata.TypeName()]()
    operation.metadata.Unpack(metadata)
    return metadata
