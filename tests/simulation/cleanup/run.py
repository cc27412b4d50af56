"""One run of the cleanup: a fleet works and rests, telemetry fails, and a daemon watches it all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random
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
from service.controllers.idle.idle import IdleController, IdleSettings
from service.controllers.idle.readings import TelemetryReader, at_once
from service.controllers.idle.report_reads import ReportReader
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.idle.assess import IdleTimes
from service.domain.idle.cleanup import Cleanup
from service.domain.idle.policy import Policy, Recipient, rule_of
from service.domain.lease import Lease
from service.domain.nodes.node import IdlePolicy, Node
from service.domain.nodes.request import RequestedNode
from service.emulator.app import build_world
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.cleanup.faults import FaultyTelemetry, FaultyWorkers, ReadFaults
from tests.simulation.cleanup.fortune import MASS, THRONG_IDLE, Fortune
from tests.simulation.cleanup.oracle import CleanupOracle
from tests.simulation.cleanup.people import PUBLIC_URL, People
from tests.simulation.cleanup.programs import Programs
from tests.simulation.cleanup.rails import RoundUnits
from tests.simulation.cleanup.treasury import Treasury
from tests.simulation.cleanup.workloads import RESTS, Fleet, Life, Workload
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
THRONG = 36
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
BROKEN = {
    "tick.broke",
    "lifecycle.failed",
    "idle.read_broke",
    "idle.reports_broke",
    "budget.failed",
}


@dataclass
class Run:
    """Everything of one run; `seed` decides all of it."""

    seed: int
    engine: Any
    agenda: Agenda

    def __post_init__(self) -> None:
        self.fate = fate = Fortune(self.seed)
        self.world = build_world(seed=self.seed, clock=lambda: self.agenda.now)
        self.units = Units(self.engine)
        shared = self.units, PriceBookCache(), self.agenda.seconds
        self.nodes = NodeService(*shared, [PROJECT])
        self.keeps = KeepService(*shared)
        self.links = LinkService(*shared, self.nodes)
        self.cleanup = CleanupService(*shared, [PROJECT], IdleMode(fate.ceiling, TIMES))
        self.fleet = Fleet(self.agenda, self.world, self._luck("fleet"))
        self.faults = ReadFaults(self.agenda, self._luck("faults"))
        self.oracle = CleanupOracle(
            self.agenda,
            self.units,
            self.fleet,
            TIMES,
            fate.ceiling,
            self.faults,
            is_clear=fate.is_clear,
            is_hazy=bool(fate.gaps or fate.late),
            sees_devices=fate.has_reports,
            has_metrics=fate.has_monitoring,
        )
        self.people = People(self, self._luck("people"), self._luck("more people"))
        self.programs = Programs(self, self._luck("programs"))
        self.treasury = Treasury(self, self._luck("treasury")) if fate.has_budget else None
        self.seams = CrashPoints(self.agenda, self._luck("seams"), fate.rates)
        self._restarts = self._luck("restarts")
        self.replica = Replica(
            "r0",
            self.agenda,
            self.world,
            self.engine,
            self.seams,
            self._see_commit,
            self._luck("replica"),
            more=self._controllers,
            lifecycle_seconds=LIFECYCLE_SECONDS,
            inventory_seconds=INVENTORY_SECONDS,
        )

    def _see_commit(
        self, nodes: Iterable[Node], lease: Lease | None, row: Cleanup | None = None
    ) -> None:
        """Judge what was written. In a throng, the daemon is mostly restarted just after it has
        ended a node, while others wait for their turn."""
        before = len(self.oracle.ends)
        self.oracle.committed(nodes, lease, row)
        has_ended = len(self.oracle.ends) > before
        if self.fate.is_throng and has_ended and self._restarts.random() < 0.8:
            self.agenda.after(2, self.replica.end)

    def live(self) -> None:
        """Raises Violation with what went wrong."""
        self._settle_the_world(missing=())
        if self.treasury is not None:
            self.treasury.begin()
        self._ask_for_nodes()
        self.fleet.begin()
        self.replica.begin()
        self.people.begin(self.fleet.lives)
        self.programs.begin(self.fleet.lives)
        luck = self._luck("outages")
        for _ in range(self.fate.outages):
            self.agenda.after(luck.uniform(1_800, STORMY_SECONDS - 900), self._lose_telemetry)
        if self.fate.has_faults:
            self.faults.draw(self.agenda.now + STORMY_SECONDS)
        self.agenda.pass_(STORMY_SECONDS)
        self.seams.calm = True
        self._calm_down()
        self.oracle.at_rest()
        if not self.fate.gaps:
            self.oracle.in_time(DELAY)

    def _calm_down(self) -> None:
        """Live on until all that is idle has gone, and for as long as that may take at most."""
        longest = CALM_SECONDS + (OTHERS_SECONDS if self.fate.most_idle > 3 else 0)
        end = self.agenda.seconds() + longest
        self.agenda.pass_(longest if self.fate.is_long else LEAST_CALM_SECONDS)
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
        always = () if self.fate.has_monitoring else (ZONE,)
        told = {
            "played_workers": "all" if self.fate.has_reports else "none",
            "telemetry": {
                "cores": self.fate.cores,
                "delay_seconds": DELAY,
                "gap_share": self.fate.gaps,
                "late_share": self.fate.late,
                "missing": [*always, *self._dark(), *missing],
            },
        }
        control.change_config(self.world, told)

    def _dark(self) -> list[str]:
        """The cloud's names of nodes that no metric ever shows."""
        with self.units.reading() as unit:
            nodes = [unit.nodes.get(node_id) for node_id in sorted(self.oracle.unseen)]
        return [f"{PARENT}/nodes/{node.cloud_id}" for node in nodes]

    def _lose_telemetry(self) -> None:
        self._settle_the_world((ZONE,))
        seconds = self._luck("outage").choice([900, 3_600])
        self.faults.add_outage(seconds)
        self.agenda.after(seconds, lambda: self._settle_the_world(()))

    def _ask_for_nodes(self) -> None:
        luck = self._luck("nodes")
        with self.units() as unit:
            rule = rule_of(INHERITED)
            told = (Recipient(emails=("ada@example.com",)),)
            unit.idle_policies.save(Policy(f"project:{PROJECT}", rule, told))
        if self.fate.is_throng:
            self._ask_for_a_throng()
            return
        self._idle, ttls = 0, self._luck("ttls")
        for number in range(self._count_wanted(luck)):
            self._ask_for_node(luck, number, ttls)
        self.agenda.after(300, lambda: self._settle_the_world(()))

    def _choose_workload(self, luck: Random) -> Workload:
        is_first = self.fate.is_crowd or self.fate.is_mass
        if is_first and self._idle < self.fate.most_idle:
            self._idle += 1
            return Workload.IDLE
        workload = luck.choice(list(Workload))
        if workload not in RESTS:
            return workload
        self._idle += 1
        return workload if self._idle <= self.fate.most_idle else Workload.BUSY

    def _ask_for_node(self, luck: Random, number: int, ttls: Random) -> None:
        workload = self._choose_workload(luck)
        own = IdlePolicy(
            after_seconds=luck.choice([900, 1_200]),
            grace_seconds=GRACE,
            action=luck.choice(["delete", "delete", "delete", "notify"]),
        )
        dark = 0.3 if self.fate.has_ttls else 0.1
        is_inherited, is_dark = luck.random() < 0.3, luck.random() < dark
        # more that go dark at once are an outage, and the breaker is right to stay open
        is_dark = is_dark and 4 * (len(self.oracle.unseen) + 1) <= number + 1
        if self.fate.is_mass:
            own, is_dark = replace(own, action="delete"), False
        spot = 0.8 if self.fate.is_meddled else 0.3
        is_spot = luck.random() < spot and not is_dark  # made again, it would be seen
        request = RequestedNode(
            project=PROJECT,
            name=f"n-{number}",
            owner=luck.choice(["ada", "ada", "bob", "", ""]),
            accelerator_type=luck.choice(TYPES),
            zone=ZONE,
            idle=None if is_inherited else own,
            supervisor=not is_dark,
            provisioning_model=ProvisioningModel.SPOT if is_spot else ProvisioningModel.ON_DEMAND,
            recreate_on_preemption=is_spot,
            ttl_seconds=self._draw_ttl(ttls, is_dark=is_dark),
        )
        node = self.nodes.request(request).node
        if request.ttl_seconds is not None:
            self.oracle.ttls[node.id] = request.ttl_seconds
        holds = INHERITED if is_inherited else own
        self.oracle.policies[node.id] = holds
        self.fleet.lives[node.id] = Life(workload, holds.after_seconds)
        if is_dark:
            self.oracle.unseen.add(node.id)

    def _count_wanted(self, luck: Random) -> int:
        if self.fate.is_mass:
            return MASS
        return 12 if self.fate.is_crowd else luck.randint(5, 10)

    def _draw_ttl(self, luck: Random, *, is_dark: bool) -> int | None:
        if not self.fate.has_ttls:
            return None
        ttl = luck.choice([1_500, 2_400, 3_600, 5_000])
        return ttl if is_dark or luck.random() < 0.4 else None

    def _ask_for_a_throng(self) -> None:
        """Many small nodes of nobody: some are idle, the others work."""
        own = IdlePolicy(after_seconds=900, grace_seconds=GRACE, action="delete")
        for number in range(THRONG):
            workload = Workload.IDLE if number < THRONG_IDLE else Workload.BUSY
            request = RequestedNode(
                project=PROJECT,
                name=f"n-{number}",
                accelerator_type="v5litepod-1",
                zone=ZONE,
                idle=own,
            )
            node = self.nodes.request(request).node
            self.oracle.policies[node.id] = own
            self.fleet.lives[node.id] = Life(workload, own.after_seconds)

    def _controllers(self, process: Process) -> Sequence[tuple[int, Controller]]:
        """What this simulation adds to a daemon, made anew with each."""
        channel = LocalChannel(self.world, self.agenda.pass_)
        pace = Pace(lambda: self.agenda.now)
        seams = process.of(self.seams)
        cloud: Any = SeamedCloud(GoogleTpus(tpu_client(channel), pace, ONCE), seams, self.engine)
        units = RoundUnits(self.engine, seams, self._see_commit)
        clock, faults = self.agenda.seconds, self.faults
        telemetry = FaultyTelemetry(GoogleTelemetry(monitoring_client(channel), ONCE), faults)
        overlap = TIMES.telemetry + TIMES.period
        reader = TelemetryReader(telemetry, clock, overlap, faults.begin_read)
        workers: Any = FaultyWorkers(cloud, faults)
        settings = IdleSettings(
            TIMES,
            self.fate.ceiling,
            lambda: self.agenda.now,
            ReportReader(workers, clock, TIMES, at_once),
        )
        controller = IdleController(
            units, PriceBookCache(), clock, reader, DaemonActs(PUBLIC_URL), settings
        )
        found: list[tuple[int, Controller]] = [(TIMES.period, controller)]
        if self.treasury is not None:
            watched = SeamedUnits(self.engine, seams, self._see_commit)
            found += self.treasury.make_controllers(watched)
        return found

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
