"""The translation of Google's errors into our errors, which are named by what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError, TransportError
from google.rpc import code_pb2, status_pb2
from google.rpc.error_details_pb2 import QuotaFailure, RetryInfo

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

MAX_TEXT = 1_000
"""Most characters that are kept of an error text of the cloud."""


@contextmanager
def translate_errors(conflict: type[CloudError] = RateLimited) -> Iterator[None]:
    """Raise the errors of Google's client inside the block as our errors.

    `conflict` is the meaning of a 409. For a create, the name is taken. For every other call,
    another change of the same node is in progress: the call was certainly refused and is right
    later, which is RateLimited (CloudUnavailable would leave its outcome open).
    """
    try:
        yield
    except (exceptions.GoogleAPIError, GoogleAuthError, grpc.RpcError, ValueError) as error:
        raise from_exception(error, conflict) from error


def from_exception(error: Exception, conflict: type[CloudError] = RateLimited) -> CloudError:
    """Translate an exception of Google's libraries.

    The parent classes decide (`Conflict`, `TooManyRequests`): gRPC raises their children, REST
    raises the parents. A ValueError is the client's own refusal of a malformed name, except on a
    channel that was closed meanwhile, as at shutdown: a node must not be given up for that.
    """
    error = _unwrap_error(error)
    if isinstance(error, exceptions.GoogleAPICallError):
        codes = (code for kind, code in _CODES if isinstance(error, kind))
        code = next(codes, code_pb2.UNAVAILABLE)
        text = str(error.message)
        if code == code_pb2.ALREADY_EXISTS:
            return conflict(_clip_text(text))
        return _from_code(code, text, error.details, reason=error.reason or "")
    if isinstance(error, GoogleAuthError):
        return _from_auth(error)
    if isinstance(error, ValueError) and "closed channel" not in str(error):
        return InvalidRequest(_clip_text(f"the client refuses the request: {error}"))
    return CloudUnavailable(_clip_text(f"the cloud could not be reached: {error}"))


def from_status(status: status_pb2.Status) -> CloudError:
    """Translate the error of a long-running operation, by its code and its text."""
    return _from_code(status.code, status.message, exhausted=CapacityUnavailable)


def _unwrap_error(error: Exception) -> Exception:
    """The error of the last attempt, as an exception of google.api_core if possible."""
    if isinstance(error, exceptions.RetryError) and error.cause is not None:
        return _unwrap_error(error.cause)
    if isinstance(error, grpc.RpcError):
        call: exceptions.GoogleAPICallError = exceptions.from_grpc_error(error)  # type: ignore[no-untyped-call]
        return call
    return error


_CODES: tuple[tuple[type[exceptions.GoogleAPICallError], int], ...] = (
    (exceptions.Aborted, code_pb2.ABORTED),
    (exceptions.Conflict, code_pb2.ALREADY_EXISTS),
    (exceptions.TooManyRequests, code_pb2.RESOURCE_EXHAUSTED),
    (exceptions.FailedPrecondition, code_pb2.FAILED_PRECONDITION),
    (exceptions.BadRequest, code_pb2.INVALID_ARGUMENT),
    (exceptions.Unauthorized, code_pb2.UNAUTHENTICATED),
    (exceptions.Forbidden, code_pb2.PERMISSION_DENIED),
    (exceptions.NotFound, code_pb2.NOT_FOUND),
)
"""The code of an exception, by its first parent in this table; UNAVAILABLE for all others."""


def _from_auth(error: GoogleAuthError) -> CloudError:
    if error.retryable or isinstance(error, TransportError):
        return CloudUnavailable(_clip_text(f"Google's sign-in did not answer: {error}"))
    return NotAllowed(
        _clip_text(f"Google refuses the service's own credentials: {error}"),
        run="gcloud auth application-default login",
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """An error with one of `codes` whose text matches `said` means `error`."""

    codes: frozenset[int]
    said: re.Pattern[str]
    error: type[CloudError]


def _make_rule(codes: Iterable[int], said: str, error: type[CloudError]) -> _Rule:
    return _Rule(frozenset(codes), re.compile(said, re.IGNORECASE | re.DOTALL), error)


_RULES = (
    _make_rule([8], r"per ?minute|\bqps\b", RateLimited),
    _make_rule([3, 8, 9], r"no more capacity|insufficient reserved capacity", CapacityUnavailable),
    _make_rule([8], r"quota", QuotaExceeded),
    # The node was lost while it came up, or before it was asked to change: its hardware is gone.
    _make_rule([3, 9], r"not supported while in state PREEMPTED", CapacityUnavailable),
    # A closed queue looks like a missing permission. No human can grant it; another zone may do.
    _make_rule([7], r"permission to submit requests into this queue", CapacityUnavailable),
    # gRPC reports credentials that ran out as a server that cannot be reached.
    _make_rule([14], r"metadata from plugin failed.*(invalid_grant|reauth)", NotAllowed),
    _make_rule([3, 9, 11], r"", InvalidRequest),
    _make_rule([7, 16], r"", NotAllowed),
    _make_rule([5], r"", CloudNotFound),
    _make_rule([6], r"", AlreadyExists),
    _make_rule([10], r"", RateLimited),
)
"""The first matching rule decides; an error without a rule is CloudUnavailable.

