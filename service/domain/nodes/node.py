"""A node: one requested TPU, from the request to its verified end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.pricing.driver_vm import UserVm


class Asked(StrEnum):
    """What callers and policies want of a node."""

    PRESENT = "present"
    STOPPED = "stopped"
    ABSENT = "absent"


class NodeState(StrEnum):
    """The states that users see: Google's names, and our own REQUESTED, QUEUED, FAILED and DELETED.

    A state that Google adds later is kept as its text and raises no exception, so fields that hold
    a state are typed `str`.
    """

    REQUESTED = "REQUESTED"
    QUEUED = "QUEUED"
    CREATING = "CREATING"
    READY = "READY"
    RESTARTING = "RESTARTING"
    REIMAGING = "REIMAGING"
    DELETING = "DELETING"
    REPAIRING = "REPAIRING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    PREEMPTED = "PREEMPTED"
    TERMINATED = "TERMINATED"
    HIDING = "HIDING"
    HIDDEN = "HIDDEN"
    UNHIDING = "UNHIDING"
    UNKNOWN = "UNKNOWN"
    FAILED = "FAILED"
    DELETED = "DELETED"


ENDED = frozenset({NodeState.FAILED, NodeState.DELETED})
"""Final states of a node."""

LOST = frozenset({NodeState.PREEMPTED, NodeState.TERMINATED})
"""States in which the hardware is gone for good but the name and the quota are still in use."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one worker; `external_ip` is empty if it has none."""

    ip: str
    port: int
    external_ip: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a node in the cloud."""

    project: str
    zone: str
    cloud_id: str

    @property
    def path(self) -> str:
        """Google's full name of the node."""
        return f"projects/{self.project}/locations/{self.zone}/nodes/{self.cloud_id}"

    @property
    def queue_path(self) -> str:
        """Google's full name of the queued resource with the same id."""
        return f"projects/{self.project}/locations/{self.zone}/queuedResources/{self.cloud_id}"

    @classmethod
    def from_path(cls, path: str) -> Place:
        """The place in a full name. Raises ValueError if it is not a node's full name."""
        parts = path.split("/")
        if len(parts) != 6 or parts[::2] != ["projects", "locations", "nodes"]:
            raise ValueError(f"{path!r} is not the full name of a node")
        return cls(parts[1], parts[3], parts[5])


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """When a node counts as idle: seconds without activity, seconds of grace, and the action.

    `also` names what else counts as idle for the action; see `service.domain.idle.policy.Waste`.
    """

    after_seconds: int = 3_600
    grace_seconds: int = 900
    action: str = "notify"
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hardware:
    """One possible type of a node, with the properties of the type and the zones to try."""

    accelerator_type: str
    generation: str
    chips: int
    hosts: int
    topology: str
    runtime_version: str
    stoppable: bool
    zones: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The resolved request: every open question is answered before it is stored.

    `zones` are the candidates in the order in which they are tried. `stoppable` says whether the
    cloud can stop the node. `queued` asks through a queued resource. `slices` is the number of
    equal slices; `chips` and `hosts` are totals over all slices. `valid_until` is the instant after
    which the node is no longer needed, unless it is READY by then. `reservation` names the
    reservation of its capacity; empty for any reservation of the project.

    `alternatives` are all types, in the order in which they are tried, if the request allows
    several; the other fields describe the present type. A type comes more than once if other types
    lie between its zones in that order. `cheapest_first` says that the service chose the order, and
    not the caller.

    `reimage_from` is the version of a legacy TPU Node before a reimage; empty once the reimage is
    done. `vm` is the user's own virtual machine that drives such a node, if its cost is charged
    with the node. `supervisor` says that the workers run the supervisor, which jobs need.
    """

    project: str
    accelerator_type: str
    generation: str
    chips: int
    hosts: int
    zones: tuple[str, ...]
    runtime_version: str
    provisioning_model: ProvisioningModel = ProvisioningModel.ON_DEMAND
    topology: str = ""
    network: str = ""
    subnetwork: str = ""
    external_ip: bool = False
    service_account: str = ""
    data_disks: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    startup_script: str = ""
    ttl_seconds: int | None = None
    max_wait_seconds: int | None = None
    idle: IdlePolicy | None = None
    recreate_on_preemption: bool = False
    stoppable: bool = False
    architecture: Architecture = Architecture.VM
    queued: bool = False
    slices: int = 1
    valid_until: int | None = None
    reservation: str = ""
    alternatives: tuple[Hardware, ...] = ()
    cheapest_first: bool = False
    reimage_from: str = ""
    vm: UserVm | None = None
    supervisor: bool = False

    @property
    def hardware(self) -> Hardware:
        """The present hardware of the node."""
        return Hardware(
            accelerator_type=self.accelerator_type,
            generation=self.generation,
            chips=self.chips,
            hosts=self.hosts,
            topology=self.topology,
            runtime_version=self.runtime_version,
            stoppable=self.stoppable,
            zones=self.zones,
        )

    @property
    def possible_hardware(self) -> tuple[Hardware, ...]:
        """All hardware that the request allows, in the order in which it is tried."""
        return self.alternatives or (self.hardware,)

    @property
    def accelerator_types(self) -> tuple[str, ...]:
        """Every type that the request allows, in the order in which they are tried."""
        return tuple(
            dict.fromkeys(hardware.accelerator_type for hardware in self.possible_hardware)
        )

    def made_of(self, hardware: Hardware) -> NodeSpec:
        """The same request with other hardware. `zones` stay: they are the zones of all types."""
        return replace(
            self,
            accelerator_type=hardware.accelerator_type,
            generation=hardware.generation,
            chips=hardware.chips,
            hosts=hardware.hosts,
            topology=hardware.topology,
            runtime_version=hardware.runtime_version,
            stoppable=hardware.stoppable,
        )


@dataclass(frozen=True, slots=True)
class CloudNode:
    """One node as the cloud showed it. Times are whole UTC seconds."""

    place: Place
    uid: str
    state: str
    health: str = ""
    health_description: str = ""
    accelerator_type: str = ""
    runtime_version: str = ""
    provisioning_model: ProvisioningModel = ProvisioningModel.ON_DEMAND
    labels: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[Endpoint, ...] = ()
    created_at: int | None = None
    queued_resource: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """The last seen state of one slice of several; the fields mean the same as those of a node."""

    cloud_uid: str = ""
    state: str = NodeState.REQUESTED
    seen_at: int = 0
    health: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    up_since: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node as stored: what is asked for, what was seen, and when it is polled next.

    `attempt` counts placements. `sent_at` is when the create of the present attempt was sent; None
    if there is no attempt, and so nothing in the cloud. `unanswered_at` is when a create was last
    sent whose answer was lost and that may still take effect; None if every create was answered
    (`service.domain.lifecycle.in_flight` has the table of both). `operation` names the cloud's
    long-running operation that was started last. `next_try_at` is None if nothing is to be done
    until something changes. `seen_at` is when `state` was last known to hold. `ready_at` is the
    first READY of all attempts, `up_since` the first READY of the present attempt.

    `replacing` says that the cloud resources are deleted to make room for a new attempt, and
    `replacing_since` since when; `gave_up` says that the final state will be FAILED.
    `queue_state` is the last seen state of its queued resource, empty until it was seen;
    `queue_since` is when that state was first seen. `slices_seen` is the last seen state of each
    slice, in their order; empty for a node of one slice. `alarmed_at` is when a human was told that
    the node does not reach the state that was asked for. `missed_at` is since when the lists have
    lacked the node or a slice of it, and `misses` counts these lists, up to the two that matter;
    None and 0 while the lists show all of it.

    `kept_until` and `kept_because` are the last keep that was requested (None: no keep; see
    `service.domain.nodes.keep`). `ends_after_keep` is why the node ends after its keep.
    """

    id: str
    name: str
    owner: str
    team: str
    labels: Mapping[str, str]
    spec: NodeSpec
    created_at: int
    asked: Asked = Asked.PRESENT
    state: str = NodeState.REQUESTED
    state_since: int = 0
    seen_at: int = 0
    attempt: int = 0
    zone: str = ""
    cloud_id: str = ""
    cloud_uid: str = ""
    health: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    operation: str = ""
    sent_at: int | None = None
    unanswered_at: int | None = None
    ready_at: int | None = None
    up_since: int | None = None
    replacing: bool = False
    replacing_since: int | None = None
    gave_up: bool = False
    delete_requested_at: int | None = None
    delete_reason: str = ""
    ended_at: int | None = None
    last_error: str = ""
    tries: int = 0
    next_try_at: int | None = None
    queue_state: str = ""
    queue_since: int | None = None
    alarmed_at: int | None = None
    slices_seen: tuple[Slice, ...] = ()
    missed_at: int | None = None
    misses: int = 0
    kept_until: int | None = None
    kept_because: str = ""
    ends_after_keep: str = ""
    version: int = 0

    @property
    def place(self) -> Place:
        """The location of the present attempt in the cloud; meaningful if `attempt` is not 0."""
        return Place(self.spec.project, self.zone, self.cloud_id)

    @property
    def was_shown(self) -> bool:
        """Whether the cloud has shown the present attempt, or any slice of it, as a node."""
        return bool(self.cloud_uid) or any(piece.cloud_uid for piece in self.slices_seen)

    @property
    def has_ended(self) -> bool:
        """Whether the node is in a final state."""
        return self.state in ENDED

    @property
    def deletes_at(self) -> int | None:
        """When the time to live expires, counted from the first READY, as Google counts it."""
        if self.spec.ttl_seconds is None or self.ready_at is None:
            return None
        return self.ready_at + self.spec.ttl_seconds

    def with_nothing_missed(self) -> Node:
        """The same node with its missed counter reset, because the lists show all of it again."""
        return replace(self, missed_at=None, misses=0)

    def with_state(self, state: str, now: int) -> Node:
        """The same node, seen in `state` at `now`; `state_since` changes only if the state does."""
        since = self.state_since if state == self.state else now
        return replace(self, state=state, state_since=since, seen_at=now)
