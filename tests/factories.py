"""Domain objects with sensible fields; a test says only what matters to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.domain.budgets.budget import Budget, Period, Scope
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.ids import new_id
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Evidence, Usage
from service.domain.money import NANOS
from service.domain.nodes.node import CloudNode, Node, NodeSpec, NodeState, Place
from service.domain.nodes.operation import Operation
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.price_book import Price, PriceBook, Sku
from tests.hands import NOON

PROJECT = "lab"
ZONE = "us-west4-a"


def request(**changes: Any) -> RequestedNode:
    """A request that will be granted: eight v5e chips in one zone."""
    base = RequestedNode(project=PROJECT, accelerator_type="v5litepod-8", zone=ZONE, team="vision")
    return replace(base, **changes)


def spec(**changes: Any) -> NodeSpec:
    """What that request means."""
    base = NodeSpec(
        project=PROJECT,
        accelerator_type="v5litepod-8",
        generation="v5e",
        chips=8,
        hosts=1,
        zones=(ZONE,),
        runtime_version="v2-alpha-tpuv5-lite",
        topology="2x4",
        stoppable=True,
    )
    return replace(base, **changes)


def node(**changes: Any) -> Node:
    """A node that was just asked for; fields of its spec may be named as well."""
    of_spec = {k: changes.pop(k) for k in list(changes) if k in NodeSpec.__dataclass_fields__}
    node_id = changes.pop("id", None) or new_id()
    base = Node(
        id=node_id,
        name=f"n-{node_id[-6:]}",
        owner="ada",
        team="vision",
        labels={},
        spec=spec(**of_spec),
        created_at=NOON,
        state_since=NOON,
        seen_at=NOON,
        zone=ZONE,
        next_try_at=NOON,
    )
    return replace(base, **changes)


def sent(**changes: Any) -> Node:
    """A node whose first placement is under way."""
    defaults: dict[str, Any] = {
        "attempt": 1,
        "cloud_id": "n-1",
        "sent_at": NOON,
        "operation": "operation-create",
        "state": NodeState.CREATING,
    }
    return node(**(defaults | changes))


def sight(of: Node, **changes: Any) -> CloudNode:
    """What the cloud shows of a node of ours."""
    base = CloudNode(
        place=of.place if of.sent_at is not None else Place(PROJECT, ZONE, "n-1"),
        uid=of.cloud_uid or "7001",
        state=NodeState.READY,
        labels={"steward-id": of.id},
        created_at=NOON,
    )
    return replace(base, **changes)


def operation(verb: str = "create", **changes: Any) -> Operation:
    """An operation that is still running."""
    base = Operation(
        name=f"operation-{verb}",
        verb=verb,
        target=f"projects/{PROJECT}/locations/{ZONE}/nodes/n-1",
        created_at=NOON,
    )
    return replace(base, **changes)


def usage(**changes: Any) -> Usage:
    """Eight v5e chips on demand, running since noon, both ends as exact as can be."""
    base = Usage(
        id=new_id(),
        node_id="node-1",
        project=PROJECT,
        zone=ZONE,
        accelerator_type="v5litepod-8",
        chips=8,
        sku=Sku("v5e", ProvisioningModel.ON_DEMAND, "us-west4", single_device=True),
        start=NOON,
        start_hi=NOON,
        start_evidence=Evidence.OPERATION,
        posted_until=NOON,
    )
    after = replace(base, **changes)
    if "start" in changes and "start_hi" not in changes:
        after = replace(after, start_hi=after.start)
    if "start" in changes and "posted_until" not in changes:
        after = replace(after, posted_until=after.start)
    return after


def attribution(**changes: Any) -> Attribution:
    """Ada's of the vision team, from the beginning."""
    return replace(Attribution("node-1", owner="ada", team="vision"), **changes)


def price(nanos: int = 1_200_000_000, effective_from: int = 0, **changes: Any) -> Price:
    """A price of v5e on demand in us-west4."""
    base = Price(
        id=f"test/{effective_from}",
        generation="v5e",
        model="on_demand",
        unit="chip_hour",
        region="us-west4",
        nanos=nanos,
        effective_from=effective_from,
        source="a test",
    )
    return replace(base, **changes)


def book(*prices: Price) -> PriceBook:
    """A price book; 1.20 dollars per chip-hour when nothing is said."""
    return PriceBook(prices or (price(),))


def budget(**changes: Any) -> Budget:
    """A hundred dollars a month for the team vision, which only tells."""
    base = Budget(
        id="",
        name="vision monthly",
        scope=Scope(team="vision"),
        amount=100 * NANOS,
        period=Period.MONTH,
        tz="UTC",
        created_at=NOON,
    )
    return replace(base, **changes)
