"""The error of the emulated API, and the texts that Google's API was seen to send."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import IntEnum

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2


class Code(IntEnum):
    """The numbers of `google.rpc.Code`, which are those of gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


HTTP_STATUS = {
    Code.OK: 200,
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}


MAX_TEXT = 1200
"""In bytes. gRPC may write each byte as three, and repeats the text in the details; a trailer has
8 KiB."""


class ApiError(Exception):
    """An error with Google's text; gRPC and REST encode it differently."""

    def __init__(self, code: Code, message: str, details: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = truncate_text(message)
        self.details = tuple(details)

    @property
    def http_status(self) -> int:
        return HTTP_STATUS[self.code]

    def to_status(self) -> status_pb2.Status:
        """Pack the error as `google.rpc.Status`, as both surfaces and operations carry it."""
        status = status_pb2.Status(code=self.code, message=self.message)
        for detail in self.details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        return status


def truncate_text(text: str) -> str:
    """Return the text, truncated to `MAX_TEXT` bytes: a header limits the length of an error.

    A lone surrogate is replaced. JSON allows a lone surrogate in a text, protobuf does not.
    """
    raw = text.encode(errors="replace")
    if len(raw) <= MAX_TEXT:
        return raw.decode()
    return raw[:MAX_TEXT].decode(errors="ignore") + "..."


def with_eid(text: str) -> str:
    """Append an error id, as Cloud TPU does; the same text has the same id."""
    return f"{text} [EID: 0x{hashlib.sha256(text.encode()).hexdigest()[:16]}]"


def bad_request(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, with_eid(f"Cloud TPU received a bad request. {text}"))


def invalid_argument(text: str) -> ApiError:
    return ApiError(
        Code.INVALID_ARGUMENT, with_eid(f"Cloud TPU received an invalid argument. {text}")
    )


def precondition_failed(text: str) -> ApiError:
    return ApiError(Code.FAILED_PRECONDITION, with_eid(f"Cloud TPU received a bad request. {text}"))


def not_found(resource: str) -> ApiError:
    return ApiError(Code.NOT_FOUND, f"Resource '{resource}' was not found")


def already_exists(resource: str) -> ApiError:
    return ApiError(Code.ALREADY_EXISTS, f"Resource '{resource}' already exists")


def location_denied(zone: str) -> ApiError:
    """Make the error of an unknown zone. As with Google, the text leaves open whether it exists."""
    text = f"Permission denied on 'locations/{zone}' (or it may not exist)."
    info = error_details_pb2.ErrorInfo(
        reason="LOCATION_POLICY_VIOLATED",
        domain="googleapis.com",
        metadata={"service": "tpu.googleapis.com", "location": zone},
    )
    return ApiError(Code.PERMISSION_DENIED, text, [info])


def permission_denied(permission: str, resource: str) -> ApiError:
    """Make the error of a missing permission, as services behind Google's front end do."""
    service = f"{permission.partition('.')[0]}.googleapis.com"
    text = (
        f"Permission '{permission}' denied on resource '//{service}/{resource}'"
        " (or it may not exist)."
    )
    info = error_details_pb2.ErrorInfo(
        reason="IAM_PERMISSION_DENIED",
        domain="iam.googleapis.com",
        metadata={"permission": permission, "resource": truncate_text(resource)},
    )
    return ApiError(Code.PERMISSION_DENIED, text, [info])


def zone_unsupported(zone: str) -> ApiError:
    return bad_request(f'The requested zone "{zone}" is not supported.')


def accelerator_not_in_zone(accelerator: str, zone: str) -> ApiError:
    return bad_request(
        f'The requested accelerator configuration for accelerator type, "{accelerator}", could not'
        f' be found in the zonal accelerator configurations for "{zone}".;'
        f" the accelerator {accelerator} was not found in zone {zone}"
    )


def stocked_out(zone: str) -> ApiError:
    text = (
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud'
        " TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions)"
    )
    return ApiError(Code.RESOURCE_EXHAUSTED, with_eid(text))


def quota_exceeded(limit_name: str, limit: int, where: str, project: str) -> ApiError:
    """Make the error of an exceeded quota; `where` is `region us-east5` or `zone us-east5-a`."""
    text = f"Quota limit '{limit_name}' has been exceeded. Limit: {limit} in {where}."
    violation = error_details_pb2.QuotaFailure.Violation(
        subject=f"project:{project}", description=text
    )
    return ApiError(
        Code.RESOURCE_EXHAUSTED, text, [error_details_pb2.QuotaFailure(violations=[violation])]
    )


def wrong_state(verb: str, state: str) -> ApiError:
    return precondition_failed(f"{verb} is not supported while in state {state}")


def update_in_state(state: str) -> ApiError:
    """Make the error of a preemption during a create or an update: code 3 was seen, not 9."""
    return bad_request(f"update is not supported while in state {state}")
