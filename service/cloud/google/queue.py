"""Queued resources: decodes Google's messages, and builds create requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from google.cloud import tpu_v2
from google.protobuf.timestamp_pb2 import Timestamp

from service.cloud.google import nodes, pages
from service.cloud.google.errors import from_status
from service.cloud.ports import Order, Queue
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.nodes.node import Place
from service.domain.nodes.queued_resource import QueuedResource

RawQueue = Any
"""The protobuf class behind `tpu_v2.QueuedResource`; it has no static type."""

_STATE = tpu_v2.QueuedResourceState.pb().DESCRIPTOR
_STATES = {
    n: value.name for n, value in _STATE.enum_types_by_name["State"].values_by_number.items()
}
_INITIATORS = {
    n: value.name
    for n, value in _STATE.enum_types_by_name["StateInitiator"].values_by_number.items()
}
READ = (
    "name",
    "state",
    "createTime",
    "tpu.nodeSpec.nodeId",
    "tpu.nodeSpec.multisliceParams",
    "tpu.nodeSpec.node.labels",
    "tpu.nodeSpec.node.acceleratorType",
    "tpu.nodeSpec.node.schedulingConfig",
    "spot",
    "guaranteed",
)
"""The fields that `from_message` reads, without the metadata of the requested nodes."""
LISTED = (*(f"queuedResources.{field}" for field in READ), "nextPageToken", "unreachable")
"""The fields of a page that are read."""

_MAX_NAME = 200


def from_message(queue: RawQueue) -> QueuedResource:
    """Decode a queued resource. Never raises."""
    state, specs = queue.state, list(queue.tpu.node_spec)
    failed = state.WhichOneof("state_data") == "failed_data" and state.failed_data.HasField("error")
    first = specs[0].node if specs else None
    parts = queue.name.split("/")
    if len(parts) == 6 and parts[::2] == ["projects", "locations", "queuedResources"]:
        place = Place(parts[1], parts[3], parts[5])
    else:  # a malformed name is shown in place of an id
        place = Place("", "", queue.name[:_MAX_NAME])
    if queue.HasField("spot"):
        model: str = ProvisioningModel.SPOT
    elif queue.HasField("guaranteed"):
        model = ProvisioningModel.RESERVED
    else:
        model = nodes.read_model(first.scheduling_config) if first is not None else ""
        # Neither the queued resource nor its node names a model.
        model = "" if model == ProvisioningModel.ON_DEMAND else model
    names: list[str] = []
    for spec in specs:
        many = spec.multislice_params
        if many.node_count:
            count = min(many.node_count, 1_000)
            names += (f"{many.node_id_prefix}-{number}" for number in range(count))
        else:
            names.append(spec.node_id[:_MAX_NAME])
    return QueuedResource(
        place=place,
        state=_STATES.get(state.state, f"STATE_{state.state}"),
        initiator=_INITIATORS.get(state.state_initiator, ""),
        error=from_status(state.failed_data.error) if failed else None,
        nodes=tuple(names),
        labels={} if first is None else nodes.read_labels(first),
        accelerator_type="" if first is None else nodes.last_part(first.accelerator_type),
        created_at=queue.create_time.seconds if queue.HasField("create_time") else None,
        provisioning_model=model,
    )


def build_queue(project: str, found: Iterable[Any]) -> Queue:
    """All queued resources on the pages (raw ListQueuedResourcesResponse), not yet decoded."""
    shown = list(pages.all_of(found))
    unreachable = {pages.zone_of(entry) for page in shown for entry in page.unreachable}
    seal = blake2b(digest_size=16)
    for page in shown:
        page.ClearField("next_page_token")
        seal.update(page.SerializeToString(deterministic=True))

    def read_entries() -> Mapping[str, QueuedResource]:
        return {
            queue.name: from_message(queue) for page in shown for queue in page.queued_resources
        }

    return Queue(project, seal.digest(), read_entries, frozenset(unreachable), len(shown))


def create_request(order: Order) -> tpu_v2.CreateQueuedResourceRequest:
    """Build the request for an order. Its request id is derived from the name, which is never used
    again: the same order sent twice is one request."""
    spec, place = order.spec, order.place
    parent = f"projects/{place.project}/locations/{place.zone}"
    asked = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node=nodes.build_node(order))
    if spec.slices > 1:
        asked.multislice_params = tpu_v2.QueuedResource.Tpu.NodeSpec.MultisliceParams(
            node_count=spec.slices, node_id_prefix=place.cloud_id
        )
    else:
        asked.node_id = place.cloud_id
    wanted = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[asked]))
    if spec.provisioning_model is ProvisioningModel.SPOT:
        wanted.spot = tpu_v2.QueuedResource.Spot()
    if spec.provisioning_model is ProvisioningModel.RESERVED:
        wanted.guaranteed = tpu_v2.QueuedResource.Guaranteed()
        wanted.reservation_name = reservation_path(order)
    if order.valid_until is not None:
        until = Timestamp(seconds=order.valid_until)
        wanted.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(valid_until_time=until)
    return tpu_v2.CreateQueuedResourceRequest(
        parent=parent, queued_resource_id=place.cloud_id, queued_resource=wanted
    )


def request_id(place: Place) -> str:
    """The id by which Google recognises a repeated request."""
    return str(uuid5(NAMESPACE_URL, place.queue_path))


def reservation_path(order: Order) -> str:
    """The full name of the reservation; `-` stands for any reservation of the project in the
    zone."""
    named, place = order.spec.reservation, order.place
    if "/" in named:
        return named
    return f"projects/{place.project}/locations/{place.zone}/reservations/{named or '-'}"
