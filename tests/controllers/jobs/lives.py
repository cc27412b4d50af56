"""Whole lives of jobs: the real controllers over Google's clients, an emulated cloud whose workers
are played, and what happens on the way.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine, event, select, text
from structlog.testing import capture_logs

from service.application.jobs.jobs import JobService
from service.application.nodes.nodes import NodeService
from service.application.nodes.requests import NodeRequests
from service.cloud.google.channel import tpu_client
from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace, ReportPace
from service.controllers.inventory.inventory import InventoryController
from service.controllers.jobs.jobs import JobsController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import CloudError, ImageNotFound
from service.domain.jobs import outcome
from service.domain.jobs import step as job_step
from service.domain.jobs.image import ImageFacts
from service.domain.jobs.job import Attempt, Job, JobSpec, Phase, Reason, Retries, TaskAction
from service.domain.jobs.submission import Submission
from service.domain.jobs.task import KEY
from service.domain.lease import Lease
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.request import RequestedNode
from service.emulator.api.methods import RPCS
from service.emulator.app import attach_observers
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.world.bill import Transition
from service.emulator.world.container_runs import ContainerRun
from service.emulator.world.world import World
from service.store import tables
from service.store.engine import make_engine, make_reading_engine
from service.store.pricebook import PriceBookCache
from service.store.tables.schema import metadata
from service.store.unit import Units
from tests.controllers.jobs.crossings import Crossing, Crossings
from tests.databases import fresh_database
from tests.fake_jobs import DIGEST
from tests.fakes import Killed
from tests.simulation.clock import Agenda, set_databases_clock
from tests.simulation.crash_points import Saved, SeamedCloud, SeamedUnits
from tests.simulation.invariants import LABEL, Invariants, Violation
from tests.simulation.jobs.oracle import JobOracle
from tests.simulation.jobs.watching import WatchedUnits

PROJECT = "lab"
ONE_HOST, FOUR_HOSTS = "v5litepod-8", "v5litepod-16"
TICK = 5
INVENTORY_TICKS, METERING_TICKS = 3, 12
LONGEST_TICKS = 600
LATE_SECONDS = 8
"""So long after the death of its daemon takes effect what was sent: the next one acts by then."""


class Ground:
    """One database for many lives, empty before each of them: a new engine for each would build all
    statements again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_file = engine.dialect.name == "sqlite"
        if self._is_file:
            engine.dispose()
            self._file = Path(str(engine.url.database))
            self._empty = self._file.read_bytes()

    def house(self, crossings: Crossings) -> House:
        """A house on the empty database."""
        if self._is_file:
            self._engine.dispose()
            for end in ("-wal", "-shm"):
                Path(f"{self._file}{end}").unlink(missing_ok=True)
            self._file.write_bytes(self._empty)
        else:
            with self._engine.begin() as connection:  # without the triggers that refuse it
                connection.execute(text("SET LOCAL session_replication_role = replica"))
                for table in reversed(metadata.sorted_tables):
                    connection.execute(table.delete())
        return House(self._engine, crossings)


