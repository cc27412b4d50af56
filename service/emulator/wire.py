"""Google's message classes, the only format that the emulator reads and writes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from google.cloud import tpu_v1, tpu_v2, tpu_v2alpha1
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

__all__ = [
    "AcceleratorType",
    "Empty",
    "Location",
    "Node",
    "NodeMessage",
    "Operation",
    "OperationMetadata",
    "RuntimeVersion",
    "Tpu",
    "TpuV1",
    "TpuV2Alpha1",
    "copy_message",
    "locations_pb2",
    "operations_pb2",
]

# The classes are made at import time from descriptors, so the type checker sees Any.
NodeMessage = Any


class _Raw:
    """The plain messages of an API version, by name: `Tpu.Node` is the class behind its wrapper."""

    def __init__(self, version: ModuleType) -> None:
        self._version = version

    def __getattr__(self, name: str) -> Any:
        return getattr(self._version, name).pb()


Tpu = _Raw(tpu_v2)
TpuV1 = _Raw(tpu_v1)
TpuV2Alpha1 = _Raw(tpu_v2alpha1)
Node: Any = Tpu.Node
AcceleratorType: Any = Tpu.AcceleratorType
RuntimeVersion: Any = Tpu.RuntimeVersion
OperationMetadata: Any = Tpu.OperationMetadata
Operation: Any = operations_pb2.Operation
Location: Any = locations_pb2.Location
Empty: Any = empty_pb2.Empty


def copy_message(message: NodeMessage) -> NodeMessage:
    """Return a copy: a message that a caller keeps must not change with the world."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
