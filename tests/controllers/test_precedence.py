"""The table "Precedence": every cell, through the controller or the service that ends the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, update

from service.application.budgets.budgets import BudgetService
from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.daemon import DaemonActs
from service.application.cleanup.keeps import KeepOrder, KeepService
from service.application.cleanup.links import LinkService
from service.application.orphans import Adopter
from service.controllers.budgets.budgets import BudgetController
from service.controllers.idle.idle import IdleController, IdleSettings
from service.controllers.idle.readings import TelemetryReader, at_once
from service.controllers.idle.report_reads import ReportReader
from service.domain.budgets.budget import OnExceeded
from service.domain.clock import DAY, HOUR
from service.domain.errors import Conflict
from service.domain.idle.assess import IdleTimes
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import State
from service.domain.idle.links import Verb
from service.domain.idle.policy import Action
from service.domain.idle.proof import Blocker
from service.domain.idle.rails import Breaker, Rail
from service.domain.idle.signals.signal import Level
from service.domain.jobs.job import Job, Phase
from service.domain.nodes.node import Asked, IdlePolicy, Node, NodeState
from service.domain.orphans.orphan import orphan_id
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.tables import leases
from service.store.unit import Units
from tests import factories
from tests.controllers.idle.conftest import FakeTelemetry, FakeWorkers
from tests.controllers.jobs.conftest import JobLab
from tests.controllers.orphans.test_orphans import Yard
from tests.databases import fresh_database
from tests.fake_jobs import Worker
from tests.fakes import FakeCloud
from tests.hands import NOON, HandClock
from tests.linking import tokens_of
from tests.store.test_jobs import a_job, an_attempt

TABLE = """
rank  what ends it   nothing  keep   unknown  job    rails  pause  observe
1     delete         goes     goes   goes     goes   goes   goes   goes
1     stop           goes     goes   goes     goes   goes   goes   goes
1     delete link    goes     goes   goes     goes   goes   goes   goes
1     apply          goes     stale  stale    goes   goes   goes   goes
2     google         goes     goes   goes     goes   goes   goes   goes
3     job end        goes     stays  goes     stays  goes   goes   goes
4     budget         goes     goes   goes     goes   goes   goes   goes
5     ttl            goes     stays  goes     goes   goes   stays  goes
6     idle           goes     stays  stays    stays  stays  stays  stays
7     orphan         goes     stays  goes     goes   goes   goes   goes
"""
"""`job end` with a job: a new job runs on the kept node, and ends the wait. A plan is stale if the
node was kept, or became UNKNOWN, after it was made; it never has such a node. An orphan has neither
signals nor jobs: here another node of the project is UNKNOWN, or runs a job. To keep an orphan is
to adopt it."""

TIMES = IdleTimes(warmup=60, telemetry=60, start=0, period=60)
DELETES = IdlePolicy(after_seconds=600, grace_seconds=300, action="delete", also=("no_progress",))
TTL = 3 * HOUR


class House(JobLab, Yard):
    """A laboratory in which everything runs that may end a node."""

    workers: FakeWorkers

    def start_daemon(self, holder: str) -> None:
        super().start_daemon(holder)
        self.workers = FakeWorkers(self.clock)
        shared = self.units, PriceBookCache(), self.clock
        books = BudgetService(*shared, self.costs, lambda *_: None)
        self.budgets = BudgetController(*shared, books)
        self.book = books
        self.keeps = KeepService(*shared)
        self.links = LinkService(*shared, self.nodes, TIMES)
        mode = IdleMode(Action.DELETE, TIMES)
        self.cleanup = CleanupService(*shared, [factories.PROJECT], mode)
        self.start_idle(Action.DELETE)
        with self.units() as unit:
            unit.leases.save_log_release(self.lease, releases_deletions=True)
        with self.engine.begin() as connection:
            connection.execute(update(leases).values(held_since=NOON - DAY))

    def start_idle(self, mode: Action) -> None:
        """A cleanup daemon begins, with a mode."""
        workers: Any = self.workers
        reports = ReportReader(workers, self.clock, TIMES, at_once)
        self.idle = IdleController(
            self.units,
            PriceBookCache(),
            self.clock,
            TelemetryReader(FakeTelemetry(self.clock), self.clock, 300, at_once),
            DaemonActs(times=TIMES),
            IdleSettings(TIMES, mode, lambda: float(self.clock()), reports),
        )

    def at_rest(self, **changes: Any) -> Node:
        """A READY node whose workers report that they do nothing."""
        node = self.up(idle=DELETES, ttl_seconds=TTL, **changes)
        self.workers.add(node.cloud_id, node.spec.hosts)
        return node

    def look_idle(self, minutes: int = 1) -> None:
        """Let minutes pass, in each of which the cleanup daemon looks once."""
        for _ in range(minutes):
            self.clock.pass_(60)
            self.workers.report()
            self.idle.tick(self.lease)

    def watched(self, node: Node) -> WatchedNode:
        """The course of a node."""
        with self.units.reading() as unit:
            found = unit.idle_courses.find_by_node(node.id)
        assert found is not None
        return found

    def notified(self, node: Node) -> Node:
        """The node once its people were notified that it is idle."""
        for _ in range(60):
            self.look_idle()
            if self.watched(node).course.state is State.NOTIFIED:
                return self.node(node)
        raise AssertionError(self.watched(node))

    def run_job(self, node: Node, worker: Worker | None = None) -> Job:
        """A job whose container runs on the node since now."""
        job = self.submit(node=node.id, team="vision")
        self.ticks(20)
        (worker or Worker(self.cloud, node)).run()
        self.ticks(20)
        assert self.state(job) == "RUNNING"
        return job

    def hang_job(self, node: Node) -> None:
        """A job that has run on the node from the beginning, and makes no progress."""
        job = a_job(node_id=node.id)
        with self.units() as unit:
            unit.jobs.add(job, None)
            claimed = {"phase": Phase.RUNNING, "claimed_at": self.clock()}
            unit.jobs.add_attempt(an_attempt(job, node, **claimed))

    def spend(self, ticks: int = 5) -> None:
        """Let the budgets have their turn, every minute."""
        for _ in range(ticks):
            self.clock.pass_(60)
            self.metering.tick(self.lease)
            self.budgets.tick(self.lease)

    def exceed_budget(self, grace: int = 60) -> None:
        """A budget that deletes nodes is exceeded."""
        capping = {"on_exceeded": OnExceeded.DELETE, "grace_seconds": grace, "amount": 1}
        self.book.create(factories.budget(**capping))

    def expire(self, node: Node) -> None:
        """The time to live of the node is over."""
        over_at = self.node(node).deletes_at
        assert over_at is not None
        self.clock.pass_(max(0, over_at - self.clock()))
        self.lifecycle.tick(self.lease)

    def last_event(self, node: Node) -> str:
        """What was written when the end of the node was requested."""
        with self.units.reading() as unit:
            return unit.events.list_by_kind(node.id, "asked", 0)[-1].message


@pytest.fixture
def house(tmp_path: Path, clock: HandClock) -> Iterator[House]:
    """A house on an empty database."""
    with fresh_database("sqlite", tmp_path) as address:
        engine: Engine = make_engine(address)
        yield House(Units(engine), engine, clock, FakeCloud(clock))
        engine.dispose()


def do_nothing(_house: House, _node: Node) -> None:
    """Nothing holds the node."""


def keep(house: House, node: Node) -> None:
    house.keeps.keep_node(node.id, KeepOrder("a demo", for_seconds=DAY))


def lose_signals(house: House, node: Node) -> None:
    house.workers.broken.add(node.cloud_id)
    for _ in range(30):
        house.look_idle()
        verdict = house.watched(node).verdict
        if verdict is not None and verdict.level is Level.UNKNOWN:
            return
    raise AssertionError(house.watched(node))


def run_job(house: House, node: Node) -> None:
    house.run_job(node)


def open_breaker(house: House, _node: Node) -> None:
    with house.units() as unit:
        row = unit.cleanups.get(factories.PROJECT)
        breaker = Breaker(opened_at=house.clock(), reason="the signals of many nodes were lost")
        unit.cleanups.save(replace(row, breaker=breaker))
    house.look_idle()
    with house.units.reading() as unit:
        holds = unit.cleanups.get(factories.PROJECT).holds
    assert [held.rail for held in holds] == [Rail.BREAKER]


def pause(house: House, _node: Node) -> None:
    house.cleanup.pause("", "ada", "a demo")


def observe(house: House, _node: Node) -> None:
    house.start_idle(Action.OBSERVE)
    house.look_idle()


HOLD: dict[str, Callable[[House, Node], None]] = {
    "nothing": do_nothing,
    "keep": keep,
    "unknown": lose_signals,
    "job": run_job,
    "rails": open_breaker,
    "pause": pause,
    "observe": observe,
}


def outcome(house: House, node: Node, asked: Asked = Asked.ABSENT) -> str:
    return "goes" if house.node(node).asked is asked else "stays"


def end_by_delete(house: House, held_by: str) -> str:
    node = house.at_rest()
    HOLD[held_by](house, node)
    house.nodes.delete(node.id, actor="ada")
    return outcome(house, node)


def end_by_stop(house: House, held_by: str) -> str:
    node = house.at_rest()
    HOLD[held_by](house, node)
    house.nodes.stop(node.id, actor="ada")
    return outcome(house, node, Asked.STOPPED)


def idle_node(house: House, held_by: str) -> Node:
    """A node whose people were notified, and then something came to hold it. The job is one that
    makes no progress: the notification was about that."""
    node = house.at_rest()
    if held_by == "job":
        house.hang_job(node)
    return house.notified(node)


def end_by_link(house: House, held_by: str) -> str:
    node = idle_node(house, held_by)
    at = house.watched(node).course.notified_at
    assert at is not None
    token = tokens_of(house.units, node, at=at, now=at)[Verb.DELETE]
    if held_by != "job":
        HOLD[held_by](house, node)
    house.links.use_link(token)
    return outcome(house, node)


def end_by_plan(house: House, held_by: str) -> str:
    node = idle_node(house, held_by)
    comes_later = held_by in {"keep", "unknown"}
    if not comes_later and held_by != "job":
        HOLD[held_by](house, node)
    plan = house.cleanup.make_plan("", "ada")
    assert [entry.node_id for entry in plan.entries] == [node.id]
    if comes_later:
        HOLD[held_by](house, node)
        assert house.cleanup.make_plan("", "ada").entries == ()
        with pytest.raises(Conflict, match="stale"):
            house.cleanup.apply_plan(plan.id, "ada")
        return "stale" if house.node(node).asked is Asked.PRESENT else "goes"
    house.cleanup.apply_plan(plan.id, "ada")
    return outcome(house, node)


def end_by_google(house: House, held_by: str) -> str:
    node = house.at_rest()
    HOLD[held_by](house, node)
    house.cloud.become(NodeState.PREEMPTED, node.place.path)
    house.tick(15)
    return outcome(house, node)


def end_by_job(house: House, held_by: str) -> str:
    job, (worker,) = house.running(node_request=factories.request(idle=DELETES))
    node = house.node_of(job)
    house.workers.add(node.cloud_id)
    HOLD["keep" if held_by == "job" else held_by](house, node)
    worker.exit(0)
    house.ticks(60)
    assert house.state(job) == "SUCCEEDED"
    if held_by == "job":
        house.run_job(node, worker)
        house.keeps.end_keep(node.id)
    with house.units() as unit:  # a kept node is not looked at before the end of the keep
        unit.nodes.wake([node.id], house.clock())
    house.ticks(60)
    return outcome(house, node)


def end_by_budget(house: House, held_by: str) -> str:
    node = house.at_rest()
    HOLD[held_by](house, node)
    house.exceed_budget()
    house.spend()
    return outcome(house, node)


def end_by_ttl(house: House, held_by: str) -> str:
    node = house.at_rest()
    HOLD[held_by](house, node)
    house.expire(node)
    for _ in range(3):  # a notice would be over by then
        house.clock.pass_(HOUR)
        house.lifecycle.tick(house.lease)
    return outcome(house, node)


def end_by_idleness(house: House, held_by: str) -> str:
    node = house.notified(house.at_rest())
    HOLD[held_by](house, node)
    house.look_idle(8)
    return outcome(house, node)


def end_by_collector(house: House, held_by: str) -> str:
    other = house.at_rest()
    house.cloud.heal("create")
    path = house.late(house.over())
    house.look()
    if held_by == "keep":
        house.orphans.adopt(orphan_id(path), Adopter())
    else:
        HOLD[held_by](house, other)
    house.watch()
    return "goes" if house.cloud.nodes[path].state == NodeState.DELETING else "stays"


END: dict[str, Callable[[House, str], str]] = {
    "delete": end_by_delete,
    "stop": end_by_stop,
    "delete link": end_by_link,
    "apply": end_by_plan,
    "google": end_by_google,
    "job end": end_by_job,
    "budget": end_by_budget,
    "ttl": end_by_ttl,
    "idle": end_by_idleness,
    "orphan": end_by_collector,
}


CELLS = [
    (line[6:21].strip(), holder, end)
    for line in TABLE.strip().splitlines()[1:]
    for holder, end in zip(HOLD, line[21:].split(), strict=True)
]
"""What ends the node, what may hold it, and whether it goes."""


@pytest.mark.parametrize(("ender", "held_by", "expected"), CELLS)
def test_each_cell_of_the_table_holds(house, ender, held_by, expected):
    assert END[ender](house, held_by) == expected


def test_the_table_has_every_end_and_every_holder():
    assert [name for name, held_by, _ in CELLS if held_by == "nothing"] == list(END)
    assert TABLE.split()[4:11] == list(HOLD)


@pytest.mark.parametrize(
    ("ender", "said"),
    [
        ("delete", "deletion requested; the keep until"),
        ("stop", "stop requested; the keep until"),
        ("delete link", "; the keep until"),
        ("budget", "(a demo), because a keep does not stop a budget"),
    ],
)
def test_an_end_that_no_keep_holds_back_ends_the_keep_and_says_so(house, ender, said):
    assert END[ender](house, "keep") == "goes"
    with house.units.reading() as unit:
        (known,) = unit.nodes.list_open(factories.PROJECT)
        node = unit.nodes.get(known.id)
    assert said in house.last_event(node)
    assert "ends with that (a demo)" in house.last_event(node)


IDLE, OVER = "it has been idle since 2026-11-05T12:01:25Z", "its time to live has expired"
SPENT = "the budget 'vision monthly' is exceeded"


def doomed(house: House) -> Node:
    """An idle node whose time to live is over, of which a budget says that it will be deleted;
    only a pause holds it."""
    node = house.at_rest()
    pause(house, node)
    house.notified(node)
    house.exceed_budget(grace=DAY)
    house.spend()
    house.expire(node)
    assert outcome(house, node) == "stays"
    return node


def test_a_person_is_the_reason_and_every_other_cause_stands_beside(house):
    node = doomed(house)
    house.nodes.delete(node.id, actor="ada")
    assert house.node(node).delete_reason == "requested by ada"
    assert house.last_event(node) == f"deletion requested (also: {SPENT}; {OVER}; {IDLE})"


def test_a_link_is_the_reason_and_every_other_cause_stands_beside(house):
    node = doomed(house)
    at = house.watched(node).course.notified_at
    house.links.use_link(tokens_of(house.units, node, at=at, now=house.clock())[Verb.DELETE])
    assert house.node(node).delete_reason.startswith("requested with the link in the message of")
    assert house.last_event(node).endswith(f" (also: {SPENT}; {OVER}; {IDLE})")


def test_a_plan_that_is_applied_is_the_reason_and_every_other_cause_stands_beside(house):
    node = doomed(house)
    house.look_idle()
    house.cleanup.apply_plan(house.cleanup.make_plan("", "ada").id, "ada")
    assert house.node(node).delete_reason.startswith(f"requested by ada: {IDLE}: every device")
    assert house.last_event(node).endswith(f" (also: {SPENT}; {OVER})")


def test_a_budget_is_the_reason_and_every_other_cause_stands_beside(house):
    node = doomed(house)
    house.clock.pass_(DAY)
    house.spend()
    assert house.node(node).delete_reason.startswith(SPENT)
    assert house.last_event(node).endswith(f" (also: {OVER}; {IDLE})")


def test_a_time_to_live_is_the_reason_and_every_other_cause_stands_beside(house):
    node = doomed(house)
    house.cleanup.resume("")
    house.clock.pass_(HOUR)
    house.lifecycle.tick(house.lease)
    assert house.node(node).delete_reason == OVER
    assert house.last_event(node) == f"deletion requested: {OVER} (also: {SPENT}; {IDLE})"


def test_idleness_is_the_reason_and_every_other_cause_stands_beside(house):
    node = house.notified(house.at_rest())
    house.exceed_budget(grace=DAY)
    house.spend(2)
    house.look_idle(8)
    assert house.node(node).delete_reason.startswith(f"{IDLE}: every device is quiet")
    assert house.last_event(node).endswith(f" (also: {SPENT})")


def test_the_end_of_a_job_is_the_reason_and_every_other_cause_stands_beside(house):
    job, (worker,) = house.running(team="vision")
    house.exceed_budget(grace=DAY)
    house.spend(1)
    worker.exit(0)
    house.ticks(60)
    reason = f"job {job.id} is SUCCEEDED"
    node = house.node_of(job)
    assert node.delete_reason == reason
    assert house.last_event(node) == f"deletion requested: {reason} (also: {SPENT})"


def test_a_warm_node_goes_for_idleness_once_no_job_waits_for_it(house):
    """The node and its line of jobs are decided as one; a job of another node does not count."""
    node, other = house.at_rest(), house.at_rest()
    with house.units() as unit:
        unit.jobs.add(a_job(id="a", node_id=other.id), None)
        unit.jobs.add(a_job(id="b", node_id=node.id), None)
    house.look_idle(60)
    verdict = house.watched(node).verdict
    assert verdict is not None
    assert verdict.blockers == (Blocker.QUEUED_JOB,)
    assert outcome(house, node) == outcome(house, other) == "stays"
    house.jobs.cancel("b")
    house.controller.tick(house.lease)
    house.look_idle(30)
    assert (outcome(house, node), outcome(house, other)) == ("goes", "stays")


def test_the_warm_node_of_a_job_waits_for_the_next_attempt_of_the_job(house):
    node = house.at_rest()
    with house.units() as unit:
        unit.jobs.add(a_job(id="own", node_id=node.id, own_node=True), None)
    house.look_idle(60)
    verdict = house.watched(node).verdict
    assert verdict is not None
    assert verdict.blockers == (Blocker.QUEUED_JOB,)
    assert outcome(house, node) == "stays"
