"""Long-running operations: started with a verb and a target, finished once, looked at by name."""

from __future__ import annotations

from random import Random

from google.protobuf.message import Message

from service.emulator.clock import stamp
from service.emulator.errors import ApiError, not_found
from service.emulator.names import Place
from service.emulator.wire import NodeMessage, Operation, OperationMetadata


class Operations:
    """Every operation by name; `random` makes the ids, so that a seed makes them again."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._by_name: dict[str, NodeMessage] = {}

    def start(self, verb: str, target: str, place: Place, at: float) -> NodeMessage:
        metadata = OperationMetadata(
            create_time=stamp(at), target=target, verb=verb, api_version="v2"
        )
        operation = Operation(name=place.child("operations", self._new_id(at)), done=False)
        operation.metadata.Pack(metadata)
        self._by_name[operation.name] = operation
        return operation

    def succeed(self, operation: NodeMessage, at: float, response: Message) -> None:
        if not operation.done:
            operation.response.Pack(response)
            self._close(operation, at)

    def fail(self, operation: NodeMessage, at: float, error: ApiError) -> None:
        if not operation.done:
            operation.error.CopyFrom(error.status())
            self._close(operation, at)

    def get(self, name: str) -> NodeMessage:
        if name not in self._by_name:
            raise not_found(name)
        return self._by_name[name]

    def under(self, place: Place) -> list[NodeMessage]:
        """List a zone's operations, oldest first; `-` lists every zone of the project."""
        prefix = f"projects/{place.project}/locations/"
        if not place.everywhere:
            prefix = f"{place.parent}/"
        found = [each for name, each in self._by_name.items() if name.startswith(prefix)]
        return sorted(found, key=lambda each: str(each.name))

    def everything(self) -> list[NodeMessage]:
        """List the operations of every project, oldest first."""
        return sorted(self._by_name.values(), key=lambda each: str(each.name.rpartition("/")[2]))

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
        del self._by_name[name]

    def clear(self) -> None:
        self._by_name.clear()

    def _close(self, operation: NodeMessage, at: float) -> None:
        metadata = metadata_of(operation)
        metadata.end_time.CopyFrom(stamp(at))
        operation.metadata.Pack(metadata)
        operation.done = True

    def _new_id(self, at: float) -> str:
        widths = (13, 8, 8)
        parts = (f"{self._random.getrandbits(4 * width):0{width}x}" for width in widths)
        return f"operation-{int(at * 1000):013d}-{'-'.join(parts)}"


def metadata_of(operation: NodeMessage) -> NodeMessage:
    metadata = OperationMetadata()
    operation.metadata.Unpack(metadata)
    return metadata
