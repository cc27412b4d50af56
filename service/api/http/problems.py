"""Answers to errors: `application/problem+json` (RFC 9457), by one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.types import Scope

from service.api.http.validation_errors import complaints_of
from service.domain import errors

MEDIA_TYPE = "application/problem+json"
MAX_BODY_BYTES = 1024 * 1024
"""Largest body. The largest sensible one has a startup script of 256 KiB."""

BODY_LIMIT = "steward.body_limit"
"""The key of a request's scope for the largest size of its body, in bytes."""

HELP = "/problems/"
"""Path of the pages of problems. Each kind has a page under its slug."""

OTHER = "http-status"
"""Page of the statuses that have no kind of their own."""

_TYPES = "urn:tpu-steward:problem:"
_BARE = "http-"
_LONGEST_DETAIL = 2_000
_LONGEST_PATH = 200

log = structlog.get_logger(__name__)


class Complaint(BaseModel):
    """One field, and what to do about it."""

    field: str = Field(examples=["ttl_seconds"])
    message: str = Field(examples=["should be greater than 0"])


class Problem(BaseModel):
    """What went wrong and what to do about it; some problems carry more facts than these."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=[f"{_TYPES}not-offered"])
    title: str = Field(examples=["Not offered in this zone"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["v5p-8 is not offered in us-west4-a"])
    instance: str = Field(description="The path of the request.", examples=["/v1/nodes"])
    help: str = Field(
        description="The address of the page of the manual that says what to do next.",
        examples=["/problems/not-offered"],
    )
    errors: list[Complaint] | None = Field(default=None, description="What is wrong, by field.")


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem: its status, the end of its type, its title, and the seconds until a retry
    if a retry may help."""

    status: int
    slug: str
    title: str
    retry_after: int | None = None

    @property
    def help(self) -> str:
        """Path of the page that describes the next step."""
        return f"{HELP}{OTHER if self.slug.startswith(_BARE) else self.slug}"


INTERNAL = ProblemKind(500, "internal-error", "Internal error")
INVALID = ProblemKind(422, "invalid-request", "Invalid request")
MALFORMED = ProblemKind(400, "malformed-body", "Malformed request body")
WRONG_MEDIA_TYPE = ProblemKind(415, "unsupported-media-type", "Unsupported media type")
TOO_LARGE = ProblemKind(413, "body-too-large", "Request body too large")
STALE = ProblemKind(412, "stale-version", "Changed since it was read")

KINDS: Mapping[type[errors.StewardError], ProblemKind] = {
    errors.NotFound: ProblemKind(404, "not-found", "Not found"),
    errors.Conflict: ProblemKind(409, "conflict", "Conflict with the current state"),
    errors.StaleVersion: ProblemKind(409, "stale-version", "Concurrent change"),
    errors.LeaseLost: ProblemKind(409, "lease-lost", "Lease held by another daemon"),
    errors.Rejected: ProblemKind(422, "rejected", "Invalid request"),
    errors.UnknownAcceleratorType: ProblemKind(
        422, "unknown-accelerator-type", "Unknown accelerator type"
    ),
    errors.NotOffered: ProblemKind(422, "not-offered", "Not offered in this zone"),
    errors.RuntimeMismatch: ProblemKind(422, "runtime-mismatch", "Runtime version not compatible"),
    errors.QuotaTooSmall: ProblemKind(422, "quota-too-small", "Quota too small"),
    errors.ImageNotFound: ProblemKind(422, "image-not-found", "Image not found"),
    errors.ImageDenied: ProblemKind(422, "image-denied", "Access to the image denied"),
    errors.NoSuchPlatform: ProblemKind(422, "no-such-platform", "Image not built for the platform"),
    errors.BudgetExceeded: ProblemKind(403, "budget-exceeded", "Budget exceeded"),
    errors.TokenRefused: ProblemKind(403, "token-refused", "Token not valid for this request"),
    errors.CloudError: ProblemKind(502, "cloud-error", "Cloud error"),
    errors.CapacityUnavailable: ProblemKind(
        503, "capacity-unavailable", "No capacity available", 60
    ),
    errors.QuotaExceeded: ProblemKind(503, "quota-exceeded", "Project quota exceeded", 600),
    errors.RateLimited: ProblemKind(429, "rate-limited", "Rate limit exceeded", 10),
    errors.CloudUnavailable: ProblemKind(503, "cloud-unavailable", "Cloud unavailable", 10),
    errors.NotAllowed: ProblemKind(502, "cloud-denied", "Credentials denied by the cloud"),
    errors.InvalidRequest: ProblemKind(502, "cloud-refused", "Request refused by the cloud"),
    errors.AlreadyExists: ProblemKind(502, "cloud-name-taken", "Name already in use in the cloud"),
    errors.CloudNotFound: ProblemKind(502, "cloud-not-found", "Not found in the cloud"),
    errors.StoreUnavailable: ProblemKind(503, "store-unavailable", "Database unavailable", 5),
}

BY_STATUS = {
    400: MALFORMED,
    404: ProblemKind(404, "not-found", "Not found"),
    405: ProblemKind(405, "method-not-allowed", "Method not allowed"),
    408: ProblemKind(408, "body-stalled", "Request body timed out"),
    413: TOO_LARGE,
}

