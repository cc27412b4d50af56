"""The one way to call Google: always with a timeout, and only with errors of our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from google.longrunning import operations_pb2

from service.cloud.google.errors import translate_errors
from service.cloud.google.retries import Allowance
from service.domain.errors import CloudError, RateLimited

Answer = TypeVar("Answer")
FIELD_MASK = "x-goog-fieldmask"


class Future(Protocol):
    """The client's object for a long-running operation; only its message is used."""

    @property
    def operation(self) -> operations_pb2.Operation: ...


def call_client(
    method: Callable[..., Answer],
    request: Any,
    allowance: Allowance,
    conflict: type[CloudError] = RateLimited,
    fields: Sequence[str] = (),
) -> Answer:
    """Call a method of the client. `conflict` is the error for a 409; see
    `errors.translate_errors`.

    `fields` are the paths of the response that are read. A cloud without this system parameter
    (cloud.google.com/apis/docs/system-parameters) returns the whole response.
    """
    more = {"metadata": ((FIELD_MASK, ",".join(fields)),)} if fields else {}
    with translate_errors(conflict):
        return method(request=request, timeout=allowance.timeout, retry=allowance.retry, **more)


def zone_path(project: str, zone: str) -> str:
    """Google's resource name of a zone of a project; `-` is every zone."""
    return f"projects/{project}/locations/{zone}"
