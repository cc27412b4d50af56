"""The cloud as the rest of the house sees it: Protocols whose docstrings are the contract.

Every method may raise the errors of `service.domain.errors.CloudError`, and nothing else of the
cloud's: `CloudUnavailable` whenever the outcome is not known. No method blocks on a long-running
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.domain.catalog.provisioning import Architecture
from service.domain.evidence.audit_log import Termination
from service.domain.idle.signal import Kind
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
    """One node in an inventory: a digest of all that was shown, and how to read it.

    Two sightings with the same digest show the same; decoding is left until something differs,
    because a fleet of ten thousand that does not change must cost next to nothing.
    """

    digest: bytes
    decode: Callable[[], CloudNode]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every node of a project at one look, and the zones it says nothing about.

    `digest` is over all that was shown: two looks with the same one show the same. `sightings`
    reads the nodes out, by full name; a caller for whom nothing has changed need not.
    """

    project: str
    digest: bytes
    sightings: Callable[[], Mapping[str, Sighting]]
    unreachable: frozenset[str]
    pages: int

    def knows(self, zone: str) -> bool:
        """Whether absence from this inventory says anything about that zone."""
        return zone not in self.unreachable


EVERYWHERE = "-"
"""In place of a zone, as in Google's names."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Every queued resource of a project at one look, by full name, and the zones it says nothing
    about. `digest` and `entries` are to it what `digest` and `sightings` are to an inventory."""

    project: str
    digest: bytes
    entries: Callable[[], Mapping[str, QueuedResource]]
    unreachable: frozenset[str]
    pages: int

    def knows(self, zone: str) -> bool:
        """Whether absence from this list says anything about that zone."""
        return not self.unreachable & {zone, EVERYWHERE}


@dataclass(frozen=True, slots=True)
class Order:
    """What is sent to create one node: the spec, where, under which name, with which labels.

    With `spec.queued` it is a queued resource of that name, for a node of the same name, or for
    slices that have the name with -0, -1 and so on behind it; Google itself gives it up when it
    was not granted by `valid_until` (a whole UTC second). `task` is what its supervisors are to do
    first; empty for nothing.
    """

    place: Place
    spec: NodeSpec
    labels: Mapping[str, str]
    valid_until: int | None = None
    task: str = ""


