"""The ports to the cloud: Protocols whose docstrings are the contract.

Every method may raise the errors of `service.domain.errors.CloudError`, and no other error of the
cloud: `CloudUnavailable` whenever the outcome is unknown. No method waits for a long-running
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.domain.catalog.provisioning import Architecture
from service.domain.evidence.audit_log import Termination
from service.domain.idle.signals.signal import Kind
from service.domain.jobs.image import ImageFacts
from service.domain.jobs.log import LogCursor, LogLine, LogPage
from service.domain.nodes.node import CloudNode, NodeSpec, Place
from service.domain.nodes.operation import Operation
from service.domain.nodes.queued_resource import QueuedResource
from service.domain.pricing.skus import SkuFacts

__all__ = [
    "EVERYWHERE",
    "ImageFacts",
    "Inventory",
    "LogCursor",
    "LogLine",
    "LogPage",
    "Operation",
    "OperationHistory",
    "Order",
    "PriceFeed",
    "Queue",
    "Registry",
    "Sample",
    "Sighting",
    "Telemetry",
    "TpuCloud",
    "WorkerLogs",
]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One node in an inventory: a digest of its message, and a function that decodes the message.

    Two sightings with the same digest are equal. A sighting is decoded only after a change, because
    an unchanged fleet of ten thousand nodes must cost next to nothing.
    """

    digest: bytes
    decode: Callable[[], CloudNode]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All nodes of a project at one look, and the unreachable zones.

    `digest` covers the whole list: two lists with the same digest are equal. `sightings` returns
    the nodes by full name; a caller need not call it if the digest is unchanged.
    """

    project: str
    digest: bytes
    sightings: Callable[[], Mapping[str, Sighting]]
    unreachable: frozenset[str]
    pages: int

    def is_reachable(self, zone: str) -> bool:
        """Whether a node absent from this inventory is absent from the zone."""
        return zone not in self.unreachable


EVERYWHERE = "-"
"""All zones, as in Google's resource names."""


@dataclass(frozen=True, slots=True)
class Queue:
    """All queued resources of a project at one look, and the unreachable zones. `digest` and
    `entries` correspond to `digest` and `sightings` of an inventory."""

    project: str
    digest: bytes
    entries: Callable[[], Mapping[str, QueuedResource]]
    unreachable: frozenset[str]
    pages: int

    def is_reachable(self, zone: str) -> bool:
        """Whether a queued resource absent from this list is absent from the zone."""
        return not self.unreachable & {zone, EVERYWHERE}


@dataclass(frozen=True, slots=True)
class Order:
    """The order for one node: its spec, place, name and labels.

    With `spec.queued` the order is for a queued resource of that name, for a node of the same name,
    or for slices with the suffixes -0, -1 and so on. Google itself ends the request if it was not
    granted by `valid_until` (a whole UTC second). `task` is the first task of the supervisors;
    empty for none.
    """

    place: Place
    spec: NodeSpec
    labels: Mapping[str, str]
    valid_until: int | None = None
    task: str = ""


