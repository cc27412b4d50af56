"""The one way to call Google: never without a timeout, and never with an error that is not ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from google.longrunning import operations_pb2

from service.cloud.google.errors import translated
from service.cloud.google.retries import Allowance
from service.domain.errors import CloudError, RateLimited

Answer = TypeVar("Answer")


class Future(Protocol):
    """What the client makes of a long-running operation; we only take the message out of it."""

    @property
    def operation(self) -> operations_pb2.Operation: ...


def ask(
    method: Callable[..., Answer],
    request: Any,
    allowance: Allowance,
    conflict: type[CloudError] = RateLimited,
) -> Answer:
    """Call a method of the client; `conflict` is what a 409 means, see `errors.translated`."""
    with translated(conflict):
        return method(request=request, timeout=allowance.timeout, retry=allowance.retry)


def within(project: str, zone: str) -> str:
    """Google's name of a zone of a project; `-` is every zone."""
    return f"projects/{project}/locations/{zone}"
