"""An emulated cloud in the hand: a clock that is a value, and calls that return or raise."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from google.api_core.exceptions import GoogleAPICallError
from google.api_core.operation import Operation
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from service.emulator.api.calls.dispatch import Method, answer_message
from service.emulator.api.methods import RPCS, SERVICES
from service.emulator.app import attach_observers
from service.emulator.config.config import Config, patched_config
from service.emulator.errors import ApiError, Code
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.wire import Node, OperationMetadata
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

METHODS: dict[str, Method] = {
    method.name: method for service in reversed(SERVICES) for method in service.methods
}
"""By name, as v2 has them where several versions do."""
IN_VERSION: dict[str, Method] = {
    f"{service.name.split('.')[-2]}.{method.name}": method
    for service in SERVICES
    if service.name.endswith(".Tpu")
    for method in service.methods
}
"""Those of the Tpu service by version and name, as `v1.GetNode`."""
START = 1_800_000_000.25
ZONE = "us-central2-b"
PARENT = f"projects/lab/locations/{ZONE}"
EVERYWHERE = "projects/lab/locations/-"


def node(**overrides: Any) -> Any:
    """Ask for a v4-8, which is a single host, unless told otherwise."""
    wanted = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base", **overrides}
    return Node(**wanted)


def spot(**overrides: Any) -> Any:
    return node(scheduling_config={"spot": True}, **overrides)


def name_of(node_id: str, parent: str = PARENT) -> str:
    return f"{parent}/nodes/{node_id}"


@dataclass
class Cloud:
    """A world whose clock stands still until `wait` moves it."""

    now: float = START
    config: Config = field(default_factory=Config)
    seed: int = 7
    history: list[Transition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(lambda: self.now, RPCS, self.seed, self.config)
        self.played = attach_observers(self.world)
        self.world.observers.append(self.history.append)

    def ask(self, rpc: str, **fields: Any) -> Any:
        """Call as any surface would, in v2 unless a version is named; raises ApiError."""
        method = METHODS.get(rpc) or IN_VERSION[rpc]
        told = answer_message(self.world, method, method.request(**fields))
        if told.error is not None:
            raise told.error
        return told.response

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.world.run_due_events()

    def create(self, node_id: str = "a", parent: str = PARENT, **overrides: Any) -> Any:
        asked = node(**overrides)
        return self.ask("CreateNode", parent=parent, node_id=node_id, node=asked)

    def ready(self, node_id: str = "a", parent: str = PARENT, **overrides: Any) -> str:
        """Create a node and wait until it is READY; returns its name."""
        self.create(node_id, parent, **overrides)
        self.wait(self.world.config.seconds_for("create"))
        return name_of(node_id, parent)

    def get(self, node_id: str = "a", parent: str = PARENT) -> Any:
        return self.ask("GetNode", name=name_of(node_id, parent))

    def state(self, node_id: str = "a") -> str:
        """Name the state that a GET shows, or GONE."""
        try:
            return str(Node.State.Name(self.get(node_id).state))
        except ApiError as error:
            if error.code is Code.NOT_FOUND:
                return "GONE"
            raise

    def operation(self, operation: Any) -> Any:
        return self.ask("GetOperation", name=operation.name)

    def bill(self) -> list[dict[str, Any]]:
        return self.world.bill.list_entries(self.world.run_due_events())


@dataclass
class ClientCloud(Cloud):
    """A cloud that is asked through Google's own client, over the channel without a socket."""

    def __post_init__(self) -> None:
        super().__post_init__()
        channel = LocalChannel(self.world)
        self._client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))

    def ask(self, rpc: str, **fields: Any) -> Any:
        """Call through the client; raises ApiError with the code that the client was told."""
        call = getattr(self._client, re.sub(r"(?<!^)([A-Z])", r"_\1", rpc).lower())
        try:
            return _bare(call(request=METHODS[rpc].request(**fields), timeout=60))
        except GoogleAPICallError as error:
            status = error.grpc_status_code
            assert status is not None
            raise ApiError(Code[status.name], error.message) from error


def _bare(answered: Any) -> Any:
    """The message behind what the client makes of it: a future, a pager or a wrapper."""
    if isinstance(answered, Operation):
        return answered.operation
    message = getattr(answered, "_response", answered)
    return type(message).pb(message) if hasattr(type(message), "pb") else message


@dataclass(frozen=True)
class Web:
    """A bare HTTP client that is told the status as well as the body."""

    url: str

    def ask(self, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send JSON, or bytes as they are; answer the status and the JSON."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, raw, headers, method=verb)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


def configured(**patch: Any) -> Cloud:
    return Cloud(config=patched_config(Config(), patch))


def metadata(operation: Any) -> Any:
    unpacked = OperationMetadata()
    assert operation.metadata.Unpack(unpacked)
    return unpacked


def moment(stamp: Any) -> float:
    """Read a protobuf timestamp as unix seconds."""
    return float(stamp.seconds + stamp.nanos / 1e9)
