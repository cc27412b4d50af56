"""Flex-start: only REST v2alpha1 can express its queued resource, so two calls are plain HTTP. All
later calls go through the client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Protocol

from google.api_core import exceptions
from google.protobuf.json_format import MessageToDict
from google.rpc import status_pb2

from service.cloud.google import nodes, queue
from service.cloud.google.errors import from_status, translate_errors
from service.cloud.google.retries import Allowance
from service.cloud.ports import Operation, Order
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.provisioning_modes import MAX_FLEX_SECONDS
from service.domain.clock import to_rfc3339
from service.domain.errors import AlreadyExists, CloudNotFound, CloudUnavailable
from service.domain.nodes.node import Place


class Session(Protocol):
    """The used part of `requests.Session`; google.auth's session adds the credentials."""

    def post(self, url: str, *, params: Mapping[str, str], json: object, timeout: float) -> Any: ...

    def get(self, url: str, *, params: Mapping[str, str], timeout: float) -> Any: ...


class FlexStart:
    """Creates and reads flex-start nodes at `address`, such as `https://tpu.googleapis.com`.

    The session is made at the first request: most installations never need it.
    """

    def __init__(self, make_session: Callable[[], Session], address: str) -> None:
        self._session = cache(make_session)
        self._address = address

    def create_queued_resource(self, order: Order, allowance: Allowance) -> Operation:
        """Send the request once; its id makes a repetition the same request. Raises
        AlreadyExists."""
        place = order.place
        parent = f"projects/{place.project}/locations/{place.zone}"
        with translate_errors(AlreadyExists):
            answer = self._ask_cloud(
                lambda session: session.post(
                    f"{self._address}/v2alpha1/{parent}/queuedResources",
                    params={
                        "queuedResourceId": place.cloud_id,
                        "requestId": queue.request_id(place),
                    },
                    json=build_request_body(order),
                    timeout=allowance.timeout,
                )
            )
            return _parse_operation(answer)

    def read_model(self, place: Place, allowance: Allowance) -> str:
        """Read the provisioning model of a queued resource that names no tier; empty if Google's
        name of the model is unknown. Raises CloudNotFound."""
        with translate_errors(CloudNotFound):
            answer = self._ask_cloud(
                lambda session: session.get(
                    f"{self._address}/v2alpha1/{place.queue_path}",
                    params={"fields": "provisioningModel"},
                    timeout=allowance.timeout,
                )
            )
            try:
                name = answer.json().get("provisioningModel", "STANDARD")
            except (ValueError, AttributeError) as error:
                raise CloudUnavailable(
                    f"the cloud's answer is no queued resource: {error!r}"[:1_000]
                ) from error
            return _MODELS.get(name, "") if isinstance(name, str) else ""

    def _ask_cloud(self, ask: Callable[[Session], Any]) -> Any:
        try:
            answer = ask(self._session())
        except OSError as error:  # the errors of `requests` are OSErrors
            raise CloudUnavailable(f"the cloud could not be reached: {error}"[:1_000]) from error
        if answer.status_code != 200:
            raise exceptions.from_http_response(answer)  # type: ignore[no-untyped-call]
        return answer


def build_request_body(order: Order) -> dict[str, object]:
    """The queued resource as JSON of v2alpha1."""
    spec, place = order.spec, order.place
    message = nodes.build_node(order)
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
        wanted["queueingPolicy"] = {"validUntilTime": to_rfc3339(order.valid_until)}
    return wanted


_MODELS = {
    "FLEX_START": ProvisioningModel.FLEX_START,
    "SPOT": ProvisioningModel.SPOT,
    "RESERVATION_BOUND": ProvisioningModel.RESERVED,
    "STANDARD": ProvisioningModel.ON_DEMAND,
    "PROVISIONING_MODEL_UNSPECIFIED": ProvisioningModel.ON_DEMAND,
}
"""By Google's name; a missing name is STANDARD."""


def _parse_operation(answer: Any) -> Operation:
    """The operation in an answer. Raises CloudUnavailable if the answer is malformed or has no
    creation time: the outcome of the request is unknown then."""
    try:
        shown = answer.json()
        about, is_done = shown.get("metadata", {}), shown.get("done", False)
        status = None
        if is_done and "error" in shown:
            failure = shown["error"]
            code, message = int(failure.get("code", 2)), str(failure.get("message", ""))
            status = status_pb2.Status(code=code, message=message)
        return Operation(
            name=str(shown["name"]),
            verb=str(about.get("verb", "create")),
            target=str(about.get("target", "")),
            created_at=int(datetime.fromisoformat(about["createTime"]).timestamp()),
            done=bool(is_done),
            error=None if status is None else from_status(status),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CloudUnavailable(f"the cloud's answer is no operation: {error!r}"[:1_000]) from error
