"""Two transactions at once on one node: its end for idleness, and somebody who says that it is in
use, or pauses the cleanup, or changes the policy. Either the end comes first, or the node stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.heartbeats import HeartbeatService
from service.application.cleanup.policies import PolicyService
from service.application.jobs.jobs import JobService
from service.application.nodes.requests import NodeRequests
from service.domain.errors import Conflict
from service.domain.idle.policy import DEFAULT, Action, Rule
from service.domain.idle.signals.heartbeat import Beat
from service.domain.jobs.job import JobSpec
from service.domain.jobs.submission import Submission
from service.domain.nodes.node import Asked, Node
from service.store.cleanups import Cleanups
from service.store.jobs import Jobs
from service.store.links import Heartbeats
from service.store.policies import IdlePolicies
from tests.controllers.idle.conftest import REST, TIMES, FakeWorkers, IdleLab
from tests.controllers.jobs.conftest import IMAGE

pytestmark = [pytest.mark.concurrent, pytest.mark.deep]

DUE_MINUTES = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60

Act = Callable[[IdleLab, Node], object]


def beat(lab: IdleLab, node: Node) -> object:
    return HeartbeatService(lab.units, lab.clock).record_beat(node.id, Beat())


def submit(lab: IdleLab, node: Node) -> object:
    requests = NodeRequests(lab.units, lab.prices, lab.clock, ["lab"])
    jobs = JobService(lab.units, lab.prices, lab.clock, requests, ["lab"])
    return jobs.submit(Submission(JobSpec(image=IMAGE, args=("train.py",)), node=node.id))


def pause(lab: IdleLab, _: Node) -> object:
    cleanup = CleanupService(lab.units, lab.prices, lab.clock, ["lab"], IdleMode(times=TIMES))
    return cleanup.pause("lab", "ada", "a demo")


def spare(lab: IdleLab, _: Node) -> object:
    return put_policy(lab, Action.NOTIFY)


def put_policy(lab: IdleLab, action: Action) -> object:
    policies = PolicyService(lab.units, lab.prices, lab.clock, ["lab"], IdleMode(times=TIMES))
    return policies.save(DEFAULT, Rule(1_800, 300, action), None)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


@pytest.fixture
def idle(lab: IdleLab) -> Node:
    """A node with a supervisor that is ended in the next look, by the policy of all."""
    lab.workers = FakeWorkers(lab.clock)
    lab.start_daemon("one")
    put_policy(lab, Action.DELETE)
    node = lab.add(REST, supervisor=True, idle=None, owner="ada@example.com")
    lab.workers.add(node.cloud_id)
    lab.minute(DUE_MINUTES)
    while (due := lab.course(node).due_at) is None or due > lab.clock() + 60:
        lab.minute()
    assert lab.node(node).asked is Asked.PRESENT
    return node


@pytest.fixture
def act_while_it_ends(lab, idle, pool, monkeypatch) -> Callable[[Act], Future[object]]:
    """Has the daemon end the node, and somebody act before that is committed; answers what came of
    the act."""

    def ended(act: Act) -> Future[object]:
        others: list[Future[object]] = []
        end = Cleanups.add_end

        def meanwhile(cleanups: Cleanups, record: Any) -> None:
            end(cleanups, record)
            others.append(pool.submit(act, lab, idle))
            assert not wait(others, timeout=1).done, "it waits for the end to be committed"

        monkeypatch.setattr(Cleanups, "add_end", meanwhile)
        lab.minute()
        (other,) = others
        return other

    return ended


@pytest.mark.parametrize("act", [beat, submit])
def test_nobody_is_answered_that_a_node_stays_while_its_end_is_being_written(
    lab, idle, act_while_it_ends, act: Act
):
    with pytest.raises(Conflict):
        act_while_it_ends(act).result()
    assert lab.node(idle).asked is Asked.ABSENT


@pytest.mark.parametrize("act", [pause, spare])
def test_a_pause_or_a_policy_is_answered_after_an_end_that_began_before(
    lab, idle, act_while_it_ends, act: Act
):
    act_while_it_ends(act).result()
    assert lab.node(idle).asked is Asked.ABSENT


@pytest.mark.parametrize(
    ("act", "rows", "write"),
    [(beat, Heartbeats, "save"), (submit, Jobs, "add"), (spare, IdlePolicies, "save")],
)
def test_no_node_is_ended_while_somebody_is_being_answered_that_it_stays(
    lab, idle, pool, monkeypatch, act: Act, rows: type, write: str
):
    looks: list[Future[object]] = []
    original = getattr(rows, write)

    def meanwhile(*args: Any) -> object:
        written = original(*args)
        looks.append(pool.submit(lab.minute))
        wait(looks, timeout=1)
        return written

    monkeypatch.setattr(rows, write, meanwhile)
    act(lab, idle)
    (look,) = looks
    look.result()
    assert lab.ended() == []
    assert lab.node(idle).asked is Asked.PRESENT