_TITLES = {
    400: "The body or the address cannot be read",
    401: "No token, or the wrong one",
    403: "Over budget, sent by a page of another site, or the token does not allow this",
    404: "Not found",
    408: "Request body timed out",
    409: "Conflict with the current state",
    412: "Changed since you looked",
    413: "The body is too large",
    415: "Not JSON",
    421: "Without a token, the service answers as localhost only",
    422: "Invalid request",
    429: "Too many at once; Retry-After says when",
    431: "The headers are too large",
    500: "The service failed",
    502: "Google failed, or refuses the service",
    503: "Not available now; Retry-After says when",
}


def make_problem(
    scope: Scope,
    kind: ProblemKind,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    facts: Mapping[str, object] | None = None,
) -> Response:
    """The answer to a request with a problem of this kind."""
    document = members_of(kind, scope["path"], detail, facts or {})
    sent = dict(headers or {})
    if kind.retry_after is not None:
        sent["Retry-After"] = str(kind.retry_after)
    # ASCII, so that text with lone surrogates can be sent too.
    body = json.dumps(document, default=str, separators=(",", ":"))
    return Response(body, kind.status, sent, MEDIA_TYPE)


def members_of(
    kind: ProblemKind, path: str, detail: str, facts: Mapping[str, object]
) -> dict[str, object]:
    """The problem document. Facts never replace the members that every problem has."""
    members = {
        "type": f"{_TYPES}{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail[:_LONGEST_DETAIL],
        "instance": path[:_LONGEST_PATH],
        "help": kind.help,
    }
    return {**members, **facts, **members}


def may_answer(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route, for its documentation. A route with 413 has a body, which can
    also time out: 408."""
    possible = {*statuses, 408} if 413 in statuses else set(statuses)
    return {
        status: {"model": Problem, "description": _TITLES[status]} for status in sorted(possible)
    }


def too_large(scope: Scope) -> Response:
    """The answer to a body above the limit."""
    limit = scope.get(BODY_LIMIT, MAX_BODY_BYTES)
    size = "1 MiB" if limit == MAX_BODY_BYTES else f"{limit // 1_000_000} MB"
    detail = f"a body has at most {limit} bytes ({size}); send less"
    return make_problem(scope, TOO_LARGE, detail, facts={"limit_bytes": limit})


def kind_of(error: errors.StewardError) -> ProblemKind:
    """The kind of an error: that of its class, or of the nearest class above it."""
    return next((KINDS[base] for base in type(error).__mro__ if base in KINDS), INTERNAL)


async def _answer_steward_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.StewardError)
    kind = kind_of(error)
    if isinstance(error, errors.StaleVersion) and "if-match" in request.headers:
        kind = STALE
    wait = error.facts.get("retry_after")
    if isinstance(wait, int):
        kind = replace(kind, retry_after=wait)
    if kind.status >= 500:
        log.warning("not answered", problem=kind.slug, error=str(error)[:_LONGEST_DETAIL])
    if kind is INTERNAL:
        return internal_error(request.scope)
    return make_problem(request.scope, kind, str(error), facts=error.facts)


def internal_error(scope: Scope) -> Response:
    """The answer to an error of the service. The log has the error, the answer has not."""
    return make_problem(scope, INTERNAL, "see the service log for this X-Request-Id")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    scope, status = request.scope, error.status_code
    kind = BY_STATUS.get(status) or ProblemKind(status, f"{_BARE}{status}", error.detail)
    headers = dict(error.headers or {})
    detail = error.detail
    match status:
        case 400:
            detail = "the body is not JSON in UTF-8, or it is nested too deeply"
        case 404:
            detail = "no resource has this path; GET /openapi.json lists the paths"
        case 405:
            there = [
                (route.path or "", route.methods)
                for route in iter_route_contexts(request.app.routes)
                if route.methods and route.path_regex.match(scope["path"])
            ]
            # For `/nodes/x:stop` only the methods of the verb are allowed, although the path also
            # matches a node named `x:stop`.
            verbs = [methods for path, methods in there if "}:" in path]
            allowed = set().union(*(verbs or (methods for _, methods in there)))
            allowed |= {"HEAD"} if "GET" in allowed else set()
            headers["Allow"] = ", ".join(sorted(allowed))
            detail = f"{request.method[:20]} is not allowed here; use {headers['Allow']}"
        case 408:
            detail = "the request body arrived too slowly; send the request again"
        case 413:
            return too_large(scope)
        case _:
            pass
    return make_problem(scope, kind, detail, headers=headers)


async def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        where, why = first["loc"][-1], first.get("ctx", {}).get("error", "")
        detail = f"the body is not JSON: {why} at character {where}"
        return make_problem(request.scope, MALFORMED, detail)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = media_type == "application/json" or media_type.endswith("+json")
    if tuple(first["loc"]) == ("body",) and not is_json:
        detail = "send a JSON object, with the header Content-Type: application/json"
        return make_problem(request.scope, WRONG_MEDIA_TYPE, detail)
    found = complaints_of(error.errors(), request.scope.get("endpoint"))
    rest = len(error.errors()) - 1
    detail = f"{found[0]['field']}: {found[0]['message']}" + (f" (and {rest} more)" if rest else "")
    return make_problem(request.scope, INVALID, detail, facts={"errors": found})


HANDLERS: dict[int | type[Exception], Any] = {
    errors.StewardError: _answer_steward_error,
    HTTPException: _answer_http_error,
    RequestValidationError: _answer_invalid_request,
}
"""Exception handlers for FastAPI. `service.api.http.middleware.Guard` answers other exceptions."""
