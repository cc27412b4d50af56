"""Each error of Google's means one of ours, which says what to do next."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.auth import exceptions as auth
from google.rpc import error_details_pb2, status_pb2

from service.cloud.google.errors import MAX_TEXT, from_exception, from_status, translate_errors
from service.domain.errors import (
    AlreadyExists,
    CapacityUnavailable,
    CloudError,
    CloudNotFound,
    CloudUnavailable,
    InvalidRequest,
    NotAllowed,
    QuotaExceeded,
    RateLimited,
)

NO_CAPACITY = (
    'There is no more capacity in the zone "europe-west4-a"; you can try in another zone where'
    " Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions)"
    " [EID: 0x1bc8f9d790be9142]"
)
NO_RESERVED = (
    "Insufficient reserved capacity. Contact customer support to increase your reservation."
    " [EID: 0x1]"
)
QUOTA = (
    "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded."
    " Limit: 0 in region us-east5."
)
OLD_QUOTA = (
    "Quota 'TPUV2sPreemptiblePodPerProjectPerZoneForTPUAPI' exhausted."
    " Limit 32 in zone europe-west4-a"
)
PER_MINUTE = "Maximum number of CreateNode requests per minute per project was reached"
RATE_QUOTA = (
    "Quota exceeded for quota metric 'Create requests' and limit 'Create requests per minute' of"
    " service 'tpu.googleapis.com' for consumer 'project_number:1'."
)
LOST = (
    "Cloud TPU received a bad request. update is not supported while in state PREEMPTED [EID: 0x2]"
)
CLOSED_QUEUE = (
    "User does not have permission to submit requests into this queue for accelerator type v5p in"
    " location us-east5-a"
)
LOCATION = "Permission denied on 'locations/us-central2-b' (or it may not exist)."


class LostCall(grpc.RpcError):
    """A raw error of gRPC that says nothing at all."""


class Call(grpc.RpcError):
    """A raw error of gRPC as its stubs raise it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.NOT_FOUND

    def details(self) -> str:
        return "no such node"

    def trailing_metadata(self) -> tuple[()]:
        return ()


