"""Long-running operations: decodes Google's messages."""

from __future__ import annotations

from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf.message import DecodeError

from service.cloud.google.errors import from_status
from service.domain.errors import CloudUnavailable
from service.domain.nodes.operation import Operation

_METADATA = tpu_v2.OperationMetadata.pb()


def from_message(operation: operations_pb2.Operation) -> Operation:
    """Decode an operation, without waiting for it.

    Raises CloudUnavailable if the operation has no creation time: charges are based on that time,
    so none may be invented.
    """
    about = _unpack_metadata(operation)
    if not about.HasField("create_time"):
        raise CloudUnavailable(
            f"the cloud does not say when the operation {operation.name[:200]!r} began"
        )
    failed = operation.done and operation.HasField("error")
    return Operation(
        name=operation.name,
        verb=about.verb,
        target=about.target,
        created_at=about.create_time.seconds,
        ended_at=about.end_time.seconds if about.HasField("end_time") else None,
        done=operation.done,
        error=from_status(operation.error) if failed else None,
    )


def has_begun(operation: operations_pb2.Operation) -> bool:
    """Whether the operation has a creation time, so that it can be decoded."""
    return bool(_unpack_metadata(operation).HasField("create_time"))


def _unpack_metadata(operation: operations_pb2.Operation) -> Any:
    """The OperationMetadata, which has the same fields in every version of the API.

    (A zone also has operations that other clients started through v1 and v2alpha1.)
    """
    packed = operation.metadata
    if not packed.type_url.endswith(".OperationMetadata"):
        return _METADATA()
    try:
        return _METADATA.FromString(packed.value)
    except DecodeError:
        return _METADATA()
