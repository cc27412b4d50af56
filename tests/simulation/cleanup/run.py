"""One run of the cleanup: a fleet works and rests, telemetry fails, and a daemon watches it all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

from structlog.processors import format_exc_info
from structlog.testing import capture_logs

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.daemon import DaemonActs
from service.application.cleanup.keeps import KeepService
from service.application.cleanup.links import LinkService
from service.application.nodes.nodes import NodeService
from service.cloud.google.channel import tpu_client
from service.cloud.google.retries import ONCE
from service.cloud.google.telemetry import GoogleTelemetry, monitoring_client
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.controllers.base import Controller
from service.controllers.idle.idle import IdleController, IdleManners
from service.controllers.idle.reports import ReportReader
from service.controllers.idle.telemetry import TelemetryReader, at_once
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.idle.assess import IdleTimes
from service.domain.idle.policy import Action, Policy, Recipient, rule_of
from service.domain.nodes.node import IdlePolicy
from service.domain.nodes.request import RequestedNode
from service.emulator.app import build_world
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from service.store.pricebook import PriceShelf
from service.store.unit import Units
from tests.simulation.cleanup.oracle import CleanupOracle
from tests.simulation.cleanup.people import PUBLIC_URL, People
from tests.simulation.cleanup.workloads import Fleet, Life, Workload
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import CrashPoints, SeamedCloud, SeamedUnits
from tests.simulation.invariants import Violation
from tests.simulation.process import Process
from tests.simulation.replica import PROJECT, Replica
from tests.simulation.run import database, repeatable_ids, steady_deadlines

TIMES = IdleTimes(warmup=600, telemetry=150, start=300, period=60)
STORMY_SECONDS = 4_500
CALM_SECONDS = 8_100
"""Enough for the course of a node, for a start and an open breaker, and for the hour after three
others have gone."""
OTHERS_SECONDS = 3_600
"""Where more are idle than an hour lets go."""
THRONG, THRONG_IDLE = 36, 6
"""A tenth of them is what a look ends at most, and so many are fewer than an hour ends."""
LEAST_CALM_SECONDS = 1_500
"""So long nothing else may go, though all that is idle has gone."""
LIFECYCLE_SECONDS, INVENTORY_SECONDS = 20, 30
LOOK_SECONDS = 300
ZONE = "us-west4-a"
TYPES = ["v5litepod-1", "v5litepod-1", "v5litepod-4", "v5litepod-16"]
PARENT = f"projects/{PROJECT}/locations/{ZONE}"
GRACE = 300
DELAY = 45
INHERITED = IdlePolicy(after_seconds=1_200, grace_seconds=GRACE, action="delete")
BROKEN = {"tick.broke", "lifecycle.failed", "idle.read_broke", "idle.reports_broke"}


@dataclass
class Run:
    """Everything of one run; `seed` decides all of it."""

    seed: int
    engine: Any
    agenda: Agenda

    def __post_init__(self) -> None:
        self._draw(self._luck("fortune"))
        self.world = build_world(seed=self.seed, clock=lambda: self.agenda.now)
        self.units = Units(self.engine)
        shared = self.units, PriceShelf(), self.agenda.seconds
        self.nodes = NodeService(*shared, [PROJECT])
        self.keeps = KeepService(*shared)
        self.links = LinkService(*shared, self.nodes)
        self.cleanup = CleanupService(*shared, [PROJECT], IdleMode(Action.DELETE, TIMES))
        self.fleet = Fleet(self.agenda, self.world, self._luck("fleet"))
        self.oracle = CleanupOracle(self.agenda, self.units, self.fleet, TIMES)
        self.oracle.sees_devices = self.has_reports
        self.people = People(self, self._luck("people"))
        self.seams = CrashPoints(self.agenda, self._luck("seams"), self.fortune)
        self.replica = Replica(
            "r0",
            self.agenda,
            self.world,
            self.engine,
            self.seams,
            lambda _nodes, _lease: None,
            self._luck("replica"),
            more=self._controllers,
            lifecycle_seconds=LIFECYCLE_SECONDS,
            inventory_seconds=INVENTORY_SECONDS,
        )

    def _draw(self, luck: Random) -> None:
        """What is in store for this run."""
        self.fortune: Any = SimpleNamespace(
            kill=luck.choice([0, 0, 0.001, 0.004]), pause=0, late=0, oversleeps=0
        )
        self.gaps = luck.choice([0.0, 0.0, 0.03])
        self.late = luck.choice([0.0, 0.0, 0.05])
        self.outages = luck.choice([0, 0, 1, 1, 2])
        self.is_crowd = luck.random() < 0.1
        """Whether more nodes are idle at once than an hour lets go, and daemons die meanwhile."""
        self.most_idle = 6 if self.is_crowd else luck.choice([3, 3, 5])
        if self.is_crowd:
            self.fortune.kill = 0.004
        self.cores = luck.choice([1, 1, 4])
        self.is_long = luck.random() < 0.1
        """Whether what is unknown stays so for hours."""
        self.is_throng = luck.random() < 0.03
        """Whether so many nodes live in peace that several may go in one look."""
        if self.is_throng:
            self.fortune.kill, self.gaps, self.late, self.outages = 0, 0.0, 0.0, 0
            self.is_crowd, self.most_idle, self.cores = False, THRONG_IDLE, 1
        self.has_reports = luck.random() < 0.7
        self.has_monitoring = luck.random() < 0.8 or not self.has_reports or self.is_throng
        self.is_meddled = luck.random() < 0.15 and not self.is_throng
        """Whether people act all the time, the cloud takes what it can, and daemons die often."""
        if self.is_meddled:
            self.fortune.kill = 0.01

    def live(self) -> None:
        """Raises Violation with what went wrong."""
        self._settle_the_world(missing=())
        self._ask_for_nodes()
        self.fleet.begin()
        self.replica.begin()
        self.people.begin(self.fleet.lives)
        luck = self._luck("outages")
        for _ in range(self.outages):
            self.agenda.after(luck.uniform(1_800, STORMY_SECONDS - 900), self._lose_telemetry)
        self.agenda.pass_(STORMY_SECONDS)
        self.seams.calm = True
        self._calm_down()
        self.oracle.at_rest()
        is_calm = not (self.fortune.kill or self.outages or self.gaps or self.late)
        if is_calm and not self.people.has_paused:
            if self.most_idle <= 3:
                self.oracle.in_time(DELAY)
            if self.most_idle <= 3 or self.is_throng:
                self.oracle.in_turn()

    def _calm_down(self) -> None:
        """Live on until all that is idle has gone, and for as long as that may take at most."""
        longest = CALM_SECONDS + (OTHERS_SECONDS if self.most_idle > 3 else 0)
        end = self.agenda.seconds() + longest
        self.agenda.pass_(longest if self.is_long else LEAST_CALM_SECONDS)
        while self.agenda.now < end and self.oracle.is_left(end):
            self.agenda.pass_(LOOK_SECONDS)

    @property
    def parent(self) -> str:
        """Where the cloud keeps its nodes."""
        return PARENT

    @property
    def told(self) -> list[tuple[int, str]]:
        """When which node was ended."""
        return [(end.at, end.node.id) for end in self.oracle.ends]

    def _settle_the_world(self, missing: Sequence[str]) -> None:
        always = () if self.has_monitoring else (ZONE,)
        told = {
            "played_workers": "all" if self.has_reports else "none",
            "telemetry": {
                "cores": self.cores,
                "delay_seconds": DELAY,
                "gap_share": self.gaps,
                "late_share": self.late,
                "missing": [*always, *self._dark(), *missing],
            },
        }
        control.change_config(self.world, told)

    def _dark(self) -> list[str]:
        """The cloud's names of nodes that no metric ever shows."""
        with self.units.reading() as unit:
            nodes = [unit.nodes.get(one) for one in sorted(self.oracle.unseen)]
        return [f"{PARENT}/nodes/{node.cloud_id}" for node in nodes]

    def _lose_telemetry(self) -> None:
        self._settle_the_world((ZONE,))
        seconds = self._luck("outage").choice([900, 3_600])
        self.agenda.after(seconds, lambda: self._settle_the_world(()))

    def _ask_for_nodes(self) -> None:
        luck = self._luck("nodes")
        with self.units() as unit:
            rule = rule_of(INHERITED)
            told = (Recipient(emails=("ada@example.com",)),)
            unit.idle_policies.save(Policy(f"project:{PROJECT}", rule, told))
        if self.is_throng:
            self._ask_for_a_throng()
            return
        idle = 0
        for number in range(12 if self.is_crowd else luck.randint(5, 10)):
            is_one = self.is_crowd and idle < self.most_idle
            workload = Workload.IDLE if is_one else luck.choice(list(Workload))
            if workload in (Workload.IDLE, Workload.DONE):
                idle += 1
                workload = workload if idle <= self.most_idle else Workload.BUSY
            own = IdlePolicy(
                after_seconds=luck.choice([900, 1_200]),
                grace_seconds=GRACE,
                action=luck.choice(["delete", "delete", "delete", "notify"]),
            )
            is_inherited, is_dark = luck.random() < 0.3, luck.random() < 0.1
            # more that go dark at once are an outage, and the breaker is right to stay open
            is_dark = is_dark and 4 * (len(self.oracle.unseen) + 1) <= number + 1
            spot = 0.8 if self.is_meddled else 0.3
            is_spot = luck.random() < spot and not is_dark  # made again, it would be seen
            wish = RequestedNode(
                project=PROJECT,
                name=f"n-{number}",
                owner=luck.choice(["ada", "ada", "bob", "", ""]),
                accelerator_type=luck.choice(
                    ["v5litepod-1", "v5litepod-1", "v5litepod-4", "v5litepod-16"]
                ),
                zone=ZONE,
                idle=None if is_inherited else own,
                supervisor=not is_dark,
                provisioning_model=(
                    ProvisioningModel.SPOT if is_spot else ProvisioningModel.ON_DEMAND
                ),
                recreate_on_preemption=is_spot,
            )
            node = self.nodes.request(wish).node
            holds = INHERITED if is_inherited else own
            self.oracle.policies[node.id] = holds
            self.fleet.lives[node.id] = Life(workload, holds.after_seconds)
            if is_dark:
                self.oracle.unseen.add(node.id)
        self.agenda.after(300, lambda: self._settle_the_world(()))

    def _ask_for_a_throng(self) -> None:
        """Many small nodes of nobody: some are idle, the others work."""
        own = IdlePolicy(after_seconds=900, grace_seconds=GRACE, action="delete")
        for number in range(THRONG):
            workload = Workload.IDLE if number < THRONG_IDLE else Workload.BUSY
            wish = RequestedNode(
                project=PROJECT,
                name=f"n-{number}",
                accelerator_type="v5litepod-1",
                zone=ZONE,
                idle=own,
            )
            node = self.nodes.request(wish).node
            self.oracle.policies[node.id] = own
            self.fleet.lives[node.id] = Life(workload, own.after_seconds)

    def _controllers(self, process: Process) -> Sequence[tuple[int, Controller]]:
        """What this simulation adds to a daemon, made anew with each."""
        channel = LocalChannel(self.world, self.agenda.pass_)
        pace = Pace(lambda: self.agenda.now)
        seams = process.of(self.seams)
        cloud: Any = SeamedCloud(GoogleTpus(tpu_client(channel), pace, ONCE), seams, self.engine)
        units = SeamedUnits(self.engine, seams, self.oracle.committed)
        clock = self.agenda.seconds
        telemetry = GoogleTelemetry(monitoring_client(channel), ONCE)
        reader = TelemetryReader(telemetry, clock, TIMES.telemetry + TIMES.period, at_once)
        manners = IdleManners(
            TIMES,
            Action.DELETE,
            lambda: self.agenda.now,
            ReportReader(cloud, clock, TIMES, at_once),
        )
        controller = IdleController(
            units, PriceShelf(), clock, reader, DaemonActs(PUBLIC_URL), manners
        )
        return [(TIMES.period, controller)]

    def _luck(self, of: str) -> Random:
        return Random(f"{self.seed}/{of}")


def _check_logs(logs: Sequence[Any]) -> None:
    """What the service itself took for a defect is one, though it lived on."""
    broken = [entry for entry in logs if entry["event"] in BROKEN]
    if broken:
        raise Violation(f"an error inside: {broken[0]}")


def run(seed: int) -> Run:
    """Live through one seed; raises Violation with the seed."""
    with ExitStack() as stack:
        agenda = Agenda()
        engine = stack.enter_context(database(agenda))
        stack.enter_context(repeatable_ids(seed, agenda))
        stack.enter_context(steady_deadlines())
        logs = stack.enter_context(capture_logs([format_exc_info]))
        living = Run(seed, engine, agenda)
        try:
            living.live()
            _check_logs(logs)
        except (Exception, Violation) as error:
            error.add_note(f"again with: python -m tests.simulation.cleanup {seed}")
            raise
        return living
