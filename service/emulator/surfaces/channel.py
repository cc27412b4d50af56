"""A gRPC channel without a socket: Google's own client calls a world in the same process.

There is one thread, no server and no waiting. With a simulated clock a day takes a moment, and the
same seed gives the same day. Requests and responses are still serialized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import grpc
from grpc_status import rpc_status

from service.emulator.api.calls.dispatch import Answer, answer_bytes
from service.emulator.api.calls.field_masks import HEADER
from service.emulator.api.methods import SERVICES
from service.emulator.errors import ApiError, Code
from service.emulator.permissions import token_of
from service.emulator.world.world import World

Sleep = Callable[[float], None]
Metadata = tuple[tuple[str, str | bytes], ...]
METHODS = {
    f"/{service.name}/{method.name}": method for service in SERVICES for method in service.methods
}


class LocalChannel(grpc.Channel):
    """A channel to a world. `sleep` gets the seconds of a delay by a fault, at most the timeout of
    the call. With a simulated clock it must advance that clock."""

    def __init__(self, world: World, sleep: Sleep = lambda _: None) -> None:
        self._world = world
        self._sleep = sleep

    def unary_unary(  # type: ignore[override]
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        *_: object,
        **__: object,
    ) -> _LocalCall:
        def call_method(
            request: Any, timeout: float | None, metadata: Metadata | None
        ) -> _Finished:
            raw = request_serializer(request)
            answer = self._answer_call(method, raw, timeout, metadata or ())
            if answer.error is not None:
                return _Failed(answer.error)
            assert answer.response is not None
            return _Finished(response_deserializer(answer.response.SerializeToString()))

        return _LocalCall(call_method)

    def _answer_call(
        self, path: str, raw: bytes, timeout: float | None, metadata: Metadata
    ) -> Answer:
        method = METHODS.get(path)
        if method is None:
            return Answer(error=ApiError(Code.UNIMPLEMENTED, "Method not found!"))
        sent = {key.lower(): str(value) for key, value in metadata}
        token = token_of(sent.get("authorization", ""))
        answer = answer_bytes(self._world, method, raw, sent.get(HEADER, ""), token)
        if timeout is not None and answer.delay_seconds >= timeout:
            # The request has taken effect all the same, as with a real server.
            self._sleep(timeout)
            return Answer(error=ApiError(Code.DEADLINE_EXCEEDED, "Deadline Exceeded"))
        if answer.delay_seconds:
            self._sleep(answer.delay_seconds)
        return answer

    def unary_stream(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("a local channel has no streams")

    stream_unary = unary_stream

    # A client makes the callables of all its methods first, so only the call itself may fail.
    def stream_stream(self, method: str, *_: object, **__: object) -> Any:
        def refuse_call(_: Iterable[object], **__: object) -> NoReturn:
            raise NotImplementedError(f"{method} is a stream; a local channel has none")

        return refuse_call

    def subscribe(self, callback: Callable[[grpc.ChannelConnectivity], None], **_: object) -> None:  # type: ignore[override]
        callback(grpc.ChannelConnectivity.READY)

    def unsubscribe(self, callback: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """Do nothing: the connectivity never changes."""

    def close(self) -> None:
        """Do nothing: the channel holds no resource."""

    def __enter__(self) -> LocalChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LocalCall(grpc.UnaryUnaryMultiCallable):  # type: ignore[type-arg]
    def __init__(self, call: Callable[[Any, float | None, Metadata | None], _Finished]) -> None:
        self._call = call

    def __call__(  # type: ignore[override]
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **_: object,
    ) -> Any:
        return self._call(request, timeout, metadata).result()

    def with_call(  # type: ignore[override]
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **_: object,
    ) -> Any:
        finished = self._call(request, timeout, metadata)
        return finished.result(), finished

    def future(  # type: ignore[override]
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **_: object,
    ) -> Any:
        return self._call(request, timeout, metadata)


class _Finished(grpc.Call, grpc.Future):  # type: ignore[type-arg]
    """A call that has ended, so its status never changes; successful unless a subclass says
    otherwise."""

    def __init__(self, response: Any = None) -> None:
        self._response = response

    def result(self, _timeout: float | None = None) -> Any:
        return self._response

    def exception(self, _timeout: float | None = None) -> Any:
        return None

    def traceback(self, _timeout: float | None = None) -> None:
        return None

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.OK

    def details(self) -> str:
        return ""

    def initial_metadata(self) -> Metadata:
        return ()

    def trailing_metadata(self) -> Metadata:
        return ()

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False

    def is_active(self) -> bool:
        return False

    def running(self) -> bool:
        return False

    def done(self) -> bool:
        return True

    def time_remaining(self) -> float:
        return 0.0

    def add_callback(self, _callback: Callable[[], None]) -> bool:
        return False

    def add_done_callback(self, fn: Callable[[Any], None]) -> None:
        fn(self)


class _Failed(grpc.RpcError, _Finished):
    """A failed call, with Google's details in the trailing metadata, as gRPC raises it."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self._status = rpc_status.to_status(error.to_status())

    def result(self, _timeout: float | None = None) -> NoReturn:
        raise self

    def exception(self, _timeout: float | None = None) -> _Failed:
        return self

    def code(self) -> grpc.StatusCode:
        code: grpc.StatusCode = self._status.code
        return code

    def details(self) -> str:
        return self._status.details or ""

    def trailing_metadata(self) -> Metadata:  # type: ignore[override]
        return self._status.trailing_metadata or ()
