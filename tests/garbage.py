"""Orphans with sensible fields; a test says only what matters to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.cloud.ports import Inventory, Queue, Sighting
from service.domain.nodes.node import CloudNode, NodeState, Place
from service.domain.nodes.ownership import LABEL_ID, LABEL_INSTALL
from service.domain.nodes.queued_resource import QueuedResource
from service.domain.orphans.fleet_watch import FleetWatch
from service.domain.orphans.orphan import Orphan, OrphanKind, ShownResource
from service.domain.orphans.verdict import KnownAttempt
from tests.factories import PROJECT, ZONE
from tests.hands import NOON

INSTALL = "test"
ID = "019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"
OURS = {LABEL_ID: ID, LABEL_INSTALL: INSTALL}
PERIOD = 15
LONG = 3_600


def shown(cloud_id: str = "run-1", **changes: Any) -> ShownResource:
    """A READY node of ours, made long ago."""
    base = ShownResource(
        place=Place(PROJECT, ZONE, cloud_id),
        queued=False,
        state=NodeState.READY,
        uid="7001",
        accelerator_type="v5litepod-8",
        provisioning_model="on_demand",
        runtime_version="v2-alpha-tpuv5-lite",
        labels=OURS,
        created_at=NOON - LONG,
    )
    return replace(base, **changes)


def attempt(cloud_id: str = "run-1", **changes: Any) -> KnownAttempt:
    """An attempt of ours that is over."""
    base = KnownAttempt(ID, ZONE, cloud_id, slices=1, present=False)
    return replace(base, **changes)


def orphan(**changes: Any) -> Orphan:
    """What the books show as ours and as over, and has been there for an hour."""
    base = Orphan(OrphanKind.OURS, True, shown(), NOON - LONG, NOON - LONG, NOON, looks=2)  # noqa: FBT003
    return replace(base, **changes)


def watch(**changes: Any) -> FleetWatch:
    """A daemon that has watched for an hour, and saw nothing strange."""
    return replace(FleetWatch(NOON - LONG, NOON, sizes=((10, NOON - LONG),)), **changes)


def cloud_node(cloud_id: str = "run-1", **changes: Any) -> CloudNode:
    """The same READY node as the cloud shows it."""
    seen = shown(cloud_id)
    base = CloudNode(
        place=seen.place,
        uid=seen.uid,
        state=seen.state,
        accelerator_type=seen.accelerator_type,
        runtime_version=seen.runtime_version,
        labels=seen.labels,
        created_at=seen.created_at,
    )
    return replace(base, **changes)


def ticket(cloud_id: str = "run-1", **changes: Any) -> QueuedResource:
    """A queued resource of ours, for a node of the same name."""
    place = Place(PROJECT, ZONE, cloud_id)
    base = QueuedResource(place=place, state="SUSPENDED", nodes=(cloud_id,), labels=OURS)
    return replace(base, **changes)


def inventory(*nodes: CloudNode, unreachable: frozenset[str] = frozenset()) -> Inventory:
    """A look at these nodes."""
    sightings = {
        node.place.path: Sighting(repr(node).encode(), lambda node=node: node)  # type: ignore[misc]
        for node in nodes
    }
    return Inventory(PROJECT, repr(nodes).encode(), lambda: sightings, unreachable, pages=1)


def queue(*entries: QueuedResource, unreachable: frozenset[str] = frozenset()) -> Queue:
    """A look at these queued resources."""
    found = {entry.path: entry for entry in entries}
    return Queue(PROJECT, repr(entries).encode(), lambda: found, unreachable, pages=1)
