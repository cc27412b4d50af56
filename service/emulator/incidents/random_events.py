"""Random events of nodes: preemption, the end of a short life, maintenance and host errors.

Each node draws its events from the seed and its own number, independent of other nodes: the same
seed gives the same events. Rates are per hour or day of the world's clock; `speed` does not
change them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from service.emulator.limits import spot_cycle
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.timeline import Event
from service.emulator.world import lifecycle
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

HOUR = 3600.0
DAY = 24 * HOUR
RETRY_SECONDS = 60.0
NOTICED_SHARE = 2 / 3
"""Share of random preemptions that send a notice to the hit worker. Our own choice."""
Strike = Callable[[NodeRecord, float], None]


@dataclass
class RandomEvents:
    """Pending events of every living node. A change of rates draws them again."""

    world: World
    _events: dict[int, dict[str, Event]] = field(default_factory=dict)
    """Pending events by the node's number, one of each kind."""
    _rolls: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.observers.append(self.follow_transition)
        self.world.on_config.append(self.redraw_events)

    def follow_transition(self, transition: Transition) -> None:
        """Draw the events of a new node, and cancel the events of a lost or deleted node."""
        if not transition.before:
            self._draw_events(self.world.nodes[transition.name], transition.at)
        elif not transition.after:
            self._cancel_events(transition.uid)
            self._rolls.pop(transition.uid, None)
        elif transition.after in lifecycle.LOST:
            self._cancel_events(transition.uid)

    def redraw_events(self, at: float) -> None:
        """Draw all events again with the present rates, except announced maintenance."""
        announced = {
            uid: events.pop("maintenance")
            for uid, events in self._events.items()
            if "maintenance" in events
        }
        for uid in list(self._events):
            self._cancel_events(uid)
        living = {record.message.id: record for record in self.world.nodes.values()}
        self._rolls = {uid: roll for uid, roll in self._rolls.items() if uid in living}
        for uid, record in living.items():
            if uid in announced:
                self._events[uid] = {"maintenance": announced[uid]}
            if record.state not in lifecycle.LOST:
                self._draw_events(record, at)

    def _cancel_events(self, uid: int) -> None:
        for event in self._events.pop(uid, {}).values():
            event.cancelled = True

    def _draw_events(self, record: NodeRecord, at: float) -> None:
        odds = self.world.config.odds
        if record.provisioning_model in lifecycle.SPOT_MODELS:
            rate = odds.preemptions_of(record) / HOUR
            self._schedule_next(record, at, rate, "preempt", self._preempt_node)
        if record.provisioning_model == "preemptible" and odds.preemptible_life_seconds:
            due = max(at, record.created + odds.preemptible_life_seconds)
            self._schedule_event(record, due, "end of life", self._terminate_node)
        self._schedule_next(
            record, at, odds.maintenances_per_day / DAY, "announce", self._announce_maintenance
        )
        self._schedule_next(record, at, odds.host_errors_per_day / DAY, "break", self._break_host)

    def _schedule_next(
        self, record: NodeRecord, at: float, rate: float, what: str, strike: Strike
    ) -> None:
        """Schedule the next event of a Poisson process; `rate` is per second."""
        if rate <= 0:
            return

        def strike_and_repeat(record: NodeRecord, at: float) -> None:
            strike(record, at)
            if record.state not in lifecycle.LOST:
                self._schedule_next(record, at, rate, what, strike)

        due = at + self._next_random(record).expovariate(rate)
        self._schedule_event(record, due, what, strike_and_repeat)

    def _schedule_event(self, record: NodeRecord, due: float, what: str, strike: Strike) -> None:
        event = self.world.timeline.schedule_event(
            due, record.name, what, lambda at: strike(record, at), fate=True
        )
        self._events.setdefault(record.message.id, {})[what] = event

    def _next_random(self, record: NodeRecord) -> Random:
        """Return the generator of a node's next draw, seeded with the node's own number."""
        uid = record.message.id
        self._rolls[uid] = roll = self._rolls.get(uid, 0) + 1
        return Random(f"{self.world.seed}/{uid}/{roll}")  # noqa: S311 - repeatable on purpose

    def _preempt_node(self, record: NodeRecord, at: float) -> None:
        depth = self.world.config.odds.spot_rhythm
        spared = self._next_random(record).random() < depth * (1 - spot_cycle.demand_at(at))
        if record.state not in lifecycle.PREEMPTIBLE or spared:
            return
        seconds = self.world.config.odds.sibling_death_seconds
        if not seconds or not record.is_played:
            lifecycle.preempt_node(self.world, record, at, forced=False)
            return
        # Seen in the field: one worker at most gets a notice, the programs of its siblings die,
        # and only then the node becomes PREEMPTED.
        lot = Random(f"{self.world.seed}/{record.message.id}/{at}/victim")  # noqa: S311 - repeatable
        victim = lot.randrange(record.accelerator.hosts)
        noticed = [victim] if lot.random() < NOTICED_SHARE else []
        lifecycle.announce_preemption(self.world, record, at, seconds, noticed, forced=False)

    def _terminate_node(self, record: NodeRecord, at: float) -> None:
        if record.state in lifecycle.TERMINABLE:
            lifecycle.terminate_node(self.world, record, at)
        elif record.state not in lifecycle.LOST:
            # The node may be under deletion, which may fail.
            self._schedule_event(record, at + RETRY_SECONDS, "end of life", self._terminate_node)

    def _announce_maintenance(self, record: NodeRecord, at: float) -> None:
        """Announce a maintenance, which begins after the notice period."""
        if record.state != "READY" or record.maintenance is not None:
            return
        start = at + self.world.config.odds.maintenance_notice_seconds
        record.maintenance = (start, start + self.world.config.seconds_for("repair"))
        self._schedule_event(record, start, "maintenance", self._begin_maintenance)

    def _begin_maintenance(self, record: NodeRecord, at: float) -> None:
        if record.maintenance is None or record.maintenance[0] != at:
            # The owner had the maintenance done earlier.
            return
        if record.state == "READY":
            lifecycle.maintain_node(self.world, record, at)
        else:
            record.maintenance = None

    def _break_host(self, record: NodeRecord, at: float) -> None:
        if record.state == "READY":
            recovers = self._next_random(record).random() >= self.world.config.odds.lost_repairs
            lifecycle.break_host(self.world, record, at, recovers=recovers)
