"""The emulated cloud: its nodes and operations, the events that are due, and its bill."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from random import Random

from service.emulator.artifacts.registry import ManifestStore
from service.emulator.artifacts.storage import Storage
from service.emulator.clock import Clock
from service.emulator.config.config import Config
from service.emulator.errors import not_found
from service.emulator.faults.faults import Faults
from service.emulator.limits.capacity import Hardware, kind_of
from service.emulator.limits.quota import Holdings, Rates
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.timeline import Timeline
from service.emulator.wire import Node, NodeMessage
from service.emulator.world.bill import Bill, Transition
from service.emulator.world.container_runs import Runs
from service.emulator.world.log_buffer import LogBuffer
from service.emulator.world.operations import Operations
from service.emulator.world.queue import Queue
from service.emulator.world.requests import Requests
from service.emulator.world.stale_reads import NameIndex, StaleReads

Observer = Callable[[Transition], None]
Reconfigured = Callable[[float], None]
Updated = Callable[[NodeRecord, float], None]
Reset = Callable[[], None]
Announced = Callable[[NodeRecord, float, float, Collection[int]], None]
MAX_PAST = 10_000


@dataclass
class World:
    """A state machine without servers, whose only source of time is its clock."""

    clock: Clock
    rpcs: tuple[str, ...]
    seed: int = 0
    config: Config = field(default_factory=Config)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    past: deque[NodeRecord] = field(default_factory=lambda: deque(maxlen=MAX_PAST))
    """Deleted nodes, the newest last: their metrics can still be read."""
    timeline: Timeline = field(default_factory=Timeline)
    bill: Bill = field(default_factory=Bill)
    logs: LogBuffer = field(default_factory=LogBuffer)
    response_cache: dict[tuple[str, bytes], NodeMessage] = field(default_factory=dict)
    """Responses that stay valid until the world changes, by call and request."""
    observers: list[Observer] = field(default_factory=list)
    on_config: list[Reconfigured] = field(default_factory=list)
    """Called with the time at which the configuration changed."""
    on_metadata: list[Updated] = field(default_factory=list)
    """Called with a node that was updated, and the time."""
    on_reset: list[Reset] = field(default_factory=list)
    """Called when the world was cleared, before the first configuration is applied again."""
    on_preemption_notice: list[Announced] = field(default_factory=list)
    """Called with a node, the time, the seconds until its preemption, and the notified workers."""
    queue: Queue = field(default_factory=Queue)
    hardware: Hardware = field(default_factory=Hardware)
    holdings: Holdings = field(default_factory=Holdings)
    rates: Rates = field(default_factory=Rates)
    runs: Runs = field(default_factory=Runs)
    """Every container of a played worker."""
    has_real_workers: bool = False
    """Whether workers run as real processes, up to `config.real_workers` of them."""
    manifests: ManifestStore = field(default_factory=ManifestStore)
    requests: Requests = field(default_factory=Requests)
    storage: Storage = field(default_factory=Storage)
    stale_reads: StaleReads = field(init=False)
    operations: Operations = field(init=False)
    faults: Faults = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311 - repeatable on purpose, protects nothing
        self._now = 0.0
        self._addresses = 0
        self.stale_reads = StaleReads(
            lambda name: self.nodes[name].message if name in self.nodes else None
        )
        self._first_config = self.config
        self._looking = False
        self.on_config.append(self._look_for_room)
        self.operations = Operations(self._random)
        # A separate stream: random faults must not change the ids.
        self.faults = Faults(self.rpcs, Random(f"{self.seed}/faults"))  # noqa: S311

    def run_due_events(self, now: float | None = None) -> float:
        """Run every event due by now, each at its own time. Returns now, which never decreases.

        During an event, no other event runs, and the time of that event is returned.
        """
        if self.timeline.moment is not None:
            return self.timeline.moment
        self._now = max(self._now, self.clock() if now is None else now)
        if self.timeline.run_due(self._now):
            self.clear_cache()
        return self._now

    def run_pending_events(self) -> int:
        """Run every pending event but fates now, at the present time. Returns their number."""
        done = self.timeline.run_pending(self.run_due_events())
        self.clear_cache()
        return done

    def clear_cache(self) -> None:
        """Clear the responses that were valid until a change."""
        self.response_cache.clear()

    def set_config(self, config: Config) -> None:
        """Apply a configuration from now on; changes that have begun keep their time."""
        now = self.run_due_events()
        self.clear_cache()
        self.config = config
        for on_config in self.on_config:
            on_config(now)

    def reset_all(self) -> None:
        """Clear everything but the state of the random numbers: no id is given twice."""
        self.nodes.clear()
        self.stale_reads.clear()
        self.past.clear()
        for part in (
            self.queue,
            self.hardware,
            self.holdings,
            self.rates,
            self.requests,
            self.manifests,
            self.runs,
        ):
            part.clear()
        self._looking = False
        self.timeline = Timeline()
        self.operations.clear()
        self.faults.clear()
        self.bill.clear()
        self.logs.clear()
        self.storage.clear()
        for on_reset in self.on_reset:
            on_reset()
        self.set_config(self._first_config)

    def get_node(self, name: str) -> NodeRecord:
        """Return a node by its full name; raises ApiError."""
        if name not in self.nodes:
            raise not_found(name)
        return self.nodes[name]

    def get_sight(self, age: float = 0.0) -> NameIndex:
        """Return the nodes as they are now, or as they were `age` seconds ago."""
        return self.stale_reads.sight_at(self._now - age if age else None)

    def new_uid(self) -> int:
        return int(2**60 + self._random.getrandbits(62))

    def new_block(self, size: int) -> str:
        """Return the next block of 10.0.0.0/8, aligned to its size; after the last, the first."""
        start = -(-self._addresses // size) * size
        if start + size > 2**24:
            start = 0
        self._addresses = start + size
        base = IPv4Address("10.0.0.0") + start
        return f"{base}/{32 - (size.bit_length() - 1)}"

    def set_state(self, record: NodeRecord, state: str, at: float) -> None:
        """Move a node to a state and notify observers; an empty state removes the node."""
        self.clear_cache()
        known = record.name in self.nodes
        before = record.state if known else ""
        self.stale_reads.note_change(at, record.name)
        if state:
            if not known:
                self.stale_reads.add_name(record.name)
            self.nodes[record.name] = record
            record.message.state = Node.State.Value(state)
        else:
            del self.nodes[record.name]
            self.stale_reads.remove_name(record.name)
            self.past.append(record)
        record.activity.follow_state(before, state, at)

        # The nodes of a queued resource are part of its quota, from its creation to its end.
        has_own_quota = not record.queued_resource
        chips = {kind_of(record): record.accelerator.chips}
        if has_own_quota and not before:
            self.holdings.take_chips(record.place.project, chips)
        if has_own_quota and not state:
            self.holdings.give_back(record.place.project, chips)
        freed = self.hardware.count_change(record, state)

        transition = Transition(
            at=at,
            name=record.name,
            uid=record.message.id,
            accelerator_type=record.accelerator.name,
            chips=record.accelerator.chips,
            zone=record.place.zone,
            provisioning_model=record.provisioning_model,
            created=record.created,
            before=before,
            after=state,
        )
        self.bill.record_transition(transition)
        for observer in self.observers:
            observer(transition)
        if record.watch is not None:
            record.watch(record, at, state)
        if freed:
            self._look_for_room(at)

    def announce_preemption(
        self, record: NodeRecord, at: float, seconds: float, workers: Collection[int]
    ) -> None:
        """Notify observers that a node is preempted after `seconds`; `workers` have the notice."""
        for on_notice in self.on_preemption_notice:
            on_notice(record, at, seconds, workers)

    def notify_updated(self, record: NodeRecord, at: float) -> None:
        """Notify observers that a node was updated."""
        for on_metadata in self.on_metadata:
            on_metadata(record, at)

    def _look_for_room(self, at: float) -> None:
        """Check for waiting queued resources whether there is hardware, after the present event."""

        def look_again(at: float) -> None:
            self._looking = False
            self.queue.check_waiting(at)

        if self.queue.waiting and not self._looking:
            self._looking = True
            self.timeline.schedule_event(at, "queuedResources", "room", look_again)
