"""Flex-start: a queued resource that only REST v2alpha1 has words for, so that two calls are plain
HTTP; all that follows goes through the client like everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Protocol

from google.api_core import exceptions
from google.protobuf.json_format import MessageToDict
from google.rpc import status_pb2

from service.cloud.google import nodes, queue
from service.cloud.google.errors import from_status, translated
from service.cloud.google.retries import Allowance
from service.cloud.ports import Operation, Order
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.provisioning_modes import MAX_FLEX_SECONDS
from service.domain.clock import rfc3339
from service.domain.errors import AlreadyExists, CloudNotFound, CloudUnavailable
from service.domain.nodes.node import Place


class Session(Protocol):
    """What is needed of `requests.Session`; with google.auth's it brings the credentials along."""

    def post(self, url: str, *, params: Mapping[str, str], json: object, timeout: float) -> Any: ...

    def get(self, url: str, *, params: Mapping[str, str], timeout: float) -> Any: ...


class FlexStart:
    """Asks for and about flex-start nodes at `address`, such as `https://tpu.googleapis.com`.

    The session is made at the first request: most installations never need it.
    """

    def __init__(self, make_session: Callable[[], Session], address: str) -> None:
        self._session = cache(make_session)
        self._address = address

    def create(self, order: Order, allowance: Allowance) -> Operation:
        """Ask once; the request id makes a second time the same. Raises AlreadyExists."""
        place = order.place
        parent = f"projects/{place.project}/locations/{place.zone}"
        with translated(AlreadyExists):
            return _read(
                self._asked(
                    lambda session: session.post(
                        f"{self._address}/v2alpha1/{parent}/queuedResources",
                        params={
                            "queuedResourceId": place.cloud_id,
                            "requestId": queue.request_id(place),
                        },
                        json=body(order),
                        timeout=allowance.timeout,
                    )
                )
            )

    def model(self, place: Place, allowance: Allowance) -> str:
        """The provisioning model of a queued resource that names no tier; empty where we do not
        know Google's name of it. Raises CloudNotFound."""
        with translated(CloudNotFound):
            answer = self._asked(
                lambda session: session.get(
                    f"{self._address}/v2alpha1/{place.queue_path}",
                    params={"fields": "provisioningModel"},
                    timeout=allowance.timeout,
                )
            )
            return _model(answer)

    def _asked(self, ask: Callable[[Session], Any]) -> Any:
        try:
            answer = ask(self._session())
        except OSError as error:  # what `requests` raises is one
            raise CloudUnavailable(f"the cloud could not be reached: {error}"[:1_000]) from error
        if answer.status_code != 200:
            raise exceptions.from_http_response(answer)  # type: ignore[no-untyped-call]
        return answer


def body(order: Order) -> dict[str, object]:
    """The queued resource as JSON of v2alpha1."""
    spec, place = order.spec, order.place
    message = nodes.message(order)
    node = MessageToDict(type(message).pb(message))
    asked: dict[str, object] = {
        "parent": f"projects/{place.project}/locations/{place.zone}",
        "node": node,
    }
    if spec.slices > 1:
        asked["multiNodeParams"] = {"nodeCount": spec.slices, "nodeIdPrefix": place.cloud_id}
    else:
        asked["nodeId"] = place.cloud_id
    longest = MAX_FLEX_SECONDS if spec.ttl_seconds is None else spec.ttl_seconds
    wanted: dict[str, object] = {
        "tpu": {"nodeSpec": [asked]},
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": f"{longest}s"},
    }
    if order.valid_until is not None:
        wanted["queueingPolicy"] = {"validUntilTime": rfc3339(order.valid_until)}
    return wanted


_MODELS = {
    "FLEX_START": ProvisioningModel.FLEX_START,
    "SPOT": ProvisioningModel.SPOT,
    "RESERVATION_BOUND": ProvisioningModel.RESERVED,
    "STANDARD": ProvisioningModel.ON_DEMAND,
    "PROVISIONING_MODEL_UNSPECIFIED": ProvisioningModel.ON_DEMAND,
}
"""By Google's name; one that is not said is STANDARD."""


def _model(answer: Any) -> str:
    try:
        shown = answer.json()
        said = shown.get("provisioningModel", "STANDARD")
    except (ValueError, AttributeError) as error:
        raise CloudUnavailable(
            f"the cloud's answer is no queued resource: {error!r}"[:1_000]
        ) from (error)
    return _MODELS.get(said, "") if isinstance(said, str) else ""


def _read(answer: Any) -> Operation:
    """The operation in an answer. One that cannot be read leaves open what became of the request,
    and so does one that does not say when it began."""
    try:
        return _operation(answer.json())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CloudUnavailable(f"the cloud's answer is no operation: {error!r}"[:1_000]) from error


def _operation(shown: Mapping[str, Any]) -> Operation:
    about = shown.get("metadata", {})
    failed = shown.get("done", False) and "error" in shown
    return Operation(
        name=str(shown["name"]),
        verb=str(about.get("verb", "create")),
        target=str(about.get("target", "")),
        created_at=_seconds(about["createTime"]),
        done=bool(shown.get("done", False)),
        error=from_status(_status(shown["error"])) if failed else None,
    )


def _status(error: Mapping[str, Any]) -> status_pb2.Status:
    return status_pb2.Status(code=int(error.get("code", 2)), message=str(error.get("message", "")))


def _seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp())
