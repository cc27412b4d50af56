"""A project whose nodes are measured minute by minute, as a test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import Engine, update

from service.application.cleanup.daemon import DaemonActs
from service.cloud.ports import Sample
from service.controllers.idle.idle import IdleController, IdleSettings
from service.controllers.idle.readings import Start, TelemetryReader, at_once
from service.controllers.idle.report_reads import ReportReader
from service.domain.errors import CloudUnavailable
from service.domain.idle.assess import IdleTimes
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.policy import Action
from service.domain.idle.rollup import ActivityHour
from service.domain.idle.signals.signal import Kind
from service.domain.lease import Lease
from service.domain.nodes.node import IdlePolicy, Node, NodeState, Place
from service.store.pricebook import PriceBookCache
from service.store.tables import leases
from service.store.unit import Units
from tests import factories
from tests.hands import NOON, HandClock

TIMES = IdleTimes(warmup=600, telemetry=240, start=900, period=60)
DELETES = IdlePolicy(after_seconds=1_800, grace_seconds=300, action="delete")
REST = {
    Kind.DUTY_CYCLE: 0.0,
    Kind.TENSORCORE: 0.0,
    Kind.TENSORCORE_IDLE: 1e6,
    Kind.ACTIVE_CHIPS: 0.0,
    Kind.UTILIZED_CHIPS: 0.0,
    Kind.CPU: 2.0,
    Kind.NETWORK: 100.0,
}
WORK = {**REST, Kind.DUTY_CYCLE: 80.0, Kind.TENSORCORE: 40.0, Kind.TENSORCORE_IDLE: 0.0}
BY_NODE = (Kind.TENSORCORE_IDLE, Kind.CPU, Kind.NETWORK)


class Later:
    """Keeps work until a test says so, as a thread does that is slow."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def go_on(self) -> None:
        for work in [self.work.pop() for _ in list(self.work)]:
            work()


@dataclass
class FakeTelemetry:
    """Keeps samples, and answers those that have arrived by now."""

    clock: HandClock
    late: int = 0
    points: dict[Kind, list[Sample]] = field(default_factory=dict)
    broken: set[Kind] = field(default_factory=set)
    reads: list[tuple[Kind, int, int]] = field(default_factory=list)
    error_before: int | None = None

    def read_samples(self, _project: str, kind: Kind, since: int, until: int) -> Sequence[Sample]:
        self.reads.append((kind, since, until))
        if kind in self.broken or since < (self.error_before or 0):
            raise CloudUnavailable("no answer")
        arrived = self.clock() - self.late
        return [
            point
            for point in self.points.get(kind, [])
            if since < point.end <= until and point.end <= arrived
        ]


@dataclass
class Machine:
    """One worker as its two programs report it: every 240 s, and within a minute of what matters.
    `doing` are changes to the document of a machine quiet."""

    boot: str
    since: int
    instance: str
    doing: dict[str, Any] = field(default_factory=dict)
    is_silent: bool = False
    values: dict[str, str] = field(default_factory=dict)
    _news: tuple[bool, bool] | None = None
    _written_at: int = 0

    def report(self, now: int) -> None:
        if self.is_silent:
            return
        rest = dict.fromkeys(["device_free_since", "cpu_quiet_since", "network_quiet_since"])
        counts = dict.fromkeys(["sessions", "containers", "restarts"], 0)
        document = {
            "v": 1,
            "boot": self.boot,
            "from": self.since,
            "at": now,
            "holder": "",
            **counts,
        }
        document |= dict.fromkeys(rest, self.since)
        document |= self.doing
        self.values["report"] = json.dumps({"boot": self.boot, "instance": self.instance})
        news = bool(document["holder"]), bool(document["sessions"])
        if news != self._news or now - self._written_at >= 240:
            self._news, self._written_at = news, now
            self.values["activity"] = json.dumps(document)

    def do(self, now: int, **changes: Any) -> None:
        """Do something else from now on; what was active is quiet since now."""
        was_at_work = [key for key, value in self.doing.items() if key.endswith("_since")]
        self.doing = dict.fromkeys(was_at_work, now) | changes


