"""Google's messages and our orders as tests need them: something plausible, with overrides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.rpc import status_pb2

from service.cloud.ports import Order
from service.domain.nodes.node import NodeSpec, Place

PLACE = Place("lab", "us-east5-b", "trainer-1a2b3c4d")
OPERATION = "projects/lab/locations/us-east5-b/operations/operation-1764000000000-a-b-c"
CREATED_AT = 1_764_000_000

SPEC = NodeSpec(
    project="lab",
    accelerator_type="v6e-8",
    generation="v6e",
    chips=8,
    hosts=1,
    zones=("us-east5-b",),
    runtime_version="v2-alpha-tpuv6e",
)

RawNode = tpu_v2.Node.pb()
RawPage = tpu_v2.ListNodesResponse.pb()


def order(**changes: Any) -> Order:
    """An order for the node at PLACE; `changes` are fields of its spec."""
    return Order(PLACE, replace(SPEC, **changes), {"steward-id": "n1", "team": "vision"})


def node(**fields: Any) -> Any:
    """A READY node as the cloud shows it, as a raw message."""
    shown = {
        "name": PLACE.path,
        "id": 7_000_000_000_000_000_001,
        "state": 2,
        "health": 1,
        "accelerator_type": "v6e-8",
        "runtime_version": "v2-alpha-tpuv6e",
        "create_time": {"seconds": CREATED_AT, "nanos": 999_999_999},
        "labels": {"steward-id": "n1"},
        "network_endpoints": [
            {"ip_address": "10.0.0.2", "port": 8470, "access_config": {"external_ip": "34.1.2.3"}}
        ],
    }
    return RawNode(**{**shown, **fields})


def page(
    *nodes: Any, token: str = "", unreachable: tuple[str, ...] = ()
) -> tpu_v2.ListNodesResponse:
    """One page of an inventory, as the client hands it over."""
    return tpu_v2.ListNodesResponse.wrap(
        RawPage(nodes=nodes, next_page_token=token, unreachable=unreachable)
    )


class Pager:
    """What the client makes of a list: pages that are fetched when they are reached."""

    def __init__(self, *pages: Any) -> None:
        self._pages = pages

    @property
    def pages(self) -> Any:
        """The pages; one that is an exception is raised when its turn comes."""
        for page in self._pages:
            if isinstance(page, Exception):
                raise page
            yield page


def operation(
    verb: str = "create",
    *,
    ended_at: int | None = None,
    error: status_pb2.Status | None = None,
    metadata: Any = None,
) -> operations_pb2.Operation:
    """A long-running operation: open, or ended at an instant, or failed."""
    about = tpu_v2.OperationMetadata.pb()(
        verb=verb, target=PLACE.path, create_time={"seconds": CREATED_AT, "nanos": 500}
    )
    if ended_at is not None:
        about.end_time.seconds = ended_at
        about.end_time.nanos = 999_999_999
    done = ended_at is not None or error is not None
    message = operations_pb2.Operation(name=OPERATION, done=done, error=error)
    message.metadata.Pack(about if metadata is None else metadata)
    return message
