"""The Cloud TPU API (v2, over gRPC)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf.field_mask_pb2 import FieldMask

from service.cloud.google import nodes, operations, pages, queue
from service.cloud.google.calls import Future, call_client, zone_path
from service.cloud.google.errors import translate_errors
from service.cloud.google.flex import FlexStart
from service.cloud.google.legacy import LegacyTpus
from service.cloud.google.retries import PATIENT, Allowances
from service.cloud.ports import Inventory, Operation, Order, Queue
from service.cloud.rate_limit import Pace, ReportPace
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import (
    AlreadyExists,
    InvalidRequest,
    NotAllowed,
)
from service.domain.nodes.node import CloudNode, Place
from service.domain.nodes.queued_resource import QueuedResource


class GoogleTpus:
    """`service.cloud.ports.TpuCloud` over Google's own client.

    The inventory has legacy TPU Nodes beside TPU VMs: they cost money too.
    """

    def __init__(
        self,
        client: tpu_v2.TpuClient,
        pace: Pace,
        patience: Allowances = PATIENT,
        flex: FlexStart | None = None,
        legacy: LegacyTpus | None = None,
        report_pace: ReportPace | None = None,
    ) -> None:
        self._client = client
        self._pace = pace
        self._patience = patience
        self._flex = flex
        self._legacy = legacy
        self._report_pace = report_pace

    def inventory(self, project: str) -> Inventory:
        """List all nodes of a project in all zones. A failed page fails the whole list."""
        request = tpu_v2.ListNodesRequest(parent=zone_path(project, "-"), page_size=pages.PAGE_SIZE)
        with translate_errors():
            pager = call_client(
                self._client.list_nodes, request, self._patience.listing, fields=pages.INVENTORY
            )
            return pages.build_inventory(project, pages.unwrap_pages(pager.pages))

    def get(self, place: Place) -> CloudNode:
        """Read one node."""
        request = tpu_v2.GetNodeRequest(name=place.path)
        node = call_client(self._client.get_node, request, self._patience.read)
        return nodes.from_message(tpu_v2.Node.pb(node))

    def metadata(self, place: Place) -> Mapping[str, str]:
        """Read the metadata of one node."""
        request = tpu_v2.GetNodeRequest(name=place.path)
        node = call_client(self._client.get_node, request, self._patience.read)
        return dict(tpu_v2.Node.pb(node).metadata)

    def create(self, order: Order) -> Operation:
        """Create a node; the request is sent once. Raises RateLimited before sending anything if
        creates are too fast."""
        if order.spec.queued:
            self._pace.count_create(order.place.project)
            if order.spec.provisioning_model is ProvisioningModel.FLEX_START:
                if self._flex is None:
                    raise NotAllowed("flex-start needs the REST address of the cloud; none is set")
                return self._flex.create_queued_resource(order, self._patience.create)
            queued = queue.create_request(order)
            # The client invents an id of its own if the field exists and is empty.
            queued.request_id = queue.request_id(order.place)
            make = self._client.create_queued_resource
            future = call_client(make, queued, self._patience.create, AlreadyExists)
            return operations.from_message(future.operation)
        if order.spec.architecture is Architecture.NODE:
            self._pace.count_create(order.place.project)
            return self._require_legacy().create_node(order)
        request = nodes.create_request(order)
        self._pace.count_create(order.place.project)
        future = call_client(
            self._client.create_node, request, self._patience.create, AlreadyExists
        )
        return operations.from_message(future.operation)

    def queue(self, project: str) -> Queue:
        """List all queued resources of a project in all zones. A failed page fails the whole
        list."""
        request = tpu_v2.ListQueuedResourcesRequest(
            parent=zone_path(project, "-"), page_size=pages.PAGE_SIZE
        )
        with translate_errors():
            pager = call_client(
                self._client.list_queued_resources,
                request,
                self._patience.listing,
                fields=queue.LISTED,
            )
            return queue.build_queue(project, pages.unwrap_pages(pager.pages))

    def queued(self, place: Place) -> QueuedResource:
        """Read one queued resource."""
        request = tpu_v2.GetQueuedResourceRequest(name=place.queue_path)
        found = call_client(self._client.get_queued_resource, request, self._patience.read)
        return queue.from_message(tpu_v2.QueuedResource.pb(found))

    def queue_model(self, place: Place) -> str:
        """Read the provisioning model of a queued resource that names no tier."""
        return "" if self._flex is None else self._flex.read_model(place, self._patience.read)

    def dequeue(self, place: Place, *, force: bool) -> Operation:
        """Delete a queued resource; with `force` its nodes are deleted first."""
        request = tpu_v2.DeleteQueuedResourceRequest(name=place.queue_path, force=force)
        return self._send_change(self._client.delete_queued_resource, request)

    def delete(self, place: Place) -> Operation:
        """Delete a node."""
        request = tpu_v2.DeleteNodeRequest(name=place.path)
        return self._send_change(self._client.delete_node, request)

    def start(self, place: Place) -> Operation:
        """Start a stopped node."""
        return self._send_change(self._client.start_node, tpu_v2.StartNodeRequest(name=place.path))

    def stop(self, place: Place) -> Operation:
        """Stop a single-host on-demand node."""
        return self._send_change(self._client.stop_node, tpu_v2.StopNodeRequest(name=place.path))

    def update_metadata(self, place: Place, metadata: Mapping[str, str]) -> Operation:
        """Replace the node's metadata."""
        request = tpu_v2.UpdateNodeRequest(
            node=tpu_v2.Node(name=place.path, metadata=dict(metadata)),
            update_mask=FieldMask(paths=["metadata"]),
        )
        return self._send_change(self._client.update_node, request)

    def operation(self, name: str) -> Operation:
        """Read one operation."""
        request = operations_pb2.GetOperationRequest(name=name)
        found = call_client(self._client.get_operation, request, self._patience.read)
        return operations.from_message(found)

    def operations(self, project: str, zone: str) -> Sequence[Operation]:
        """List the remembered operations of a zone; operations without a creation time are left
        out."""
        return [
            operations.from_message(found)
            for page in pages.all_of(self._list_operation_pages(zone_path(project, zone)))
            for found in page.operations
            if operations.has_begun(found)
        ]

    def guest_attributes(self, place: Place, namespace: str) -> Sequence[Mapping[str, str]]:
        """Read the guest attributes of each worker, in order, under `namespace`; empty if no worker
        has written any: Google refuses the request as invalid then.

        Raises RateLimited before sending anything if this machine was read too often.
        """
        request = tpu_v2.GetGuestAttributesRequest(name=place.path, query_path=f"{namespace}/")
        if self._report_pace is not None:
            self._report_pace.count_read(place.path)
        try:
            found = call_client(self._client.get_guest_attributes, request, self._patience.reports)
        except InvalidRequest as error:
            if "GuestAttributes" in str(error) and "not found" in str(error):
                return []
            raise
        workers = tpu_v2.GetGuestAttributesResponse.pb(found).guest_attributes
        return [{item.key: item.value for item in worker.query_value.items} for worker in workers]

    def reimage(self, place: Place, runtime_version: str) -> Operation:
        """Reimage a legacy TPU Node with another software version."""
        return self._require_legacy().reimage_node(place, runtime_version)

    def _require_legacy(self) -> LegacyTpus:
        if self._legacy is None:
            raise NotAllowed("legacy TPU Nodes need the client of API version 1; none is set")
        return self._legacy

    def runtime_versions(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        """List the runtime versions that the zone offers for nodes of that architecture."""
        if architecture is Architecture.NODE:
            return self._require_legacy().runtime_versions(project, zone)
        request = tpu_v2.ListRuntimeVersionsRequest(
            parent=zone_path(project, zone), page_size=pages.PAGE_SIZE
        )
        with translate_errors():
            pager = call_client(self._client.list_runtime_versions, request, self._patience.offers)
            found = pages.require_complete(pages.unwrap_pages(pager.pages))
            return [offered.version for page in found for offered in page.runtime_versions]

    def accelerator_types(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        """List the accelerator types that the zone offers for nodes of that architecture."""
        if architecture is Architecture.NODE:
            return self._require_legacy().accelerator_types(project, zone)
        request = tpu_v2.ListAcceleratorTypesRequest(
            parent=zone_path(project, zone), page_size=pages.PAGE_SIZE
        )
        with translate_errors():
            pager = call_client(self._client.list_accelerator_types, request, self._patience.offers)
            found = pages.require_complete(pages.unwrap_pages(pager.pages))
            return [offered.type_ for page in found for offered in page.accelerator_types]

    def _send_change(self, method: Callable[..., Future], request: Any) -> Operation:
        return operations.from_message(call_client(method, request, self._patience.write).operation)

    def _list_operation_pages(self, name: str) -> Iterator[operations_pb2.ListOperationsResponse]:
        """Yield the pages of operations, for which the client has no pager."""
        token = ""
        while True:
            request = operations_pb2.ListOperationsRequest(
                name=name, page_size=pages.PAGE_SIZE, page_token=token
            )
            page = call_client(self._client.list_operations, request, self._patience.listing)
            yield page
            token = page.next_page_token
            if not token:
                return