def _wait_for_no_disk(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
    connection.commit()


class House:
    """A daemon, its database and its cloud; the daemon may die, and another one takes its place."""

    lease: Lease

    def __init__(self, engine: Engine, crossings: Crossings) -> None:
        self.engine, self.crossings = engine, crossings
        crossings.later, crossings.situation = self._let_happen_later, self.situation
        self.agenda = Agenda()
        if engine.dialect.name == "sqlite":
            set_databases_clock(engine, self.agenda)
        else:
            event.listen(engine, "connect", _wait_for_no_disk)
        self.world = World(lambda: self.agenda.now, RPCS, seed=7)
        self.played = attach_observers(self.world)
        control.change_config(self.world, {"played_workers": "all"})
        self.units = Units(engine)
        self.truth = Invariants(self.world)
        self.oracle = JobOracle(self.agenda, self.world, self.units, self.truth)
        self.registry_errors: list[Exception] = []
        self.jobs: list[Job] = []
        self.callers: list[Node] = []
        self.given_up: set[str] = set()
        """The ids of the nodes that their callers delete, whatever runs there."""
        self.made: Counter[str] = Counter()
        """By the id of our node: how many nodes were made of it in the cloud."""
        self.states: set[str] = set()
        """Every state in which a job was written down."""
        self.deaths = self._ticks = 0
        self.world.observers.append(self._moved)
        shared = self.units, PriceBookCache(), self.agenda.seconds
        self.nodes = NodeService(*shared, [PROJECT])
        requests = NodeRequests(*shared, [PROJECT])
        self.service = JobService(*shared, requests, [PROJECT])
        self.start_daemon()

    # the daemon

    def start_daemon(self) -> None:
        """A daemon begins with nothing in memory."""
        clock = self.agenda.seconds
        with self.units() as unit:
            if self.deaths:
                unit.leases.release(self.lease)
            held = unit.leases.take(PROJECT, f"daemon-{self.deaths}", 36_000)
        assert held is not None
        self.lease = held
        real = GoogleTpus(
            tpu_client(LocalChannel(self.world)),
            Pace(lambda: self.agenda.now),
            ONCE,
            report_pace=ReportPace(lambda: self.agenda.now),
        )
        cloud: Any = SeamedCloud(real, self.crossings, self.engine)  # type: ignore[arg-type]
        seamed: tuple[Engine, Any, Saved] = self.engine, self.crossings, self.truth.committed
        units = SeamedUnits(*seamed)
        shared = units, cloud, PriceBookCache(), clock
        self._inventory = InventoryController(*shared)
        steps = Steps(StepContext(*shared, Installation(install="test", period=TICK)))
        self._lifecycle = LifecycleController(*shared, steps)
        self._lifecycle.workers = 1
        self._metering = MeteringController(units, PriceBookCache(), clock)
        of_jobs = WatchedUnits(*seamed, self._jobs_saved)
        requests = NodeRequests(of_jobs, PriceBookCache(), clock, [PROJECT])
        registry = _Registry(self)
        self._controller = JobsController(of_jobs, cloud, registry, requests, clock, TICK)
        self._controller.workers = 1

    def tick(self) -> None:
        """Five seconds pass, and the daemon has its turn; after a dead one the next begins."""
        self.agenda.pass_(TICK)
        self.world.run_due_events()
        self._ticks += 1
        try:
            self._turn()
        except Killed:
            self.deaths += 1
            self.start_daemon()

    def _turn(self) -> None:
        lease = self.lease
        if self._ticks % INVENTORY_TICKS == 0:
            self._inventory.tick(lease)
            with self.units() as unit:
                looked_at = self._inventory.looked_at.get(PROJECT, 0)
                unit.leases.take(PROJECT, lease.holder, 36_000, looked_at)
        self._lifecycle.tick(lease)
        self._controller.tick(lease)
        if self._ticks % METERING_TICKS == 0:
            self._metering.tick(lease)

    def _let_happen_later(self, work: Callable[[], Any]) -> None:
        def land() -> None:
            with suppress(CloudError):  # the answer reaches nobody
                work()

        self.agenda.after(LATE_SECONDS, land)

    def _jobs_saved(self, jobs: Sequence[Job], attempts: Sequence[Attempt]) -> None:
        self.states |= {job.state for job in jobs}
        self.oracle.committed(jobs, attempts)

    def _moved(self, transition: Transition) -> None:
        record = self.world.nodes.get(transition.name)
        if record is None:
            return
        owner = record.message.labels.get(LABEL, "")
        if not transition.before:
            self.made[owner] += 1
        if transition.after == "DELETING":
            self._check_unused(owner, transition)

    def _check_unused(self, owner: str, transition: Transition) -> None:
        """No node is deleted below a container of an attempt that goes on."""
        with self.units.reading() as unit:
            attempt = unit.jobs.find_claim(owner)
        for run in self.world.runs:
            ran = run.node == transition.name and run.end in (None, transition.at)
            is_used = attempt is not None and attempt.id == run.attempt and _goes_on(attempt)
            if ran and is_used and owner not in self.given_up:
                self.truth.wrong(f"the node was deleted on which {run.attempt} runs")

    # callers

    def node(self, **changes: Any) -> Node:
        """A caller's node, READY."""
        node = self.nodes.request(_request(**changes)).node
        self.callers.append(node)
        while self.nodes.get(node.id).state != NodeState.READY:
            self.tick()
        return self.nodes.get(node.id)

    def submit(
        self, env: Mapping[str, object], on: Node | None = None, request: Any = (), **spec: Any
    ) -> Job:
        """A job on that node, or with a node of its own."""
        told = {name: str(value) for name, value in env.items()}
        made = JobSpec(**{"image": IMAGE, "args": ("train.py",), "env": told, **spec})
        around: Any = {"node_request": _request(**dict(request))} if on is None else {"node": on.id}
        job = self.service.submit(Submission(made, owner="ada", **around)).shown.job
        self.states.add(job.state)
        self.jobs.append(job)
        return job

    # looks

    def job(self, number: int = 0) -> Job:
        """A job as it is stored now."""
        with self.units.reading() as unit:
            return unit.jobs.get(self.jobs[number].id)

    def attempts(self, number: int = 0) -> Sequence[Attempt]:
        """Its attempts, first to last."""
        with self.units.reading() as unit:
            return unit.jobs.list_attempts(self.jobs[number].id)

    def runs(self, number: int = 0) -> list[ContainerRun]:
        """Its containers, as they really ran."""
        return [run for run in self.world.runs if run.job == self.jobs[number].id]

    def all_nodes(self) -> list[Node]:
        """Every node that is written down, the oldest first."""
        with self.units.reading() as unit, make_reading_engine(self.engine).begin() as connection:
            ids = connection.execute(select(tables.nodes.c.id)).scalars().all()
            return [unit.nodes.get(id_) for id_ in sorted(ids)]

    @property
    def is_at_rest(self) -> bool:
        """Whether no job has anything to do any more, and only nodes of callers are left."""
        with self.units.reading() as unit:
            jobs = [unit.jobs.get(job.id) for job in self.jobs]
        busy = any(not job.ended or job.next_try_at is not None for job in jobs)
        callers = {node.id for node in self.callers}
        return not busy and all(node.has_ended or node.id in callers for node in self.all_nodes())

    def situation(self) -> Situation:
        """What is written down, and what the cloud holds."""
        with self.units.reading() as unit:
            jobs = [unit.jobs.get(job.id) for job in self.jobs]
            attempts = [attempt for job in jobs for attempt in unit.jobs.list_attempts(job.id)]
        nodes = self.all_nodes()
        order = {job.id: number for number, job in enumerate(jobs)}
        return Situation(
            states=tuple(job.state for job in jobs),
            own=tuple(job.own_node for job in jobs),
            cancelled=tuple(job.cancel_requested_at is not None for job in jobs),
            attempts=tuple(
                Stage(
                    order[attempt.job_id],
                    attempt.number,
                    attempt.phase,
                    attempt.action,
                    attempt.written_at is not None,
                    attempt.echoed,
                    attempt.released_at is None,
                )
                for attempt in attempts
            ),
            nodes=tuple(
                (
                    node.asked,
                    node.state,
                    node.attempt,
                    bool(node.operation),
                    node.sent_at is not None,
                    node.unanswered_at is not None,
                )
                for node in nodes
            ),
            cloud=tuple(sorted(record.state for record in self.world.nodes.values())),
        )

    # the end

    def close(self) -> None:
        """Callers delete their nodes, and the books are read. Raises Violation."""
        self.crossings.calm = True
        self.tick()  # until the last task has arrived
        self._check_free()
        for node in self.callers:
            if not self.nodes.get(node.id).has_ended:
                self.nodes.delete(node.id)
        for _ in range(LONGEST_TICKS):
            if all(self.nodes.get(node.id).has_ended for node in self.callers):
                break
            self.tick()
        self._metering.tick(self.lease)
        self.truth.at_rest(self.units, self.all_nodes(), lied=0)
        self.oracle.at_rest(self.jobs)

    def _check_free(self) -> None:
        """Once every job has ended, no caller's node is claimed, no container runs, and the
        supervisors that had a task were told to let go."""
        with self.units.reading() as unit:
            claimed = [node.name for node in self.callers if unit.jobs.find_claim(node.id)]
        running = [run.attempt for run in self.world.runs if run.end is None]
        if claimed or running:
            raise Violation(f"{claimed} are claimed and {running} run though every job has ended")
        for name, record in self.world.nodes.items():
            task = json.loads(record.message.metadata.get(KEY, "{}"))
            if task and task["action"] != "release" and record.state == NodeState.READY:
                raise Violation(f"{name} is still told to {task['action']}")

    def end(self) -> End:
        """How the jobs ended."""
        starts = [(*run.attempt.rpartition("-")[::2], run.worker) for run in self.world.runs]
        order = {job.id: number for number, job in enumerate(self.jobs)}
        return End(
            jobs=tuple(
                (job.state, str(job.reason), tuple(sorted(job.exit_codes.items())))
                for job in map(self.job, range(len(self.jobs)))
            ),
            attempts=tuple(
                tuple(str(attempt.reason) for attempt in self.attempts(number))
                for number in range(len(self.jobs))
            ),
            starts=tuple(sorted((order[job], int(attempt), who) for job, attempt, who in starts)),
            nodes=tuple(sorted(self.made.values())),
        )


class _Registry:
    """A registry that has every image, until a life takes it away."""

    def __init__(self, house: House) -> None:
        self._house = house

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """What the registry says."""
        return self._house.crossings.call("resolve", lambda: self._answer(image, architecture))

    def _answer(self, image: str, architecture: str) -> ImageFacts:
        if image == MISSING:
            raise ImageNotFound(f"the registry has no {image}")
        if self._house.registry_errors:
            raise self._house.registry_errors.pop()
        return ImageFacts(DIGEST, (f"linux/{architecture}",))


@dataclass(frozen=True, slots=True)
class Stage:
    """How far an attempt has come: that of a job, by its number in the life."""

    job: int
    number: int
    phase: Phase
    action: TaskAction
    written: bool
    echoed: bool
    holds: bool
    """Whether its claim on the node stands."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What matters of the records and of the cloud at one moment: equal where nothing changed."""

    states: tuple[str, ...]
    own: tuple[bool, ...]
    """Whether the job has a node of its own."""
    cancelled: tuple[bool, ...]
    attempts: tuple[Stage, ...]
    nodes: tuple[Any, ...]
    cloud: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class End:
    """How a life ended: the state, reason and exit codes of each job; why each attempt ended; which
    worker of which attempt started a container, each start once; and how many nodes were made."""

    jobs: tuple[Any, ...]
    attempts: tuple[tuple[str, ...], ...]
    starts: tuple[tuple[int, int, int], ...]
    nodes: tuple[int, ...]

    @property
    def told(self) -> tuple[str, ...]:
        """The same as a life says it beforehand."""
        return tuple(
            f"{state}: {', '.join(reasons)}"
            for (state, *_), reasons in zip(self.jobs, self.attempts, strict=True)
        )


def _goes_on(attempt: Attempt) -> bool:
    """Whether nobody has given the attempt up."""
    return not attempt.ended and attempt.stop_reason is Reason.UNDECIDED


Happening = Callable[[House], bool]
"""Something from outside, tried after each tick until it answers that it happened."""


@dataclass(frozen=True, slots=True)
class Life:
    """What is there when the daemon begins to be watched, and what happens then, in order.

    `ends` has the final state of each job, and why each of its attempts ended.
    """

    ends: tuple[str, ...]
    begin: Callable[[House], Any]
    happenings: tuple[Happening, ...] = ()
    impatient: bool = False
    """Whether silence and the search for evidence are given up early, to save time."""

    def live(self, house: House, *, shortened: bool = False) -> None:
        """Live until all is at rest; a `shortened` life may end before all has happened."""
        with ExitStack() as stack:
            if self.impatient:
                stack.enter_context(patch.object(job_step, "SILENT_SECONDS", 120))
                stack.enter_context(patch.object(outcome, "CLASSIFY_SECONDS", 45))
            self._live(house, shortened=shortened)

    def _live(self, house: House, *, shortened: bool) -> None:
        self.begin(house)
        house.crossings.calm = False
        to_come = list(self.happenings)
        for _ in range(LONGEST_TICKS):
            house.tick()
            if to_come and to_come[0](house):
                to_come.pop(0)
            if house.is_at_rest and (shortened or not to_come):
                return
        found = [house.job(number) for number in range(len(house.jobs))]
        told = ", ".join(f"{job.state} next at {job.next_try_at}" for job in found)
        raise Violation(f"never at rest: {told}, {len(to_come)} things did not come")


IMAGE = "us-docker.pkg.dev/lab/train/jax:7"
MISSING = "us-docker.pkg.dev/lab/train/missing:7"
SHORT = {"EMULATOR_DURATION_SECONDS": 20, "EMULATOR_PULL_SECONDS": 15}
LONG = {"EMULATOR_DURATION_SECONDS": 7_200}
SLOW = {"EMULATOR_PULL_SECONDS": 1_200}
"""So long that nothing starts, however often daemons die until the job is stopped."""


def _request(**changes: Any) -> RequestedNode:
    base = {"project": PROJECT, "accelerator_type": ONE_HOST, "zone": "us-west4-a"}
    return RequestedNode(**{**base, **changes})


def _after(
    seconds: float, act: Callable[[House], Any], job: int = 0, attempt: int = 1
) -> Happening:
    """Act once a container of that attempt of a job has run for so long, whoever knows of it."""

    def happen(house: House) -> bool:
        runs = [run for run in house.runs(job) if run.attempt.endswith(f"-{attempt}")]
        if not runs or runs[-1].end is not None or house.agenda.now < runs[-1].start + seconds:
            return False
        act(house)
        return True

    return happen


def _once(state: str, act: Callable[[House], Any], job: int = 0) -> Happening:
    """Act once the job is in that state."""

    def happen(house: House) -> bool:
        if house.job(job).state != state:
            return False
        act(house)
        return True

    return happen


def _cancel(number: int = 0) -> Callable[[House], None]:
    def act(house: House) -> None:
        house.service.cancel(house.jobs[number].id)

    return act


def _preempt(house: House) -> None:
    [run] = [run for run in house.runs() if run.end is None]
    control.preempt_node(house.world, {"name": run.node, "force": True})


def _refuse_deletions(house: House, seconds: float) -> None:
    fault = {"rpc": "DeleteNode", "action": "error", "code": "UNAVAILABLE"}
    control.add_fault(house.world, {**fault, "for_seconds": seconds})


def _cancel_in_vain(house: House) -> None:
    """Cancel when the node can neither be deleted nor be kept from starting the container."""
    _refuse_deletions(house, 60)
    _cancel()(house)


def _silence(house: House) -> None:
    """The supervisor dies, and its container runs on until its node goes, which takes long."""
    [run] = [run for run in house.runs() if run.end is None]
    _refuse_deletions(house, 360)
    for worker in house.played.workers_of(house.world.nodes[run.node]):
        worker.on = False


def _stop(house: House) -> None:
    house.nodes.stop(house.callers[0].id)


def _delete(house: House) -> None:
    house.given_up.add(house.callers[0].id)
    house.nodes.delete(house.callers[0].id)


def _start_once_it_ended(house: House) -> bool:
    """Start the node again, once it is stopped and the first job has ended."""
    if not house.job().ended or house.nodes.get(house.callers[0].id).state != NodeState.STOPPED:
        return False
    house.nodes.start(house.callers[0].id)
    return True


def _once_made(act: Callable[[House], Any]) -> Happening:
    """Act once the cloud makes a node."""

    def happen(house: House) -> bool:
        if not house.world.nodes:
            return False
        act(house)
        return True

    return happen


def _delete_own(house: House) -> None:
    house.nodes.delete(house.job().node_id)


def _own(env: Mapping[str, object] = SHORT, **more: Any) -> Callable[[House], Any]:
    return lambda house: house.submit(env, **more)


def _in_line(*jobs: Mapping[str, object]) -> Callable[[House], None]:
    """Jobs in line for one caller's node."""

    def begin(house: House) -> None:
        node = house.node()
        for env in jobs:
            house.submit(env, node)

    return begin


def _on_spot(house: House) -> None:
    control.change_config(house.world, {"durations": {"delete": 30}})
    house.submit(SHORT, request={"provisioning_model": ProvisioningModel.SPOT})


def _with_a_defect(house: House) -> None:
    house.registry_errors.append(ZeroDivisionError("a defect of ours"))
    house.submit(SHORT)


LIVES: Mapping[str, Life] = {
    "succeeds": Life(("SUCCEEDED: COMPLETED",), _own()),
    "pod": Life(("SUCCEEDED: COMPLETED",), _own(request={"accelerator_type": FOUR_HOSTS})),
    "preempted": Life(("SUCCEEDED: PREEMPTED, COMPLETED",), _on_spot, (_after(10, _preempt),)),
    "queued": Life(
        ("CANCELLED: CANCELLED",),
        _own(SLOW, request={"queued": True}),
        (_once("PULLING", _cancel()),),
    ),
    "fails": Life(
        ("FAILED: PROGRAM_FAILED, PROGRAM_FAILED",),
        _own({**SHORT, "EMULATOR_EXIT_CODE": 7}, retries=Retries(failure=1)),
    ),
    "silent": Life(
        ("CANCELLED: SUPERVISOR_SILENT, CANCELLED",),
        _own(LONG, retries=Retries(failure=1)),
        (_after(10, _silence), _after(10, _cancel(), attempt=2)),
        impatient=True,
    ),
    "times_out": Life(("TIMED_OUT: TIMED_OUT",), _own(LONG, max_duration_seconds=30)),
    "cancelled": Life(("CANCELLED: CANCELLED",), _own(LONG), (_after(10, _cancel()),)),
    "cancelled_early": Life(("CANCELLED: CANCELLED",), _own(LONG), (_once_made(_cancel_in_vain),)),
    "deleted_early": Life(("FAILED: NODE_DELETED",), _own(SLOW), (_once_made(_delete_own),)),
    "no_image": Life(("FAILED: IMAGE_NOT_FOUND",), _own(image=MISSING)),
    "defect": Life(("SUCCEEDED: COMPLETED",), _with_a_defect),
    "callers_node": Life(("SUCCEEDED: COMPLETED",), _in_line(SHORT)),
    "stopped_below": Life(
        ("FAILED: NODE_DELETED", "SUCCEEDED: COMPLETED"),
        _in_line(LONG, SHORT),
        (_after(5, _stop), _start_once_it_ended),
    ),
    "deleted_in_line": Life(
        ("FAILED: NODE_DELETED", "FAILED: "), _in_line(LONG, SHORT), (_after(5, _delete),)
    ),
    "in_line": Life(("SUCCEEDED: COMPLETED", "SUCCEEDED: COMPLETED"), _in_line(SHORT, SHORT)),
    "cancelled_in_line": Life(
        ("SUCCEEDED: COMPLETED", "CANCELLED: "), _in_line(SHORT, SHORT), (_after(5, _cancel(1)),)
    ),
}


@dataclass(frozen=True)
class Record:
    """An undisturbed life: its crossings, those of them that no life before it has, how it ended,
    and the states in which its jobs were written down."""

    passed: list[Crossing]
    new: list[Crossing]
    end: End
    states: set[str]

    @property
    def stages(self) -> set[Stage]:
        """How far its attempts were at each crossing."""
        return {stage for crossing in self.passed for stage in crossing.situation.attempts}


@cache
def records() -> dict[str, Record]:
    """All lives, undisturbed."""
    found, known = {}, set[Crossing]()
    with (
        capture_logs(),
        tempfile.TemporaryDirectory() as folder,
        fresh_database("sqlite", Path(folder)) as address,
    ):
        engine = make_engine(address)
        ground = Ground(engine)
        for name in LIVES:
            found[name] = _record(ground, name, known)
            known.update(found[name].new)
        engine.dispose()
    return found


def _record(ground: Ground, name: str, known: set[Crossing]) -> Record:
    crossings = Crossings(recording=True)
    house = ground.house(crossings)
    LIVES[name].live(house)
    house.close()
    new = [crossing for crossing in dict.fromkeys(crossings.passed) if crossing not in known]
    return Record(crossings.passed, new, house.end(), house.states)