class TpuCloud(Protocol):
    """The Cloud TPU API, with our types."""

    def inventory(self, project: str) -> Inventory:
        """List all nodes of a project in all zones. A failed page fails the whole list."""
        ...

    def get(self, place: Place) -> CloudNode:
        """Read one node. Raises CloudNotFound if the node does not exist."""
        ...

    def metadata(self, place: Place) -> Mapping[str, str]:
        """Read the metadata of one node. Raises CloudNotFound if the node does not exist.

        The metadata has no version: a write may drop what another writer has just written, so a
        writer reads the metadata back afterwards.
        """
        ...

    def create(self, order: Order) -> Operation:
        """Create a node. Raises AlreadyExists if the name is taken, by us or by a stranger.

        The call is never retried inside: after CloudUnavailable the node may or may not appear.
        """
        ...

    def delete(self, place: Place) -> Operation:
        """Delete a node. Raises CloudNotFound if the node does not exist."""
        ...

    def queue(self, project: str) -> Queue:
        """List all queued resources of a project in all zones. A failed page fails the whole
        list."""
        ...

    def queued(self, place: Place) -> QueuedResource:
        """Read one queued resource. Raises CloudNotFound if it does not exist."""
        ...

    def queue_model(self, place: Place) -> str:
        """Read the provisioning model of a queued resource that names no tier: on demand or
        flex-start; empty if the cloud does not say. Raises CloudNotFound."""
        ...

    def dequeue(self, place: Place, *, force: bool) -> Operation:
        """Delete a queued resource; with `force` its nodes are deleted first.

        An accepted deletion may fail later, inside its operation, as it does in PROVISIONING.
        Raises CloudNotFound if the queued resource does not exist.
        """
        ...

    def reimage(self, place: Place, runtime_version: str) -> Operation:
        """Reimage a legacy TPU Node with another software version."""
        ...

    def start(self, place: Place) -> Operation:
        """Start a stopped node."""
        ...

    def stop(self, place: Place) -> Operation:
        """Stop a single-host on-demand node."""
        ...

    def operation(self, name: str) -> Operation:
        """Read one operation. Raises CloudNotFound if the cloud no longer knows it."""
        ...

    def operations(self, project: str, zone: str) -> Sequence[Operation]:
        """List the remembered operations of a zone, in no particular order."""
        ...

    def update_metadata(self, place: Place, metadata: Mapping[str, str]) -> Operation:
        """Replace the node's metadata."""
        ...

    def guest_attributes(self, place: Place, namespace: str) -> Sequence[Mapping[str, str]]:
        """Read the guest attributes of each worker, in order, under `namespace`; empty if no worker
        has written any."""
        ...

    def runtime_versions(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        """List the runtime versions that the zone offers for nodes of that architecture."""
        ...

    def accelerator_types(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        """List the accelerator types that the zone offers for nodes of that architecture."""
        ...


class PriceFeed(Protocol):
    """The public price list of the cloud. It has prices, not availability."""

    def list_skus(self) -> Sequence[SkuFacts]:
        """List all SKUs about TPUs, and SKUs that look like them, each with its current price and
        the start of that price. `service.domain.pricing.skus.read_skus` tells them apart.

        A failed page fails the whole list. The call may take minutes: hold no transaction.
        """
        ...


class OperationHistory(Protocol):
    """The cloud's log of its own operations."""

    def list_terminations(self, project: str, since: int, until: int) -> Sequence[Termination]:
        """List the nodes of a project that the cloud itself terminated in [since, until), as far as
        they are logged by now: entries come late, and some come twice.

        A failed page fails the whole list.
        """
        ...


class WorkerLogs(Protocol):
    """The output of job containers, as the cloud stores it."""

    def read_page(self, project: str, job: str, since: LogCursor, limit: int) -> LogPage:
        """Read the next lines of a job after a cursor, at most `limit`, by time.

        `page.cursor` continues the read. Every line is delivered once, even a line that arrives
        some seconds late. Raises RateLimited with `retry_after` if the log may not be read now: the
        read budget is shared with the audit log.
        """
        ...

    def read_last_lines(self, project: str, job: str, since: int, limit: int) -> Sequence[LogLine]:
        """Read the newest lines of a job since a UTC second, at most `limit`, by time.

        The call is not retried and ends within seconds, because a page waits for it. Raises
        RateLimited as `read_page` does, and CloudError.
        """
        ...


class Sample(NamedTuple):
    """One value of one worker over [start, end), whole UTC seconds. The value is in percent, bytes
    a second, chips, or seconds since the last activity: the maximum over its chips or cores.

    Some metrics identify the worker by Google's id of the node and the worker number, others by the
    instance id; the fields that a metric lacks are empty.
    """

    node_uid: str
    worker: int
    instance_id: str
    start: int
    end: int
    value: float


class Telemetry(Protocol):
    """The cloud's metrics of the workers of a project."""

    def read_samples(self, project: str, kind: Kind, since: int, until: int) -> Sequence[Sample]:
        """Read the points of one signal in (since, until] that are known by now, minute by minute.
        Points come up to some minutes late, in any order. Empty if there is no such metric.

        Raises CloudError if any page fails. The call may take a minute: hold no transaction.
        """
        ...


class Registry(Protocol):
    """The registries that container images are pulled from."""

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """Read the digest and the platforms of an image for `amd64` or `arm64` nodes, within 10 s.

        Raises Rejected for a malformed image name, ImageNotFound, ImageDenied and NoSuchPlatform.
        Raises CloudUnavailable if the registry gives the service no usable answer; the nodes may
        still reach it.
        """
        ...
