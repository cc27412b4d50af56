"""What happens to nodes at random: preemption, the end of a short life, maintenance, host errors.

Each node's events are drawn from the seed and its own number, whatever else is going on: the same
seed gives the same events. Rates are per hour or day of the world's clock, which `speed`
leaves alone.
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
"""Of the losses by chance: how many are announced to the worker that is hit. A choice of ours."""
Strike = Callable[[NodeRecord, float], None]


@dataclass
class RandomEvents:
    """Pending events of every living node, drawn again when rates change: they have no memory."""

    world: World
    _events: dict[int, dict[str, Event]] = field(default_factory=dict)
    """By the node's number: what is to befall it, one event of each kind."""
    _rolls: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.observers.append(self.observe)
        self.world.on_config.append(self.redraw)

    def observe(self, transition: Transition) -> None:
        """Draw at a node's birth, and forget at its end."""
        if not transition.before:
            self._draw(self.world.nodes[transition.name], transition.at)
        elif not transition.after:
            self._forget(transition.uid)
            self._rolls.pop(transition.uid, None)
        elif transition.after in lifecycle.LOST:
            self._forget(transition.uid)

    def redraw(self, at: float) -> None:
        """Let the present odds decide from now on; a maintenance that was announced stands."""
        announced = {
            uid: events.pop("maintenance")
            for uid, events in self._events.items()
            if "maintenance" in events
        }
        for uid in list(self._events):
            self._forget(uid)
        living = {record.message.id: record for record in self.world.nodes.values()}
        self._rolls = {uid: roll for uid, roll in self._rolls.items() if uid in living}
        for uid, record in living.items():
            if uid in announced:
                self._events[uid] = {"maintenance": announced[uid]}
            if record.state not in lifecycle.LOST:
                self._draw(record, at)

    def _forget(self, uid: int) -> None:
        for event in self._events.pop(uid, {}).values():
            event.cancelled = True

    def _draw(self, record: NodeRecord, at: float) -> None:
        odds = self.world.config.odds
        if record.provisioning_model in lifecycle.SPOT_MODELS:
            self._await(record, at, odds.preemptions_of(record) / HOUR, self._preempt)
        if record.provisioning_model == "preemptible" and odds.preemptible_life_seconds:
            due = max(at, record.created + odds.preemptible_life_seconds)
            self._schedule(record, due, "end of life", self._terminate)
        self._await(record, at, odds.maintenances_per_day / DAY, self._announce)
        self._await(record, at, odds.host_errors_per_day / DAY, self._break)

    def _await(self, record: NodeRecord, at: float, rate: float, strike: Strike) -> None:
        """Wait for the next event of a process without memory; `rate` is per second."""
        if rate <= 0:
            return

        def act(record: NodeRecord, at: float) -> None:
            strike(record, at)
            if record.state not in lifecycle.LOST:
                self._await(record, at, rate, strike)

        due = at + self._random(record).expovariate(rate)
        self._schedule(record, due, strike.__name__.strip("_"), act)

    def _schedule(self, record: NodeRecord, due: float, what: str, strike: Strike) -> None:
        event = self.world.timeline.schedule(
            due, record.name, what, lambda at: strike(record, at), fate=True
        )
        self._events.setdefault(record.message.id, {})[what] = event

    def _random(self, record: NodeRecord) -> Random:
        """Give the luck of a node's next roll: by its number, so that nodes do not share it."""
        uid = record.message.id
        self._rolls[uid] = roll = self._rolls.get(uid, 0) + 1
        return Random(f"{self.world.seed}/{uid}/{roll}")  # noqa: S311 - repeatable on purpose

    def _preempt(self, record: NodeRecord, at: float) -> None:
        depth = self.world.config.odds.spot_rhythm
        spared = self._random(record).random() < depth * (1 - spot_cycle.busy(at))
        if record.state not in lifecycle.PREEMPTIBLE or spared:
            return
        seconds = self.world.config.odds.sibling_death_seconds
        if seconds and record.is_played:
            self._lose(record, at, seconds)
        else:
            lifecycle.preempt(self.world, record, at, forced=False)

    def _lose(self, record: NodeRecord, at: float, seconds: float) -> None:
        """Preempt a node as it was seen in the field: one worker at most is told, its siblings die
        of it, and only then the node shows it."""
        lot = Random(f"{self.world.seed}/{record.message.id}/{at}/victim")  # noqa: S311 - repeatable
        victim = lot.randrange(record.accelerator.hosts)
        told = [victim] if lot.random() < NOTICED_SHARE else []
        lifecycle.announce_preemption(self.world, record, at, seconds, told, forced=False)

    def _terminate(self, record: NodeRecord, at: float) -> None:
        if record.state in lifecycle.TERMINABLE:
            lifecycle.terminate(self.world, record, at)
        elif record.state not in lifecycle.LOST:
            # A deletion may fail, and then the node is too old all the same.
            self._schedule(record, at + RETRY_SECONDS, "end of life", self._terminate)

    def _announce(self, record: NodeRecord, at: float) -> None:
        """Give notice of a maintenance, which begins when the notice has run out."""
        if record.state != "READY" or record.maintenance is not None:
            return
        start = at + self.world.config.odds.maintenance_notice_seconds
        record.maintenance = (start, start + self.world.config.seconds("repair"))
        self._schedule(record, start, "maintenance", self._maintain)

    def _maintain(self, record: NodeRecord, at: float) -> None:
        if record.maintenance is None or record.maintenance[0] != at:
            # Done by hand meanwhile, as its owner may ask for.
            return
        if record.state == "READY":
            lifecycle.maintain(self.world, record, at)
        else:
            record.maintenance = None

    def _break(self, record: NodeRecord, at: float) -> None:
        if record.state == "READY":
            recovers = self._random(record).random() >= self.world.config.odds.lost_repairs
            lifecycle.break_host(self.world, record, at, recovers=recovers)