class TpuCloud(Protocol):
    """The Cloud TPU API in our words."""

    def inventory(self, project: str) -> Inventory:
        """All nodes of a project over all zones. One page that fails fails the whole."""
        ...

    def get(self, place: Place) -> CloudNode:
        """One node, now. Raises CloudNotFound when the cloud says that it does not exist."""
        ...

    def metadata(self, place: Place) -> Mapping[str, str]:
        """The metadata of one node, read now. Raises CloudNotFound when there is no such node.

        The cloud keeps no version of it: whoever replaces the map may drop what another has just
        written, so a writer reads it back afterwards.
        """
        ...

    def create(self, order: Order) -> Operation:
        """Ask for a node. Raises AlreadyExists when the name is taken, by us or by a stranger.

        Never retried inside: after CloudUnavailable the node may or may not come to be.
        """
        ...

    def delete(self, place: Place) -> Operation:
        """Ask for the end of a node. Raises CloudNotFound when there is nothing to delete."""
        ...

    def queue(self, project: str) -> Queue:
        """All queued resources of a project over all zones. One page that fails fails the whole."""
        ...

    def queued(self, place: Place) -> QueuedResource:
        """One queued resource, now. Raises CloudNotFound when the cloud says there is none."""
        ...

    def queue_model(self, place: Place) -> str:
        """How the nodes of a queued resource that names no tier are bought: on demand or by
        flex-start; empty where the cloud does not say. Raises CloudNotFound."""
        ...

    def dequeue(self, place: Place, *, force: bool) -> Operation:
        """Ask for the end of a queued resource, with `force` of its nodes first.

        It may be accepted and fail later, inside its operation: in PROVISIONING it does. Raises
        CloudNotFound when there is nothing to delete.
        """
        ...

    def reimage(self, place: Place, runtime_version: str) -> Operation:
        """Ask for a legacy TPU Node to be made anew with another software version."""
        ...

    def start(self, place: Place) -> Operation:
        """Ask for a stopped node to run again."""
        ...

    def stop(self, place: Place) -> Operation:
        """Ask for a single-host on-demand node to stop."""
        ...

    def operation(self, name: str) -> Operation:
        """One operation, now. Raises CloudNotFound when the cloud no longer knows it."""
        ...

    def operations(self, project: str, zone: str) -> Sequence[Operation]:
        """What the cloud still remembers of the operations in a zone, in no particular order."""
        ...

    def update_metadata(self, place: Place, metadata: Mapping[str, str]) -> Operation:
        """Replace the node's metadata."""
        ...

    def guest_attributes(self, place: Place, namespace: str) -> Sequence[Mapping[str, str]]:
        """What each worker, in order, has written under `namespace`; empty where nothing was."""
        ...

    def runtime_versions(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        """The runtime versions that the zone offers for nodes of that architecture."""
        ...

    def accelerator_types(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        """The accelerator types that the zone offers as nodes of that architecture."""
        ...


class PriceFeed(Protocol):
    """The public price list of the cloud. It says what things cost, not what is to be had."""

    def skus(self) -> Sequence[SkuFacts]:
        """Every SKU that is about TPUs, each with the price in force now and since when, and with
        all that looks like one: `service.domain.pricing.skus.read` tells them apart.

        One page that fails fails the whole. It may take minutes, so nobody holds a transaction.
        """
        ...


class OperationHistory(Protocol):
    """What the cloud has written down of its own doings, for all who come late."""

    def terminations(self, project: str, since: int, until: int) -> Sequence[Termination]:
        """Every node of a project that the cloud itself took away in [since, until), as far as is
        written down by now: entries come late, and some come twice.

        One page that fails fails the whole.
        """
        ...


class WorkerLogs(Protocol):
    """What the containers of jobs print, as the cloud keeps it."""

    def read(self, project: str, job: str, since: LogCursor, limit: int) -> LogPage:
        """The next lines of a job from a cursor on, at most `limit`, by time.

        `page.cursor` leads on. Every line is delivered once, also a line that arrives some seconds
        late. Raises RateLimited with `retry_after` when the log may not be read now: the budget of
        reads is shared with the audit log.
        """
        ...

    def last(self, project: str, job: str, since: int, limit: int) -> Sequence[LogLine]:
        """The newest lines of a job from a UTC second on, at most `limit`, by time.

        One call that is not tried again and ends within seconds: a page waits for it. Raises
        RateLimited as `read` does, and CloudError.
        """
        ...


class Sample(NamedTuple):
    """One value of one worker over [start, end), whole UTC seconds: in percent, bytes a second,
    chips, or seconds since the last activity, the most of all its chips or cores.

    Some metrics name the worker by Google's id of the node and its number there, others by the id
    of its instance; the names that a metric does not have are empty.
    """

    node_uid: str
    worker: int
    instance_id: str
    start: int
    end: int
    value: float


class Telemetry(Protocol):
    """What the cloud measures of the workers of a project."""

    def samples(self, project: str, kind: Kind, since: int, until: int) -> Sequence[Sample]:
        """Everything that is known by now of one signal in (since, until], minute by minute; points
        come up to some minutes late, in any order. Empty where there is no such metric.

        Raises CloudError when any page fails. The call may take a minute: hold no transaction.
        """
        ...


class Registry(Protocol):
    """The registries that container images are pulled from."""

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """The digest and the platforms of an image for nodes of `amd64` or `arm64`, within 10 s.

        Raises Rejected for what is no name of an image, ImageNotFound, ImageDenied and
        NoSuchPlatform; CloudUnavailable when the registry gives the service no usable answer, which
        says nothing about the nodes: they may reach it.
        """
        ...