EXCEPTIONS: list[tuple[Exception, type[CloudError]]] = [
    (exceptions.ResourceExhausted(QUOTA), QuotaExceeded),
    (exceptions.TooManyRequests(QUOTA), QuotaExceeded),
    (exceptions.ResourceExhausted(OLD_QUOTA), QuotaExceeded),
    (
        exceptions.ResourceExhausted(
            "Request refused.",
            details=[
                error_details_pb2.QuotaFailure(
                    violations=[error_details_pb2.QuotaFailure.Violation(description="v6e cores")]
                )
            ],
        ),
        QuotaExceeded,
    ),
    (
        exceptions.TooManyRequests(
            "Request refused.",
            details=[
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [{"description": "v6e cores"}],
                }
            ],
        ),
        QuotaExceeded,
    ),
    (exceptions.ResourceExhausted(PER_MINUTE), RateLimited),
    (exceptions.ResourceExhausted(RATE_QUOTA), RateLimited),
    (exceptions.TooManyRequests("Limit tpu.googleapis.com/qps/create exceeded"), RateLimited),
    (exceptions.TooManyRequests("slow down"), RateLimited),
    (exceptions.ResourceExhausted(NO_CAPACITY), CapacityUnavailable),
    (exceptions.FailedPrecondition(NO_RESERVED), CapacityUnavailable),
    (exceptions.InvalidArgument("The field is wrong"), InvalidRequest),
    (exceptions.BadRequest("POST https://tpu/v2: wrong"), InvalidRequest),
    (exceptions.FailedPrecondition("Stop is not supported for pods"), InvalidRequest),
    (exceptions.OutOfRange("beyond the end"), InvalidRequest),
    (exceptions.InvalidArgument(LOST), CapacityUnavailable),
    (exceptions.PermissionDenied(LOCATION), NotAllowed),
    (exceptions.Forbidden("Cloud TPU API is disabled"), NotAllowed),
    (exceptions.PermissionDenied(CLOSED_QUEUE), CapacityUnavailable),
    (exceptions.Unauthenticated("invalid credentials"), NotAllowed),
    (exceptions.Unauthorized("invalid credentials"), NotAllowed),
    (exceptions.NotFound("Resource was not found"), CloudNotFound),
    (exceptions.Aborted("concurrent change"), RateLimited),
    (exceptions.Conflict("an update is in flight"), RateLimited),
    (exceptions.ServiceUnavailable("failed to connect to all addresses"), CloudUnavailable),
    (exceptions.DeadlineExceeded("Deadline Exceeded"), CloudUnavailable),
    (exceptions.InternalServerError("an internal error has occurred"), CloudUnavailable),
    (exceptions.BadGateway("bad gateway"), CloudUnavailable),
    (exceptions.MethodNotImplemented("Method not found!"), CloudUnavailable),
    (exceptions.Unknown("what was that"), CloudUnavailable),
    (exceptions.Cancelled("Channel closed!"), CloudUnavailable),
    (exceptions.MovedPermanently("elsewhere"), CloudUnavailable),
    (exceptions.GoogleAPICallError("something else"), CloudUnavailable),
    (exceptions.RetryError("Timeout of 29.0s exceeded", None), CloudUnavailable),
    (
        exceptions.RetryError("Timeout of 29.0s exceeded", exceptions.ServiceUnavailable("down")),
        CloudUnavailable,
    ),
    (
        exceptions.ServiceUnavailable(
            "Getting metadata from plugin failed with error: ('invalid_grant: Bad Request', {})"
        ),
        NotAllowed,
    ),
    (
        exceptions.ServiceUnavailable(
            "Getting metadata from plugin failed with error: Reauthentication is needed."
        ),
        NotAllowed,
    ),
    (
        exceptions.ServiceUnavailable(
            "Getting metadata from plugin failed with error: HTTPSConnectionPool timed out"
        ),
        CloudUnavailable,
    ),
    (auth.RefreshError("invalid_grant: Token has been expired or revoked."), NotAllowed),
    (auth.DefaultCredentialsError("no credentials"), NotAllowed),
    (auth.InvalidValue("a ValueError too, but one about credentials"), NotAllowed),
    (auth.RefreshError("Internal Failure", retryable=True), CloudUnavailable),
    (auth.TransportError("connection reset"), CloudUnavailable),
    (LostCall(), CloudUnavailable),
    (Call(), CloudNotFound),
    (ValueError("'bad' does not match the pattern of a parent"), InvalidRequest),
    (ValueError("Cannot invoke RPC on closed channel!"), CloudUnavailable),
]


@pytest.mark.parametrize(("error", "ours"), EXCEPTIONS)
def test_each_exception_means_one_of_ours(error, ours):
    assert type(from_exception(error)) is ours
    with pytest.raises(ours) as raised, translate_errors():
        raise error
    assert raised.value.__cause__ is error


STATUSES: list[tuple[int, str, type[CloudError]]] = [
    (8, NO_CAPACITY, CapacityUnavailable),
    (8, NO_RESERVED, CapacityUnavailable),
    (9, NO_RESERVED, CapacityUnavailable),
    (8, QUOTA, QuotaExceeded),
    (8, OLD_QUOTA, QuotaExceeded),
    (8, PER_MINUTE, RateLimited),
    (8, "Resource exhausted", CapacityUnavailable),
    (13, "an internal error has occurred", CloudUnavailable),
    (3, "The requested accelerator configuration could not be found", InvalidRequest),
    (
        3,
        'FLEX_START provisioning model is not supported for accelerator type "v6e-4"',
        InvalidRequest,
    ),
    (3, LOST, CapacityUnavailable),
    (9, "The node is in use", InvalidRequest),
    (7, CLOSED_QUEUE, CapacityUnavailable),
    (7, LOCATION, NotAllowed),
    (16, "who are you", NotAllowed),
    (14, "unavailable", CloudUnavailable),
    (4, "deadline exceeded", CloudUnavailable),
    (5, "the subnetwork was not found", CloudNotFound),
    (6, "already exists", AlreadyExists),
    (1, "the operation was cancelled", CloudUnavailable),
    (10, "aborted", RateLimited),
    (2, "unknown", CloudUnavailable),
    (0, "", CloudUnavailable),
    (99, "a code of tomorrow", CloudUnavailable),
]