So is 13: `an internal error has occurred` was observed for a stock-out of spot v5e, but the text
has many causes, and "look, then try again" is right for each. Users have reported the texts
(reference/cloud-tpu-api.md section 3.3); the numbers are those of google.rpc.Code.
"""


def _from_code(
    code: int,
    text: str,
    details: Iterable[object] = (),
    *,
    exhausted: type[CloudError] = RateLimited,
    reason: str = "",
) -> CloudError:
    """The error for a code of google.rpc and its text. `exhausted` is the error for an 8 without
    further details.

    An immediate 429 without details is a rate limit; an operation that ends so found no hardware.
    """
    details = tuple(details)
    texts = [text]
    for detail in details:  # a message in gRPC, JSON in REST
        if isinstance(detail, QuotaFailure):
            texts += (f"quota: {violation.description}" for violation in detail.violations)
        elif isinstance(detail, Mapping) and str(detail.get("@type")).endswith("QuotaFailure"):
            violations = detail.get("violations", ())
            texts += (f"quota: {violation.get('description', '')}" for violation in violations)
    said = "\n".join(texts)
    fallback = exhausted if code == code_pb2.RESOURCE_EXHAUSTED else CloudUnavailable
    kind = next(
        (rule.error for rule in _RULES if code in rule.codes and rule.said.search(said)), fallback
    )
    facts = _find_facts(kind, said, details)
    if reason:
        facts["reason"] = reason
    return kind(_clip_text(text or f"the cloud gives no reason (code {code})"), **facts)


_LIMIT = re.compile(r"quota(?: limit)? '([^']{1,200})'", re.IGNORECASE)
# A number in another notation must not match by its first digits.
_ALLOWED = re.compile(r"\blimit:? (\d{1,12})(?:\.0+)?(?![,.]?\d)", re.IGNORECASE)
_WHERE = re.compile(r"\bin (region|zone) ([a-z]+-[a-z0-9-]*[a-z0-9])")


def _find_facts(kind: type[CloudError], said: str, details: Iterable[object]) -> dict[str, object]:
    """The facts in the details and the text of the error: a delay, or a quota limit."""
    if kind is RateLimited:
        waits = [d.retry_delay.seconds for d in details if isinstance(d, RetryInfo)]
        return {"retry_after": max(1, *waits)} if waits else {}
    if kind is not QuotaExceeded:
        return {}
    facts: dict[str, object] = {}
    if limit := _LIMIT.search(said):
        facts["limit"] = limit[1]
    if allowed := _ALLOWED.search(said):
        facts["allowed"] = int(allowed[1])
    if where := _WHERE.search(said):
        facts[where[1]] = where[2]
    return facts


def _clip_text(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
