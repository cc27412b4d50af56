"""The record of a queued resource, and the queue of all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from service.emulator.catalog import Accelerator
from service.emulator.errors import ApiError, not_found
from service.emulator.limits.capacity import Kind
from service.emulator.names import Place
from service.emulator.nodes.nodes import provisioning_model
from service.emulator.timeline import Act, Event
from service.emulator.wire import NodeMessage, Tpu
from service.emulator.world.stale_reads import StaleReads

State = Tpu.QueuedResourceState.State
Initiator = Tpu.QueuedResourceState.StateInitiator
# WAITING_FOR_RESOURCES has no data message, and only the one of FAILED has fields.
DATA = {
    "CREATING": "creating_data",
    "ACCEPTED": "accepted_data",
    "PROVISIONING": "provisioning_data",
    "FAILED": "failed_data",
    "DELETING": "deleting_data",
    "ACTIVE": "active_data",
    "SUSPENDING": "suspending_data",
    "SUSPENDED": "suspended_data",
}


@dataclass(frozen=True)
class Slice:
    """One requested node, by its future full name."""

    name: str
    asked: NodeMessage
    accelerator: Accelerator
    multislice: bool
    model: str
    """The provisioning model of the queued resource or, if it names none, of the node."""


@dataclass(frozen=True)
class ValidWindow:
    """When provisioning may begin, in seconds since 1970."""

    start: float = -math.inf
    end: float = math.inf


@dataclass(frozen=True)
class Terms:
    """Fields that only v2alpha1 has: any provisioning model by name, and an end of the run.

    The nodes are deleted `run_seconds` after all of them are READY, or at `run_until`.
    """

    provisioning_model: str = ""
    run_seconds: float = math.inf
    run_until: float = math.inf


@dataclass(frozen=True)
class QueuedTransition:
    """A queued resource's change of state; `before` is empty at first, `after` at the end."""

    at: float
    name: str
    before: str
    after: str
    initiator: str


@dataclass
class QueuedRecord:
    """One queued resource: the message that the API shows, and the state of the emulation."""

    message: NodeMessage
    place: Place
    provisioning_model: str
    slices: tuple[Slice, ...]
    created: float
    window: ValidWindow
    terms: Terms
    doom: ApiError | None = None
    """The error of an invalid request that the cloud accepts first and fails later."""
    flaw: ApiError | None = None
    """The error with which PROVISIONING will fail."""
    stocked_out_until: float = -math.inf
    """No hardware before this time, whatever the capacity."""
    run_ends: float = math.inf
    pending: Event | None = None
    """The event that ends the present state."""
    expiry: Event | None = None
    curfew: Event | None = None
    """The end of the run, while it lasts."""
    then: Act | None = None
    """The next step, once no node is being deleted."""
    ready: set[str] = field(default_factory=set)
    """The nodes that have been READY since provisioning began."""
    lost_too: bool = False
    """Whether nodes that lost their hardware are deleted with the others."""
    examine: Act | None = None
    """Checks again whether there is hardware; set by the module that provisions."""

    @property
    def name(self) -> str:
        return str(self.message.name)

    @property
    def state(self) -> str:
        return str(State.Name(self.message.state.state))

    @cached_property
    def demand(self) -> Counter[Kind]:
        """The requested chips by kind."""
        wanted: Counter[Kind] = Counter()
        for slice_ in self.slices:
            kind = Kind(self.place.zone, slice_.accelerator.generation, slice_.model)
            wanted[kind] += slice_.accelerator.chips
        return wanted

    @cached_property
    def demand_key(self) -> frozenset[tuple[Kind, int]]:
        """The demand as a hashable value: no hardware for one record means none for its equals."""
        return frozenset(self.demand.items())

    def show_state(self, state: str, initiator: str, error: ApiError | None) -> None:
        shown = self.message.state
        shown.Clear()
        shown.state = State.Value(state)
        shown.state_initiator = Initiator.Value(initiator)
        if state in DATA:
            getattr(shown, DATA[state]).SetInParent()
        if error is not None:
            shown.failed_data.error.CopyFrom(error.to_status())


def model_of(resource: NodeMessage) -> str:
    """Return the requested provisioning model; without one, that of the first node."""
    if resource.HasField("spot"):
        return "spot"
    if resource.reservation_name:
        return "reserved"
    if resource.HasField("guaranteed") or not resource.tpu.node_spec:
        return "on_demand"
    return provisioning_model(resource.tpu.node_spec[0].node)


def names_model(resource: NodeMessage, terms: Terms) -> bool:
    """Whether the queued resource itself names a provisioning model."""
    tier = resource.WhichOneof("tier") is not None
    return tier or bool(resource.reservation_name or terms.provisioning_model)


class Queue:
    """Every queued resource by name, the names of their nodes, and the waiting ones."""

    def __init__(self) -> None:
        self.records: dict[str, QueuedRecord] = {}
        self.claims: dict[str, str] = {}
        """By the full name of a node: the queued resource that requested it, in any state."""
        self.waiting: dict[str, QueuedRecord] = {}
        """Queued resources that wait for hardware, the longest waiting first."""
        self.stale_reads = StaleReads(
            lambda name: self.records[name].message if name in self.records else None
        )
        self.observers: list[Callable[[QueuedTransition], None]] = []

    def get_record(self, name: str) -> QueuedRecord:
        """Return a queued resource by its full name; raises ApiError."""
        if name not in self.records:
            raise not_found(name)
        return self.records[name]

    def add_record(self, record: QueuedRecord, at: float) -> None:
        self.stale_reads.note_change(at, record.name)
        self.records[record.name] = record
        self.stale_reads.add_name(record.name)
        for slice_ in record.slices:
            self.claims[slice_.name] = record.name

    def remove_record(self, record: QueuedRecord, at: float) -> None:
        self.stale_reads.note_change(at, record.name)
        del self.records[record.name]
        self.stale_reads.remove_name(record.name)
        for slice_ in record.slices:
            del self.claims[slice_.name]

    def check_waiting(self, at: float) -> None:
        """Check for each waiting queued resource whether there is hardware, the oldest first."""
        unavailable: set[frozenset[tuple[Kind, int]]] = set()
        for record in list(self.waiting.values()):
            wanted = record.demand_key
            if record.examine is None or wanted in unavailable:
                continue
            record.examine(at)
            if record.name in self.waiting and at >= record.stocked_out_until:
                unavailable.add(wanted)

    def notify_observers(self, transition: QueuedTransition) -> None:
        for observer in self.observers:
            observer(transition)

    def clear(self) -> None:
        self.records.clear()
        self.stale_reads.clear()
        self.claims.clear()
        self.waiting.clear()