@dataclass
class FakeWorkers:
    """The cloud's side of guest attributes: machines by the cloud's name of their node."""

    clock: HandClock
    machines: dict[str, list[Machine]] = field(default_factory=dict)
    reads: list[tuple[int, str]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    def add(self, cloud_id: str, hosts: int = 1) -> None:
        """Machines that have just booted, quiet."""
        self.machines[cloud_id] = [
            Machine("boot-1", self.clock(), f"{len(self.machines)}00{worker}")
            for worker in range(hosts)
        ]

    def report(self) -> None:
        for machines in self.machines.values():
            for machine in machines:
                machine.report(self.clock())

    def guest_attributes(self, place: Place, _namespace: str) -> Sequence[dict[str, str]]:
        self.reads.append((self.clock(), place.cloud_id))
        if place.cloud_id in self.broken:
            raise CloudUnavailable("no answer")
        return [dict(machine.values) for machine in self.machines.get(place.cloud_id, ())]

    def times(self, cloud_id: str) -> list[int]:
        """When a node was read."""
        return [at for at, name in self.reads if name == cloud_id]


class IdleLab:
    """Nodes, what they do, and a daemon that looks at them every minute."""

    def __init__(self, units: Units, clock: HandClock, ceiling: Action = Action.DELETE) -> None:
        self.units, self.clock, self.ceiling = units, clock, ceiling
        self.telemetry = FakeTelemetry(clock)
        self.workers: FakeWorkers | None = None
        self.doing: dict[str, dict[Kind, float] | None] = {}
        self.hosts: dict[str, int] = {}
        self.has_post = True
        self.is_shrunk: Callable[[Lease], bool] = lambda _lease: False
        self.controller: IdleController
        self.lease: Lease
        self.prices = PriceBookCache()
        self.start_daemon("one")

    def start_daemon(self, holder: str, start: Start = at_once) -> None:
        """A daemon begins with nothing in its memory. `start` has its reads of metrics be done."""
        reports = None
        if self.workers is not None:
            reports = ReportReader(self.workers, self.clock, TIMES, at_once)  # type: ignore[arg-type]
        settings = IdleSettings(
            TIMES, self.ceiling, lambda: float(self.clock()), reports, self.is_shrunk
        )
        self.controller = IdleController(
            self.units,
            self.prices,
            self.clock,
            TelemetryReader(self.telemetry, self.clock, 300, start),
            DaemonActs(),
            settings,
        )
        with self.units() as unit:
            held = unit.leases.take("lab", holder, 36_000)
            if held is None:
                unit.leases.release(self.lease)
                held = unit.leases.take("lab", holder, 36_000)
            assert held is not None
            self.lease = held

    def add(self, doing: dict[Kind, float] | None = None, **changes: Any) -> Node:
        """A node that is READY since now, and does that (REST, WORK, None for no measurements)."""
        number = len(self.doing)
        ready = {
            "project": "lab",
            "attempt": 1,
            "state": NodeState.READY,
            "state_since": self.clock(),
            "up_since": self.clock(),
            "ready_at": self.clock(),
            "sent_at": self.clock() - 60,
            "cloud_id": f"n-{number}",
            "cloud_uid": str(7_000 + number),
            "name": f"n-{number}",
            "owner": f"owner-{number}",
            "idle": DELETES,
            "next_try_at": None,
        }
        node = factories.node(**{**ready, **changes})
        with self.units() as unit:
            unit.nodes.add(node)
        self.doing[node.id] = doing
        self.hosts[node.id] = node.spec.hosts
        return node

    def minute(self, count: int = 1) -> None:
        """Let minutes pass, each with its measurements and a look of the daemon."""
        for _ in range(count):
            start = self.clock()
            self.clock.pass_(60)
            if self.workers is not None:
                self.workers.report()
            for number, (node_id, doing) in enumerate(self.doing.items()):
                for kind, value in (doing or {}).items():
                    for worker in range(self.hosts[node_id]):
                        self.measure(kind, number, worker, start, value)
            self.controller.tick(self.lease)
            if self.has_post:
                self.post()

    def post(self) -> None:
        """Try to send every message once; none arrives, so that tests still find it."""
        with self.units() as unit:
            for notification in unit.notifications.list_due(self.clock(), 1_000):
                unit.notifications.save(replace(notification, tries=notification.tries + 1))

    def measure(self, kind: Kind, number: int, worker: int, start: int, value: float) -> None:
        """A point over a minute: some metrics know a worker by its node, others by its instance."""
        uid, instance = (str(7_000 + number), "") if kind in BY_NODE else ("", f"{number}-{worker}")
        known = self.telemetry.points.setdefault(kind, [])
        known.append(Sample(uid, worker, instance, start, start + 60, value))

    def node(self, node: Node | str) -> Node:
        """The node as it is stored now."""
        node_id = node if isinstance(node, str) else node.id
        with self.units.reading() as unit:
            return unit.nodes.get(node_id)

    def course(self, node: Node) -> WatchedNode:
        """Its course as it is stored now."""
        with self.units.reading() as unit:
            found = unit.idle_courses.find_by_node(node.id)
        assert found is not None
        return found

    def hour(self, node: Node) -> ActivityHour:
        """Its hour from NOON as it is stored now."""
        with self.units.reading() as unit:
            (found,) = unit.idle_rollups.list_hours([node.id], NOON, NOON + 3_600)[node.id]
        return found

    def ended(self) -> list[str]:
        """The names of nodes that were stopped or deleted, the first one first."""
        with self.units.reading() as unit:
            return [one.name for _, one in reversed(unit.cleanups.list_ended(["lab"], 0, 100))]

    def change(self, node: Node, **changes: Any) -> Node:
        """Change a stored node."""
        with self.units() as unit:
            return unit.nodes.save(replace(unit.nodes.get(node.id), **changes))


@pytest.fixture
def lab(units: Units, engine: Engine, clock: HandClock) -> IdleLab:
    """A laboratory on an empty database; the daemon began to watch long ago."""
    made = IdleLab(units, clock)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    return made
