"""One run of the cleanup: a fleet works and rests, telemetry fails, and a daemon watches it all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.daemon import DaemonActs
from service.application.cleanup.keeps import KeepOrder, KeepService
from service.application.nodes import NodeService
from service.cloud.google.channel import tpu_client
from service.cloud.google.retries import ONCE
from service.cloud.google.telemetry import GoogleTelemetry, monitoring_client
from service.cloud.google.tpus import GoogleTpus
from service.cloud.pace import Pace
from service.controllers.base import Controller
from service.controllers.idle.idle import IdleController, IdleManners
from service.controllers.idle.reports import ReportReader
from service.controllers.idle.telemetry import TelemetryReader, at_once
from service.domain.errors import StewardError
from service.domain.idle.assess import Times
from service.domain.idle.policy import Action
from service.domain.node import IdlePolicy
from service.domain.wish import Wish
from service.emulator.app import build_world
from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from service.store.pricebook import PriceShelf
from service.store.unit import Units
from tests.simulation.cleanup.oracle import CleanupOracle
from tests.simulation.cleanup.workloads import Fleet, Life, Workload
from tests.simulation.clock import Agenda
from tests.simulation.replica import PROJECT, Replica
from tests.simulation.run import database, repeatable_ids
from tests.simulation.seams import SeamedCloud, SeamedUnits, Seams
from tests.simulation.truth import Violation

TIMES = Times(warmup=600, telemetry=240, start=300, period=60)
STORMY_SECONDS = 5_400
CALM_SECONDS = 8_100
"""Enough for the course of a node, for a start and an open breaker, and for the hour after three
others have gone."""
MOST_IDLE = 3
ZONE = "us-west4-a"
PARENT = f"projects/{PROJECT}/locations/{ZONE}"
GRACE = 300
BROKEN = {"tick.broke", "lifecycle.failed", "idle.read_broke", "idle.reports_broke"}


@dataclass
class Run:
    """Everything of one run; `seed` decides all of it."""

    seed: int
    engine: Any
    agenda: Agenda

    def __post_init__(self) -> None:
        luck = self._luck("fortune")
        self.fortune: Any = SimpleNamespace(
            kill=luck.choice([0, 0, 0.001]), pause=0, late=0, oversleeps=0
        )
        self.gaps = luck.choice([0.0, 0.0, 0.03])
        self.late = luck.choice([0.0, 0.0, 0.05])
        self.outages = luck.choice([0, 0, 1, 1, 2])
        self.has_reports = luck.random() < 0.7
        self.has_monitoring = luck.random() < 0.8 or not self.has_reports
        self.world = build_world(seed=self.seed, clock=lambda: self.agenda.now)
        self.units = Units(self.engine)
        shared = self.units, PriceShelf(), self.agenda.seconds
        self.nodes = NodeService(*shared, [PROJECT])
        self.keeps = KeepService(*shared)
        self.cleanup = CleanupService(*shared, [PROJECT], IdleMode(Action.DELETE, TIMES))
        self.fleet = Fleet(self.agenda, self.world, self._luck("fleet"))
        self.oracle = CleanupOracle(self.agenda, self.units, self.fleet, TIMES)
        self.oracle.sees_devices = self.has_reports
        self.seams = Seams(self.agenda, self._luck("seams"), self.fortune)
        self.replica = Replica(
            "r0",
            self.agenda,
            self.world,
            self.engine,
            self.seams,
            lambda _nodes, _lease: None,
            self._luck("replica"),
            more=self._controllers,
        )

    def live(self) -> None:
        """Raises Violation with what went wrong."""
        self._settle_the_world(missing=())
        self._ask_for_nodes()
        self.fleet.begin()
        self.replica.begin()
        self._people()
        luck = self._luck("outages")
        for _ in range(self.outages):
            self.agenda.after(luck.uniform(1_800, STORMY_SECONDS - 900), self._lose_telemetry)
        self.agenda.pass_(STORMY_SECONDS)
        self.seams.calm = True
        self.agenda.pass_(CALM_SECONDS)
        self.oracle.at_rest()

    @property
    def told(self) -> list[tuple[int, str]]:
        """When which node was ended."""
        return [(end.at, end.node.id) for end in self.oracle.ends]

    def _settle_the_world(self, missing: Sequence[str]) -> None:
        always = () if self.has_monitoring else (ZONE,)
        told = {
            "played_workers": "all" if self.has_reports else "none",
            "telemetry": {
                "cores": 1,
                "delay_seconds": 90,
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
        self.agenda.after(900, lambda: self._settle_the_world(()))

    def _ask_for_nodes(self) -> None:
        luck = self._luck("nodes")
        idle = 0
        for number in range(luck.randint(5, 10)):
            workload = luck.choice(list(Workload))
            if workload in (Workload.IDLE, Workload.DONE):
                idle += 1
                workload = workload if idle <= MOST_IDLE else Workload.BUSY
            own = IdlePolicy(
                after_seconds=luck.choice([900, 1_200]),
                grace_seconds=GRACE,
                action=luck.choice(["delete", "delete", "delete", "notify"]),
            )
            is_dark = luck.random() < 0.1
            wish = Wish(
                project=PROJECT,
                name=f"n-{number}",
                owner=luck.choice(["ada", "ada", "bob", "", ""]),
                accelerator_type=luck.choice(["v5litepod-8", "v5litepod-8", "v5litepod-16"]),
                zone=ZONE,
                idle=own,
                supervisor=not is_dark,
            )
            node = self.nodes.request(wish).node
            self.fleet.lives[node.id] = Life(workload, own.after_seconds)
            if is_dark:
                self.oracle.unseen.add(node.id)
        self.agenda.after(300, lambda: self._settle_the_world(()))

    def _people(self) -> None:
        luck = self._luck("people")
        for node_id in self.fleet.lives:
            if luck.random() < 0.5:
                when, seconds = luck.uniform(300, 2_700), luck.choice([3_600, 7_200])
                self.agenda.after(when, partial(self._keep, node_id, seconds))
            if luck.random() < 0.2:
                when = luck.uniform(1_200, STORMY_SECONDS)
                self.agenda.after(when, partial(self._reboot, node_id))
        if luck.random() < 0.3:
            self.agenda.after(
                luck.uniform(600, 3_600), partial(self._pause, luck.uniform(60, 3_000))
            )

    def _keep(self, node_id: str, seconds: int) -> None:
        with suppress(StewardError):
            self.keeps.keep(node_id, KeepOrder("a demo", for_seconds=seconds))

    def _reboot(self, node_id: str) -> None:
        """The host fails and comes back: what its workers had written stays."""
        with self.units.reading() as unit:
            node = unit.nodes.get(node_id)
        with suppress(ApiError):
            control.break_host(self.world, {"name": f"{PARENT}/nodes/{node.cloud_id}"})

    def _pause(self, seconds: float) -> None:
        self.cleanup.pause(PROJECT, "ada", "a demo")
        self.oracle.paused = True
        self.agenda.after(seconds, self._resume)

    def _resume(self) -> None:
        self.oracle.paused = False
        self.cleanup.resume(PROJECT)

    def _controllers(self) -> Sequence[tuple[float, Controller]]:
        """What this simulation adds to a daemon, made anew with each."""
        channel = LocalChannel(self.world, self.agenda.pass_)
        pace = Pace(lambda: self.agenda.now)
        cloud: Any = SeamedCloud(
            GoogleTpus(tpu_client(channel), pace, ONCE), self.seams, self.engine
        )
        units = SeamedUnits(self.engine, self.seams, self.oracle.committed)
        clock = self.agenda.seconds
        telemetry = GoogleTelemetry(monitoring_client(channel), ONCE)
        reader = TelemetryReader(telemetry, clock, TIMES.telemetry + TIMES.period, at_once)
        manners = IdleManners(
            TIMES,
            Action.DELETE,
            lambda: self.agenda.now,
            ReportReader(cloud, clock, TIMES, at_once),
        )
        controller = IdleController(units, PriceShelf(), clock, reader, DaemonActs(), manners)
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
        logs = stack.enter_context(capture_logs())
        living = Run(seed, engine, agenda)
        try:
            living.live()
            _check_logs(logs)
        except Exception as error:
            error.add_note(f"again with: python -m tests.simulation.cleanup {seed}")
            raise
        return living
