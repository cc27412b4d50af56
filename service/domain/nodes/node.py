"""A node: one TPU we were asked for, from the wish to its verified end."""

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
    """What users see: Google's names as they are, and four of ours at the ends.

    A state that Google adds tomorrow is kept as the text it came as, never an exception; so fields
    that hold a state are typed `str`.
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
"""States that no node leaves."""

LOST = frozenset({NodeState.PREEMPTED, NodeState.TERMINATED})
"""States in which the hardware is gone for good but the name and the quota are still held."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one worker is reached; `external_ip` is empty when it has none."""

    ip: str
    port: int
    external_ip: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the cloud keeps a node."""

    project: str
    zone: str
    cloud_id: str

    @property
    def path(self) -> str:
        """Google's full name of the node."""
        return f"projects/{self.project}/locations/{self.zone}/nodes/{self.cloud_id}"

    @property
    def queue_path(self) -> str:
        """Google's full name of the queued resource that bears the same id."""
        return f"projects/{self.project}/locations/{self.zone}/queuedResources/{self.cloud_id}"

    @classmethod
    def of(cls, path: str) -> Place:
        """The place that a full name speaks of; ValueError when it is not a node's full name."""
        parts = path.split("/")
        if len(parts) != 6 or parts[::2] != ["projects", "locations", "nodes"]:
            raise ValueError(f"{path!r} is not the full name of a node")
        return cls(parts[1], parts[3], parts[5])


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """When a node counts as idle, and what then: seconds of quiet, seconds of grace, the action.
    `also` names what else counts as idle for the action; see `service.domain.idle.policy.Waste`."""

    after_seconds: int = 3_600
    grace_seconds: int = 900
    action: str = "notify"
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hardware:
    """One of the types that a node may be made of, with all that follows from the type, and the
    zones in which it is tried."""

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
    """The wish, as it was understood: every open question is answered before it is stored.

    `zones` are the candidates in the order in which they are tried. `stoppable` says whether the
    cloud can stop such a node. `queued` asks through a queued resource; `slices` is how many equal
    slices it is made of, and `chips` and `hosts` count those of all of them. `valid_until` is the
    instant after which nobody needs it any more, unless it is READY by then. `reservation` names
    the reservation it is taken from; empty for any of the project's. Where any of several types
    will do, `alternatives` are all of them in the order in which they are tried (a type whose zones
    are not next to each other in it comes more than once), and the type is the present one.
    `cheapest_first` says that the order is ours, and not the caller's own.
    `reimage_from` is the version that a legacy TPU Node had when another was asked for; empty once
    that other is there. `vm` is the user's own virtual machine that drives such a node, where its
    cost is to be a line beside the node's. `supervisor` says that its workers run the supervisor,
    without which they run no jobs.
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
        """What it is made of at present."""
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
    def possible(self) -> tuple[Hardware, ...]:
        """All that it may be made of, in the order in which it is tried."""
        return self.alternatives or (self.hardware,)

    @property
    def accelerator_types(self) -> tuple[str, ...]:
        """Every type that will do, the first to be tried first."""
        return tuple(dict.fromkeys(one.accelerator_type for one in self.possible))

    def made_of(self, hardware: Hardware) -> NodeSpec:
        """The same wish, of other hardware. `zones` stay: they are those of every type."""
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
    """What the cloud was observed to show of one node. Times in whole UTC seconds."""

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
    """What was seen of one slice of several; the fields mean what they mean of a node."""

    cloud_uid: str = ""
    state: str = NodeState.REQUESTED
    seen_at: int = 0
    health: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    up_since: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node as stored: what is asked, what was seen, and when it is looked at next.

    `attempt` counts placements. `sent_at` is when the present one was sent, None while there is
    none and so nothing in the cloud. `unanswered_at` is when a create was last sent that may take
    effect though we never had an answer; None when each had its answer, if only that it is refused
    (`service.domain.lifecycle.in_flight` has the table of both). `operation` names the
    cloud's long-running operation that was started last. `next_try_at` is None when nothing is to
    be done until something changes. `seen_at` is when `state` was last known to hold. `ready_at` is
    the first READY of all, `up_since` the first of the present attempt. `replacing` says that what
    is in the cloud goes so that a new attempt can be made, and `replacing_since` since when;
    `gave_up` that the end will be FAILED.
    `queue_state` is what was last seen of its queued resource, empty until it was seen, and
    `queue_since` when that was first seen so. `slices_seen` is what was seen of each slice, in
    their order; empty unless it is made of several. `alarmed_at` is when a human was told that it
    does not come to what was asked. `missed_at` is since when the lists have lacked something of
    it, and `misses` how many of them did, as far as that matters; None and 0 while they show it.
    `kept_until` and `kept_because` are what its owner said last of keeping it (None: nothing; see
    `service.domain.nodes.keep`), and `ends_after_keep` is why it goes once nobody keeps it any
    more.
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
        """Where the present attempt is in the cloud; meaningful when `attempt` is not 0."""
        return Place(self.spec.project, self.zone, self.cloud_id)

    @property
    def was_shown(self) -> bool:
        """Whether the cloud has shown the present attempt, or any slice of it, as a node."""
        return bool(self.cloud_uid) or any(one.cloud_uid for one in self.slices_seen)

    @property
    def ended(self) -> bool:
        """Whether nothing will ever happen to it again."""
        return self.state in ENDED

    @property
    def deletes_at(self) -> int | None:
        """When its time to live runs out, which is counted from its first READY, as Google does."""
        if self.spec.ttl_seconds is None or self.ready_at is None:
            return None
        return self.ready_at + self.spec.ttl_seconds

    def shown(self) -> Node:
        """The same node once all of it is there again: what was missed counts no more."""
        return replace(self, missed_at=None, misses=0)

    def moved(self, state: str, now: int) -> Node:
        """The same node seen in `state` at `now`; `state_since` moves only when the state does."""
        since = self.state_since if state == self.state else now
        return replace(self, state=state, state_since=since, seen_at=now)