@pytest.mark.parametrize(("code", "text", "ours"), STATUSES)
def test_the_error_of_an_operation_is_told_apart_by_code_and_text(code, text, ours):
    error = from_status(status_pb2.Status(code=code, message=text))
    assert type(error) is ours
    assert str(error) == text or not text


@pytest.mark.parametrize("error", [exceptions.AlreadyExists("taken"), exceptions.Conflict("taken")])
def test_a_conflict_is_what_the_caller_says_it_is(error):
    assert type(from_exception(error, AlreadyExists)) is AlreadyExists
    assert type(from_exception(error)) is RateLimited


def test_an_aborted_create_does_not_say_that_the_name_is_taken():
    assert type(from_exception(exceptions.Aborted("try again"), AlreadyExists)) is RateLimited


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            QUOTA,
            {
                "limit": "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI",
                "allowed": 0,
                "region": "us-east5",
            },
        ),
        (
            OLD_QUOTA,
            {
                "limit": "TPUV2sPreemptiblePodPerProjectPerZoneForTPUAPI",
                "allowed": 32,
                "zone": "europe-west4-a",
            },
        ),
        ("Quota exhausted", {}),
        ("Quota exhausted. Limit: 32.0 in region us-east5.", {"allowed": 32, "region": "us-east5"}),
        ("Quota exhausted. Limit: 1,536 in zone us-east5-a.", {"zone": "us-east5-a"}),
        ("Quota exhausted. Limit: 0.5 in zone us-east5-a.", {"zone": "us-east5-a"}),
    ],
)
def test_an_exhausted_quota_says_which_one_and_where(text, facts):
    assert from_exception(exceptions.ResourceExhausted(text)).facts == facts


def test_a_quota_failure_names_the_limit_that_the_message_leaves_out():
    violation = error_details_pb2.QuotaFailure.Violation(subject="projects/lab", description=QUOTA)
    failure = error_details_pb2.QuotaFailure(violations=[violation])
    error = from_exception(exceptions.ResourceExhausted("Refused.", details=[failure]))
    assert error.facts["region"] == "us-east5"
    assert str(error) == "Refused."


def test_a_rate_limit_says_when_to_come_back_if_google_does():
    wait = error_details_pb2.RetryInfo()
    wait.retry_delay.seconds = 37
    error = from_exception(exceptions.ResourceExhausted(PER_MINUTE, details=[wait]))
    assert error.facts == {"retry_after": 37}


def test_a_refusal_keeps_googles_reason():
    info = error_details_pb2.ErrorInfo(reason="LOCATION_POLICY_VIOLATED")
    error = from_exception(exceptions.PermissionDenied(LOCATION, error_info=info))
    assert (str(error), error.facts) == (LOCATION, {"reason": "LOCATION_POLICY_VIOLATED"})


def test_missing_credentials_come_with_the_command_to_run():
    error = from_exception(auth.RefreshError("expired"))
    assert error.facts == {"run": "gcloud auth application-default login"}


@pytest.mark.parametrize(
    "error",
    [
        exceptions.InvalidArgument("x" * 1_000_000),
        exceptions.AlreadyExists("x" * 1_000_000),
        ValueError("x" * 1_000_000),
        auth.RefreshError("x" * 1_000_000),
        LostCall("x" * 1_000_000),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_text_is_too_long_to_keep(error):
    assert len(str(from_exception(error))) <= MAX_TEXT


def test_an_error_of_ours_passes_through_as_it_is():
    error = RateLimited("wait", retry_after=3)
    with pytest.raises(RateLimited) as raised, translate_errors():
        raise error
    assert raised.value is error


def test_a_defect_of_ours_is_not_taken_for_an_answer_of_the_cloud():
    def defect() -> Any:
        raise KeyError("zone")

    with pytest.raises(KeyError), translate_errors():
        defect()
