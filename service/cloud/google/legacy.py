"""The calls that only the v1 API has: create, reimage and list offers of legacy TPU Nodes.

All other calls go through v2, which shows and changes the nodes of both architectures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.cloud import tpu_v1

from service.cloud.google import operations, pages
from service.cloud.google.calls import Future, call_client, zone_path
from service.cloud.google.errors import translate_errors
from service.cloud.google.retries import PATIENT, Allowances
from service.cloud.ports import Operation, Order
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import AlreadyExists, InvalidRequest
from service.domain.nodes.node import Place


class LegacyTpus:
    """The part of `service.cloud.ports.TpuCloud` that uses v1, under the same rules: a create is
    sent once, every call has a timeout, and every error is one of ours."""

    def __init__(self, client: tpu_v1.TpuClient, patience: Allowances = PATIENT) -> None:
        self._client = client
        self._patience = patience

    def create_node(self, order: Order) -> Operation:
        """Create a legacy TPU Node; the request is sent once."""
        request = create_request(order)
        future = call_client(
            self._client.create_node, request, self._patience.create, AlreadyExists
        )
        return operations.from_message(future.operation)

    def reimage_node(self, place: Place, runtime_version: str) -> Operation:
        """Reimage the node with another software version."""
        request = tpu_v1.ReimageNodeRequest(name=place.path, tensorflow_version=runtime_version)
        method: Callable[..., Future] = self._client.reimage_node
        return operations.from_message(call_client(method, request, self._patience.write).operation)

    def runtime_versions(self, project: str, zone: str) -> Sequence[str]:
        """The software versions that the zone offers for legacy TPU Nodes."""
        request = tpu_v1.ListTensorFlowVersionsRequest(
            parent=zone_path(project, zone), page_size=pages.PAGE_SIZE
        )
        found = self._list_pages(self._client.list_tensor_flow_versions, request)
        return [offered.version for page in found for offered in page.tensorflow_versions]

    def accelerator_types(self, project: str, zone: str) -> Sequence[str]:
        """The accelerator types that the zone offers as legacy TPU Nodes."""
        request = tpu_v1.ListAcceleratorTypesRequest(
            parent=zone_path(project, zone), page_size=pages.PAGE_SIZE
        )
        found = self._list_pages(self._client.list_accelerator_types, request)
        return [offered.type_ for page in found for offered in page.accelerator_types]

    def _list_pages(self, method: Callable[..., Any], request: Any) -> Sequence[Any]:
        with translate_errors():
            pager = call_client(method, request, self._patience.offers)
            return list(pages.require_complete(pages.unwrap_pages(pager.pages)))


def create_request(order: Order) -> tpu_v1.CreateNodeRequest:
    """Build the request for an order; Google chooses the addresses.

    Raises InvalidRequest for a provisioning model that this API cannot express.
    """
    spec, place = order.spec, order.place
    model, scheduling = spec.provisioning_model, None
    match model:
        case ProvisioningModel.ON_DEMAND:
            pass
        case ProvisioningModel.PREEMPTIBLE:
            scheduling = tpu_v1.SchedulingConfig(preemptible=True)
        case ProvisioningModel.RESERVED:
            scheduling = tpu_v1.SchedulingConfig(reserved=True)
        case ProvisioningModel.SPOT | ProvisioningModel.FLEX_START:
            raise InvalidRequest(
                f"legacy TPU Nodes are not sold as {model}", provisioning_model=model.value
            )
    node = tpu_v1.Node(
        accelerator_type=spec.accelerator_type,
        tensorflow_version=spec.runtime_version,
        network=spec.network,
        scheduling_config=scheduling,
        labels=dict(order.labels),
    )
    parent = zone_path(place.project, place.zone)
    return tpu_v1.CreateNodeRequest(parent=parent, node_id=place.cloud_id, node=node)
