"""A queued resource as the cloud writes it down, and the queue that holds them all."""

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
# WAITING_FOR_RESOURCES has no data of its own, and only FAILED has something in it.
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
    """One of the nodes that are asked for, by the full name it will have."""

    name: str
    asked: NodeMessage
    accelerator: Accelerator
    multislice: bool
    model: str
    """Its provisioning model: that of the queued resource, or its own where that names none."""


@dataclass(frozen=True)
class ValidWindow:
    """When provisioning may begin, in seconds since 1970."""

    start: float = -math.inf
    end: float = math.inf


@dataclass(frozen=True)
class Terms:
    """What only v2alpha1 can ask for: any provisioning model by name, and an end of the run.

    The nodes are deleted `run_seconds` after all of them are READY, or at `run_until`.
    """

    provisioning_model: str = ""
    run_seconds: float = math.inf
    run_until: float = math.inf


@dataclass(frozen=True)
class QueuedTransition:
    """A queued resource going from one state to another; empty before birth and at the end."""

    at: float
    name: str
    before: str
    after: str
    initiator: str


@dataclass
class QueuedRecord:
    """One queued resource: the message that is shown, and what the world knows besides."""

    message: NodeMessage
    place: Place
    provisioning_model: str
    slices: tuple[Slice, ...]
    created: float
    window: ValidWindow
    terms: Terms
    doom: ApiError | None = None
    """What is wrong with the request itself, and is found only after it was taken."""
    flaw: ApiError | None = None
    """What will go wrong in PROVISIONING."""
    stocked_out_until: float = -math.inf
    """No hardware before then, whatever the capacity."""
    run_ends: float = math.inf
    pending: Event | None = None
    """What the present state waits for."""
    expiry: Event | None = None
    curfew: Event | None = None
    """The end of the run, while it lasts."""
    then: Act | None = None
    """What follows once no node is being deleted."""
    ready: set[str] = field(default_factory=set)
    """The nodes that have been READY since provisioning began."""
    lost_too: bool = False
    """Whether nodes that lost their hardware are to be deleted with the others."""
    examine: Act | None = None
    """Look for hardware again; set by those who know how to."""

    @property
    def name(self) -> str:
        return str(self.message.name)

    @property
    def state(self) -> str:
        return str(State.Name(self.message.state.state))

    @cached_property
    def demand(self) -> Counter[Kind]:
        """Count the chips that are asked for, by kind."""
        wanted: Counter[Kind] = Counter()
        for each in self.slices:
            kind = Kind(self.place.zone, each.accelerator.generation, each.model)
            wanted[kind] += each.accelerator.chips
        return wanted

    @cached_property
    def wish(self) -> frozenset[tuple[Kind, int]]:
        """Give the demand as a value: what one looked for in vain, its equal need not look for."""
        return frozenset(self.demand.items())

    def show(self, state: str, initiator: str, error: ApiError | None) -> None:
        shown = self.message.state
        shown.Clear()
        shown.state = State.Value(state)
        shown.state_initiator = Initiator.Value(initiator)
        if state in DATA:
            getattr(shown, DATA[state]).SetInParent()
        if error is not None:
            shown.failed_data.error.CopyFrom(error.status())


def model_of(resource: NodeMessage) -> str:
    """Name the provisioning model that a request asks for; its first node speaks for all."""
    if resource.HasField("spot"):
        return "spot"
    if resource.reservation_name:
        return "reserved"
    if resource.HasField("guaranteed") or not resource.tpu.node_spec:
        return "on_demand"
    return provisioning_model(resource.tpu.node_spec[0].node)


def names_model(resource: NodeMessage, terms: Terms) -> bool:
    """Whether the queued resource itself says how its nodes are bought."""
    tier = resource.WhichOneof("tier") is not None
    return tier or bool(resource.reservation_name or terms.provisioning_model)


class Queue:
    """Every queued resource by name, the node names they hold, and those that wait for hardware."""

    def __init__(self) -> None:
        self.records: dict[str, QueuedRecord] = {}
        self.claims: dict[str, str] = {}
        """By the full name of a node: the queued resource that holds it, in whatever state."""
        self.waiting: dict[str, QueuedRecord] = {}
        """In the order in which they began to wait."""
        self.stale_reads = StaleReads(self._look)
        self.observers: list[Callable[[QueuedTransition], None]] = []

    def find(self, name: str) -> QueuedRecord:
        """Look a queued resource up by its full name; raises ApiError."""
        if name not in self.records:
            raise not_found(name)
        return self.records[name]

    def _look(self, name: str) -> NodeMessage | None:
        record = self.records.get(name)
        return None if record is None else record.message

    def add(self, record: QueuedRecord, at: float) -> None:
        self.stale_reads.note(at, record.name)
        self.records[record.name] = record
        self.stale_reads.add(record.name)
        for each in record.slices:
            self.claims[each.name] = record.name

    def remove(self, record: QueuedRecord, at: float) -> None:
        self.stale_reads.note(at, record.name)
        del self.records[record.name]
        self.stale_reads.remove(record.name)
        for each in record.slices:
            del self.claims[each.name]

    def look(self, at: float) -> None:
        """Let all that wait look for hardware, the oldest first."""
        in_vain: set[frozenset[tuple[Kind, int]]] = set()
        for record in list(self.waiting.values()):
            wish = record.wish
            if record.examine is None or wish in in_vain:
                continue
            record.examine(at)
            if record.name in self.waiting and at >= record.stocked_out_until:
                in_vain.add(wish)

    def tell(self, transition: QueuedTransition) -> None:
        for observer in self.observers:
            observer(transition)

    def clear(self) -> None:
        self.records.clear()
        self.stale_reads.clear()
        self.claims.clear()
        self.waiting.clear()
