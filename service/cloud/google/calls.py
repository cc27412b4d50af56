"""The one way to call Google: never without a timeout, and never with an error that is not ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from google.longrunning import operations_pb2

from service.cloud.google.errors import translated
from service.cloud.google.retries import Allowance
from service.domain.errors import CloudError, RateLimited

Answer = TypeVar("Answer")
FIELD_MASK = "x-goog-fieldmask"


class Future(Protocol):
    """What the client makes of a long-running operation; we only take the message out of it."""

    @property
    def operation(self) -> operations_pb2.Operation: ...


def ask(
    method: Callable[..., Answer],
    request: Any,
    allowance: Allowance,
    conflict: type[CloudError] = RateLimited,
    fields: Sequence[str] = (),
) -> Answer:
    """Call a method of the client; `conflict` is what a 409 means, see `errors.translated`.

    `fields` are the paths of the response that are read. A cloud that does not know the system
    parameter (cloud.google.com/apis/docs/system-parameters) answers all of it.
    """
    more = {"metadata": ((FIELD_MASK, ",".join(fields)),)} if fields else {}
    with translated(conflict):
        return method(request=request, timeout=allowance.timeout, retry=allowance.retry, **more)


def within(project: str, zone: str) -> str:
    """Google's name of a zone of a project; `-` is every zone."""
    return f"projects/{project}/locations/{zone}"
