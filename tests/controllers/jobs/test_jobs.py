"""A job from its submission to its end: what is written, asked of the cloud, and charged."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import pytest

from service.api.jobs.views import AttemptView
from service.application.nodes.nodes import NodeChange
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.errors import (
    CloudUnavailable,
    Conflict,
    ImageNotFound,
    InvalidRequest,
    NotAllowed,
    RateLimited,
    RuntimeMismatch,
    StaleVersion,
)
from service.domain.jobs.job import Retries
from service.domain.jobs.task import KEY
from service.domain.metering.attribution import Reattribution
from service.domain.money import NANOS
from service.domain.nodes.node import NodeState
from service.domain.nodes.slices import place_of
from service.store.jobs import Jobs
from tests import factories
from tests.fake_jobs import DIGEST, Worker
from tests.fakes import FakeHistory

FOUR_HOSTS = factories.request(accelerator_type="v5litepod-16")


def test_one_call_makes_a_node_runs_the_container_and_deletes_the_node(lab):
    job = lab.submit()
    assert lab.state(job) == "QUEUED"
    lab.ticks(10)
    node = lab.node_of(job)
    path = node.place.path
    task = Worker(lab.cloud, node).task
    assert task["action"] == "run", "one worker waits for nobody, and its task is in the create"
    assert task["container"]["image"].endswith(f"@{DIGEST}")
    lab.cloud.come_up(path)
    lab.ticks(10)
    worker = Worker(lab.cloud, node)
    worker.report("PULLING")
    lab.ticks(20)
    assert lab.state(job) == "PULLING"
    worker.run()
    lab.ticks(20)
    assert lab.state(job) == "RUNNING"
    worker.exit(0)
    lab.ticks(70)
    job = lab.shown(job).job
    assert (job.state, job.reason, job.exit_codes) == ("SUCCEEDED", "COMPLETED", {"0": 0})
    assert lab.cloud.nodes[path].state == NodeState.DELETING
    assert lab.cloud.count("update_metadata") == 0, "nothing had to be written a second time"


def test_nothing_is_asked_of_the_cloud_before_the_image_was_looked_at(lab):
    lab.registry.error = ImageNotFound("no such image: x; build and push it first")
    job = lab.submit()
    lab.ticks(30)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "IMAGE_NOT_FOUND")
    assert lab.cloud.count("create") == 0
    assert lab.node_of(job).state == NodeState.DELETED


@pytest.mark.parametrize("own", [True, False])
def test_a_job_that_is_cancelled_while_the_registry_is_asked_is_cancelled(lab, own, monkeypatch):
    job = lab.submit(**({} if own else {"node": lab.up().id}))

    def resolve(image, architecture):
        lab.jobs.cancel(job.id)
        raise ImageNotFound(f"no such image: {image}")

    monkeypatch.setattr(lab.registry, "resolve", resolve)
    lab.ticks(60)
    assert lab.state(job) == "CANCELLED"
    assert lab.shown(job).job.reason == "CANCELLED"


def test_a_registry_that_does_not_answer_is_a_warning(lab):
    lab.registry.error = CloudUnavailable("no answer within 10 s")
    job = lab.submit()
    lab.ticks(10)
    assert lab.cloud.count("create") == 1
    assert "was not checked" in lab.shown(job).job.warnings[-1]


def test_all_workers_pull_before_any_starts(lab):
    job, workers = lab.begun(node_request=FOUR_HOSTS)
    assert workers[0].task["action"] == "pull"
    for worker in workers[:3]:
        worker.report("PULLED")
    lab.ticks(60)
    assert workers[0].task["action"] == "pull"
    workers[3].report("PULLED")
    lab.ticks(20)
    assert workers[0].task["action"] == "run"
    for worker in workers:
        worker.run()
    lab.ticks(20)
    assert lab.state(job) == "RUNNING"


def test_the_failure_of_one_worker_ends_the_attempt_on_all(lab):
    job, workers = lab.running(node_request=FOUR_HOSTS)
    workers[2].exit(7)
    lab.ticks(70)
    assert lab.state(job) == "CLASSIFYING"
    assert workers[0].task["action"] == "stop"
    for worker in (workers[0], workers[1], workers[3]):
        worker.exit(143, reason="STOPPED")
    for _ in range(7):
        lab.ticks(15)
        for worker, code in zip(workers, (143, 143, 7, 143), strict=True):
            ended = lab.attempt(job).reports.get("2")
            at = ended.ended_at if ended else lab.clock()
            worker.exit(code, ended_at=at, reason="COMPLETED" if code == 7 else "STOPPED")
    job = lab.shown(job).job
    assert (job.state, job.reason) == ("FAILED", "PROGRAM_FAILED")
    assert job.exit_codes == {"0": 143, "1": 143, "2": 7, "3": 143}
    assert "worker 2" in job.detail


def test_siblings_that_die_before_the_preemption_shows_are_no_failure_of_the_program(lab):
    job, workers = lab.running(node_request=replace(FOUR_HOSTS, name="spotty"))
    path = lab.node_of(job).place.path
    workers[1].exit(139)
    lab.ticks(70)
    assert lab.state(job) == "CLASSIFYING"
    lab.cloud.become(NodeState.PREEMPTED, path)
    lab.ticks(20)
    shown = lab.shown(job).job
    assert shown.preemptions == 1
    first = lab.jobs.list_attempts(job.id)[0].attempt
    assert first.reason == "PREEMPTED"
    assert first.evidence
    lab.cloud.settle()
    lab.ticks(30)
    second = lab.attempt(job)
    assert second.number == 2
    assert second.node_id != first.node_id
    assert lab.node_of(job).name == "spotty-2"


def test_the_audit_log_of_an_earlier_preemption_does_not_excuse_a_failed_program(lab):
    log = FakeHistory()
    spot = {"provisioning_model": ProvisioningModel.SPOT, "recreate_on_preemption": True}
    node = lab.up(**spot)
    path = lab.cloud.only
    lab.tick(HOUR)
    lab.cloud.become(NodeState.PREEMPTED)
    log.write(path, lab.clock())
    lab.tick(20)
    lab.listener(log).tick(lab.lease)
    lab.ticks(10)
    lab.cloud.settle()
    lab.ticks(20)
    lab.cloud.come_up()
    lab.ticks(10)
    with lab.units.reading() as unit:
        assert [usage.end_evidence for usage in unit.usage.list_by_node(node.id)] == ["audit", None]
    job = lab.submit(node=node.id)
    lab.ticks(20)
    worker = Worker(lab.cloud, lab.node(node))
    worker.run()
    lab.ticks(20)
    for _ in range(8):
        worker.exit(7)
        lab.ticks(15)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason, shown.attempt) == ("FAILED", "PROGRAM_FAILED", 1)


@pytest.mark.deep
def test_a_preempted_job_runs_again_and_every_cent_is_somebodys(lab):
    job, (worker,) = lab.running(node_request=factories.request(name="lost"))
    worker.run()
    lab.ticks(120)
    first_node = lab.node_of(job)
    lab.cloud.become(NodeState.PREEMPTED, first_node.place.path)
    lab.ticks(60)
    lab.cloud.settle()
    lab.ticks(60)
    node = lab.node_of(job)
    assert node.id != first_node.id
    lab.cloud.come_up(node.place.path)
    lab.ticks(20)
    worker = Worker(lab.cloud, node)
    worker.run()
    lab.ticks(40)
    worker.exit(0)
    lab.ticks(70)
    lab.cloud.settle()
    lab.ticks(30)
    shown = lab.shown(job)
    assert shown.job.state == "SUCCEEDED"
    attempts = lab.jobs.list_attempts(job.id)
    assert [attempt.attempt.reason for attempt in attempts] == ["PREEMPTED", "COMPLETED"]
    assert shown.cost.cost == sum(attempt.cost for attempt in attempts) > 0
    assert shown.cost.cost == lab.cost(first_node) + lab.cost(node)


def give_notice(lab, worker):
    """Tell a worker of a preemption. The node is READY for another half a minute."""
    worker.exit(143, reason="PREEMPTION_NOTICE", preempted_at=lab.clock())


def test_after_the_notice_of_a_preemption_a_job_gets_another_node(lab):
    job, (worker,) = lab.running()
    node = lab.node_of(job)
    give_notice(lab, worker)
    while lab.shown(job).job.preemptions == 0:
        lab.tick()
    node = lab.node(node)
    assert (node.state, node.asked) == ("READY", "absent")
    lab.ticks(10)
    lab.cloud.settle()
    lab.ticks(20)
    second = lab.attempt(job)
    assert (second.number, second.node_id != node.id) == (2, True)


def test_after_the_notice_of_a_preemption_no_job_claims_the_node_until_it_is_made_again(lab):
    node = lab.up(provisioning_model=ProvisioningModel.SPOT, recreate_on_preemption=True)
    jobs = [lab.submit(node=node.id) for _ in range(2)]
    lab.ticks(20)
    worker = Worker(lab.cloud, node)
    worker.run()
    lab.ticks(20)
    lab.jobs.cancel(jobs[0].id)
    give_notice(lab, worker)
    lab.ticks(40)
    assert [lab.state(job) for job in jobs] == ["CANCELLED", "QUEUED"]
    assert lab.node(node).state == "READY"
    assert "preemption" in lab.shown(jobs[1]).job.detail
    lab.cloud.become(NodeState.PREEMPTED)
    lab.ticks(60)
    lab.cloud.settle()
    lab.ticks(60)
    lab.cloud.come_up()
    lab.ticks(40)
    attempt = lab.attempt(jobs[1])
    assert (attempt.number, attempt.placement) == (1, 2)


def test_a_node_that_outlives_the_notice_of_a_preemption_is_claimed_again(lab):
    node = lab.up(recreate_on_preemption=True)
    job = lab.submit(node=node.id)
    lab.ticks(20)
    worker = Worker(lab.cloud, node)
    worker.run()
    lab.ticks(20)
    give_notice(lab, worker)
    while lab.shown(job).job.preemptions == 0:
        lab.tick()
    lab.ticks(40)
    assert lab.attempt(job).number == 1
    lab.ticks(50)
    assert lab.attempt(job).number == 2


def test_the_notice_of_a_preemption_ends_a_job_whose_node_is_not_made_again(lab):
    node = lab.up()
    job = lab.submit(node=node.id)
    lab.ticks(20)
    worker = Worker(lab.cloud, node)
    worker.run()
    lab.ticks(20)
    give_notice(lab, worker)
    lab.ticks(90)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason, lab.node(node).state) == ("FAILED", "PREEMPTED", "READY")


def test_the_preemption_budget_ends_the_job(lab):
    job, _ = lab.running(retries=Retries(preemption=0))
    lab.cloud.become(NodeState.PREEMPTED, lab.node_of(job).place.path)
    lab.ticks(90)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "PREEMPTED")
    assert "retries.preemption (0) is used up" in shown.detail


@pytest.mark.deep
def test_a_failure_is_retried_on_the_same_node_as_often_as_was_said(lab):
    job, (worker,) = lab.running(retries=Retries(failure=1))
    node = lab.node_of(job)
    fail(lab, worker, 3)
    lab.ticks(10)
    attempt = lab.attempt(job)
    assert (attempt.number, attempt.node_id) == (2, node.id)
    lab.ticks(20)
    assert worker.task["attempt"] == attempt.id
    worker.run()
    lab.ticks(40)
    fail(lab, worker, 3)
    shown = lab.shown(job).job
    assert (shown.state, shown.attempt) == ("FAILED", 2)


@pytest.mark.deep
def test_a_retry_gets_another_node_where_the_one_that_is_there_would_go_too_soon(lab):
    """The time to live of the node is that of one attempt, and half an hour more."""
    job, (worker,) = lab.running(retries=Retries(failure=3), max_duration_seconds=7_200)
    nodes = [lab.node_of(job).id]
    for number in (1, 2, 3):
        for _ in range(2):
            worker.report("RUNNING", **worker.times)
            lab.ticks(300)
        while lab.attempt(job).number == number:
            worker.exit(3)
            lab.ticks(20)
        nodes.append(lab.attempt(job).node_id)
        lab.ticks(20)
        worker.run()
    assert nodes[0] == nodes[1] == nodes[2], "two hours were left"
    assert nodes[3] != nodes[0], "fewer than two hours were left"
    assert lab.nodes.get(nodes[0]).asked == "absent"


def test_only_the_exit_codes_that_were_named_are_retried(lab):
    job, (worker,) = lab.running(retries=Retries(failure=5, exit_codes=(42,)))
    fail(lab, worker, 3)
    shown = lab.shown(job).job
    assert (shown.state, shown.attempt) == ("FAILED", 1)
    assert "only the exit codes 42 are retried" in shown.detail


def fail(lab, worker, code):
    """The container fails; the supervisor lives on and says so for over a minute."""
    for _ in range(10):
        worker.exit(code)
        lab.ticks(15)


def test_a_cancelled_job_ends_its_container_first_and_then_its_node(lab):
    job, (worker,) = lab.running()
    lab.jobs.cancel(job.id)
    lab.ticks(5)
    assert lab.state(job) == "CANCELLING"
    lab.ticks(5)
    assert worker.task["action"] == "stop"
    assert lab.node_of(job).state == NodeState.READY
    worker.exit(143, reason="STOPPED")
    lab.ticks(20)
    assert lab.state(job) == "CANCELLED"
    assert lab.node_of(job).asked == "absent"


def test_a_job_that_is_cancelled_before_its_node_is_there_leaves_none(lab):
    job = lab.submit()
    lab.jobs.cancel(job.id)
    lab.ticks(20)
    assert lab.state(job) == "CANCELLED"
    assert lab.cloud.count("create") == 0
    assert lab.node_of(job).has_ended


def test_a_job_that_is_cancelled_between_two_attempts_leaves_no_node(lab):
    job, (worker,) = lab.running(retries=Retries(failure=1))
    while lab.state(job) != "QUEUED":
        worker.exit(3)
        lab.tick()
    assert lab.node_of(job).asked == "present", "the next attempt is to run on the same node"
    lab.jobs.cancel(job.id)
    lab.ticks(20)
    assert lab.state(job) == "CANCELLED"
    assert lab.node_of(job).asked == "absent"


def test_a_cancelled_job_waits_for_the_end_of_a_node_that_may_still_start_it(lab):
    job = lab.submit()
    lab.ticks(10)
    assert lab.cloud.count("create") == 1
    lab.jobs.cancel(job.id)
    lab.ticks(10)
    assert (lab.state(job), lab.node_of(job).asked) == ("CANCELLING", "absent")
    lab.cloud.settle()
    lab.ticks(200)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("CANCELLED", "CANCELLED")
    assert lab.node_of(job).has_ended


def test_a_node_deleted_before_it_is_ready_ends_its_job_once_it_is_gone(lab):
    job = lab.submit()
    lab.ticks(10)
    lab.nodes.delete(lab.node_of(job).id)
    lab.ticks(10)
    assert lab.state(job) == "CANCELLING"
    lab.cloud.settle()
    lab.ticks(200)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "NODE_DELETED")


@pytest.mark.deep
def test_no_attempt_starts_while_the_container_of_the_last_may_run(lab):
    job, _ = lab.running(retries=Retries(failure=1))
    lab.ticks(1_700)  # the supervisor is silent, and the deletion of its node takes long
    assert lab.shown(job).job.failures == 1
    assert lab.cloud.count("create") == 1
    lab.cloud.settle()
    lab.ticks(300)
    assert lab.cloud.count("create") == 2


def test_a_supervisor_that_never_answers_does_not_keep_a_cancelled_job(lab):
    job, _ = lab.running()
    lab.jobs.cancel(job.id)
    lab.ticks(200)
    assert lab.state(job) == "CANCELLED"


def test_a_budget_is_asked_again_when_a_job_claims_a_callers_node(lab):
    first, second = lab.up(), lab.up()
    budget = factories.budget(
        scope=Scope(owner="eve"), amount=15 * NANOS, on_exceeded=OnExceeded.REFUSE
    )
    with lab.units() as unit:
        unit.budgets.add(budget)
    worst = {"owner": "eve", "max_duration_seconds": 3_600}  # $9.60 of v5litepod-8
    jobs = [lab.submit(node=node.id, **worst) for node in (first, second)]
    waiting = lab.submit(node=second.id, owner="bob")
    lab.ticks(30)
    states = [lab.shown(job).job for job in jobs]
    assert states[0].state == "PULLING"
    assert (states[1].state, states[1].reason) == ("FAILED", "BUDGET_EXCEEDED")
    assert lab.state(waiting) == "PULLING"


def test_an_existing_node_runs_one_job_at_a_time_in_the_order_of_submission(lab):
    node = lab.up()
    first, second = lab.submit(node=node.name), lab.submit(node=node.id)
    lab.ticks(10)
    worker = Worker(lab.cloud, node)
    assert worker.task["attempt"] == f"{first.id}-1"
    worker.run()
    lab.ticks(40)
    assert (lab.state(first), lab.state(second)) == ("RUNNING", "QUEUED")
    worker.exit(0)
    lab.ticks(90)
    assert lab.state(first) == "SUCCEEDED"
    assert worker.task["attempt"] == f"{second.id}-1"
    assert worker.task["generation"] > 1
    worker.run()
    lab.ticks(40)
    worker.exit(0)
    lab.ticks(90)
    assert lab.state(second) == "SUCCEEDED"
    assert lab.node(node).state == NodeState.READY
    assert worker.task["action"] == "release"


def test_a_job_on_a_stopped_node_says_what_to_type_until_it_is_started(lab):
    node = lab.up()
    lab.nodes.stop(node.id)
    lab.tick()
    lab.cloud.settle()
    job = lab.submit(node=node.name)
    advice = f"node {node.name} is stopped; start it with: tpu-steward nodes start {node.name}"
    assert (job.state, job.detail) == ("QUEUED", advice)
    lab.ticks(60)
    assert lab.node(node).state == NodeState.STOPPED
    assert (lab.state(job), lab.shown(job).job.detail) == ("QUEUED", advice)
    lab.nodes.start(node.id)
    lab.ticks(20)
    assert "READY; the node is STARTING" in lab.shown(job).job.detail
    lab.cloud.come_up()
    lab.ticks(40)
    assert (lab.state(job), lab.shown(job).job.detail) == ("PULLING", "")


def test_a_job_whose_node_is_stopped_while_it_waits_says_so_too(lab):
    node = lab.ask()
    job = lab.submit(node=node.name)
    assert job.detail == f"it waits until node {node.name} is READY; the node is REQUESTED"
    lab.ticks(10)
    lab.cloud.come_up(lab.node(node).place.path)
    lab.tick()
    lab.nodes.stop(node.id)
    lab.ticks(60)
    assert "nodes start" in lab.shown(job).job.detail


def test_a_job_waits_for_a_node_whose_stop_was_just_requested(lab):
    node = lab.up()
    job = lab.submit(node=node.name)
    lab.nodes.stop(node.id)
    for _ in range(2):
        lab.controller.tick(lab.lease)
    shown = lab.shown(job).job
    assert shown.state == "QUEUED"
    assert "nodes start" in shown.detail


@pytest.mark.concurrent
@pytest.mark.deep
def test_a_stop_while_a_job_claims_its_node_again_ends_the_new_attempt(lab, monkeypatch):
    job, (worker,) = lab.running(retries=Retries(failure=1))
    node, claim = lab.node_of(job), Jobs.add_attempt
    stops: list[Future[object]] = []

    def meanwhile(jobs, attempt):
        claim(jobs, attempt)
        stops.append(pool.submit(lab.nodes.stop, node.id))
        wait(stops, timeout=1)

    monkeypatch.setattr(Jobs, "add_attempt", meanwhile)
    with ThreadPoolExecutor(1) as pool:
        while not stops:
            worker.exit(3)
            lab.tick()
    [stop] = stops
    stop.result()
    lab.ticks(60)
    assert lab.attempt(job).number == 2
    assert lab.node(node).asked == "absent", "the node of a job goes with the job"
    lab.cloud.settle()
    lab.ticks(60)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "NODE_DELETED")
    assert shown.detail == "the node was stopped before the job started"


def test_a_job_says_behind_which_job_it_waits(lab):
    node = lab.up()
    first, second, third = (lab.submit(node=node.name) for _ in range(3))
    behind = f"it waits on node {node.name} behind job {first.id}"
    assert [segment.detail for segment in (first, second, third)] == [
        "",
        behind,
        f"{behind} and 1 more",
    ]
    lab.ticks(30)
    assert lab.state(first) == "PULLING"
    assert lab.shown(second).job.detail == behind


def test_a_caller_s_node_is_charged_to_the_job_while_it_runs_there(lab):
    node = lab.up(team="infra")
    lab.ticks(100)
    job = lab.submit(node=node.name, team="nlp", owner="grace")
    lab.ticks(10)
    worker = Worker(lab.cloud, node)
    worker.run()
    lab.ticks(200)
    worker.exit(0)
    lab.ticks(100)
    with lab.units.reading() as unit:
        segments = unit.attributions.list_by_node(node.id)
    assert [(segment.team, segment.job) for segment in segments] == [
        ("infra", ""),
        ("nlp", job.id),
        ("infra", ""),
    ]
    (attempt,) = lab.jobs.list_attempts(job.id)
    assert attempt.cost == lab.shown(job).cost.cost
    assert 0 < attempt.cost < lab.cost(node)
    assert {amount.spent for amount in attempt.amounts} >= {"boot", "running"}
    own = lab.nodes.get_cost(node.id).occupancy
    assert [segment.occupant for segment in own] == ["before_first_job", "job", "idle_tail"]
    assert own[1].cost == attempt.cost
    assert sum(segment.cost for segment in own) == lab.cost(node)


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("request_end", "the node was deleted through this service: requested by ada"),
        ("request_stop", "the node was stopped through this service"),
    ],
)
def test_a_person_who_ends_or_stops_a_node_ends_its_job_which_says_so(lab, verb, said, is_own):
    if is_own:
        job, _ = lab.running()
    else:
        job = lab.submit(node=lab.up().name)
        lab.ticks(20)
    node = lab.node_of(job)
    changed = getattr(lab.nodes, verb)(node.id, actor="ada")
    assert changed.warnings == (f"job {job.id} ends with that",)
    lab.ticks(60)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason, shown.detail) == ("FAILED", "NODE_DELETED", said)
    with lab.units.reading() as unit:
        assert unit.jobs.find_claim(node.id) is None
    if is_own:
        assert lab.node(node).asked == "absent", "the node of a job goes with the job"
    else:
        again = getattr(lab.nodes, verb)(node.id, actor="eve")
        assert again.warnings == ()


@pytest.mark.parametrize("moment", ["claimed", "released"])
def test_what_was_decided_before_a_node_changed_hands_is_not_written_after_it(lab, moment):
    node = lab.up()
    job = lab.submit(node=node.name)
    before = lab.node(node).version
    lab.ticks(20)
    if moment == "released":
        before = lab.node(node).version
        lab.jobs.cancel(job.id)
        lab.ticks(200)
        assert lab.state(job) == "CANCELLED"
    with pytest.raises(StaleVersion):
        lab.nodes.update(node.id, NodeChange(Reattribution(owner="grace")), version=before)
    with pytest.raises(StaleVersion):
        lab.nodes.stop(node.id, version=before)


def test_an_owner_who_is_named_while_a_job_pays_is_charged_after_it(lab):
    node = lab.up()
    job = lab.submit(node=node.name, owner="ada")
    lab.ticks(20)
    lab.nodes.update(node.id, NodeChange(Reattribution(owner="grace")))
    lab.jobs.cancel(job.id)
    lab.ticks(200)
    with lab.units.reading() as unit:
        segments = unit.attributions.list_by_node(node.id)
    assert [(segment.owner, bool(segment.job)) for segment in segments[1:]] == [
        ("ada", True),
        ("grace", False),
    ]


def test_a_job_that_is_woken_while_it_is_looked_at_is_not_put_off(lab):
    job = lab.submit()
    lab.ticks(10)
    with lab.units() as unit:
        found = unit.jobs.get(job.id)
        unit.jobs.wake(job.id, lab.clock())
    with pytest.raises(StaleVersion), lab.units() as unit:
        unit.jobs.save(replace(found, next_try_at=lab.clock() + 300))


def test_the_next_job_does_not_wait_for_one_whose_image_is_refused(lab):
    node = lab.up()
    first, second = lab.submit(node=node.name), lab.submit(node=node.name)
    lab.registry.error = ImageNotFound("no such image")
    lab.controller.reconcile(first.id, lab.lease)
    lab.registry.error = None
    lab.ticks(10)
    assert lab.state(first) == "FAILED"
    assert lab.attempt(second).node_id == node.id


def test_a_node_without_supervisor_refuses_jobs_at_once(lab):
    node = lab.up(supervisor=False)
    with pytest.raises(Conflict, match="no supervisor"):
        lab.submit(node=node.name)


def test_a_framework_that_does_not_fit_the_node_is_refused_with_what_does(lab):
    node = lab.up(runtime_version="tpu-vm-tf-2.17.0-pjrt")
    with pytest.raises(RuntimeMismatch) as refusal:
        lab.submit(node=node.name, framework=Framework.JAX)
    assert refusal.value.facts["compatible"]


def test_a_version_that_the_node_does_not_have_is_refused_with_what_does(lab):
    node = lab.up(runtime_version="tpu-vm-tf-2.17.0-pjrt")
    lab.submit(node=node.name, framework=Framework.TENSORFLOW, framework_version="2.17.0")
    with pytest.raises(
        RuntimeMismatch, match=r"TensorFlow 2\.16\.1; tpu-vm-tf-2\.16\.1"
    ) as refusal:
        lab.submit(node=node.name, framework=Framework.TENSORFLOW, framework_version="2.16.1")
    compatible: Any = refusal.value.facts["compatible"]
    assert "tpu-vm-tf-2.16.1-pjrt" in compatible


PJRT = {
    "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "/lib/libtpu.so",
}


@pytest.mark.parametrize(
    ("framework", "launcher", "preset"),
    [
        ("jax", "", {"JAX_PLATFORMS": "tpu"}),
        ("jax", "jax", {"JAX_PLATFORMS": "tpu"}),
        ("pytorch", "", {"PJRT_DEVICE": "TPU"}),
        ("pytorch", "torch_xla", {"PJRT_DEVICE": "TPU"}),
        ("pytorch", "lightning", {"PJRT_DEVICE": "TPU"}),
        ("pytorch", "accelerate", {"PJRT_DEVICE": "TPU"}),
        ("pytorch", "fastai", {"PJRT_DEVICE": "TPU"}),
        ("tensorflow", "tensorflow", {"TPU_NAME": "local", **PJRT}),
        ("tensorflow", "keras", {"TPU_NAME": "local", **PJRT}),
    ],
)
def test_a_container_receives_what_its_framework_needs_to_find_the_tpu(
    lab, framework, launcher, preset
):
    _, (worker,) = lab.begun(framework=Framework(framework), launcher=launcher, env={"A": "b"})
    env = worker.task["container"]["env"]
    set_by_us = {name: value for name, value in env.items() if not name.startswith("STEWARD_")}
    assert set_by_us == {**preset, "A": "b"}


def test_a_variable_of_the_caller_wins_over_the_preset(lab):
    env = {"JAX_PLATFORMS": "tpu,cpu"}
    _, (worker,) = lab.begun(framework=Framework.JAX, env=env)
    assert worker.task["container"]["env"]["JAX_PLATFORMS"] == "tpu,cpu"


def test_a_task_that_somebody_else_drops_is_written_again(lab):
    _, workers = lab.begun(node_request=FOUR_HOSTS)
    path = next(iter(lab.cloud.maps))
    for worker in workers:
        worker.report("PULLED")
    lab.ticks(15)
    assert workers[0].task["action"] == "run"
    lab.cloud.maps[path] = {"ssh-keys": "grace:ssh-ed25519 AAAA"}
    lab.ticks(60)
    assert lab.cloud.maps[path]["ssh-keys"] == "grace:ssh-ed25519 AAAA"
    assert KEY in lab.cloud.maps[path]


@pytest.mark.deep
def test_the_release_that_somebody_else_drops_is_written_again(lab):
    node = lab.up()
    job = lab.submit(node=node.name)
    lab.ticks(10)
    worker = Worker(lab.cloud, node)
    running = dict(lab.cloud.maps[node.place.path])
    worker.run()
    lab.ticks(40)
    worker.exit(0)
    while worker.task["action"] != "release":
        lab.tick()
    assert lab.state(job) == "SUCCEEDED"
    lab.cloud.maps[node.place.path] = running
    lab.ticks(60)
    assert worker.task["action"] == "release"
    written = lab.cloud.count("update_metadata")
    lab.ticks(200)
    assert lab.cloud.count("update_metadata") == written, "it is known to be there"


def test_a_job_that_is_cancelled_before_it_was_told_anything_lets_go_of_the_one_before(lab):
    node = lab.up()
    first, second = lab.submit(node=node.name), lab.submit(node=node.name)
    lab.ticks(10)
    worker = Worker(lab.cloud, node)
    worker.run()
    lab.ticks(40)
    worker.exit(0)
    while lab.state(first) != "SUCCEEDED":
        lab.tick()
    while not lab.jobs.list_attempts(second.id):
        lab.tick(1)
    lab.jobs.cancel(second.id)
    lab.ticks(60)
    assert (lab.state(second), worker.task["action"]) == ("CANCELLED", "release")


@pytest.mark.deep
def test_a_startup_script_that_does_not_end_ends_the_job_with_the_remedy(lab):
    job, (worker,) = lab.begun()
    script = {"state": "running", "exit_code": None}
    for _ in range(6):
        worker.report("IDLE", startup_script=script)
        lab.ticks(590)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("PULLING", "")
    assert shown.detail == "worker 0 still runs the startup script of its node"
    worker.report("IDLE", startup_script=script)
    lab.ticks(120)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "STARTUP_SCRIPT_RUNNING")
    assert "nohup" in shown.detail
    assert lab.node_of(job).asked == "absent"


@pytest.mark.deep
def test_a_startup_script_that_ends_is_waited_for(lab):
    job, (worker,) = lab.begun()
    worker.report("IDLE", startup_script={"state": "running", "exit_code": None})
    lab.ticks(600)
    assert lab.shown(job).job.detail
    worker.run()
    lab.ticks(30)
    shown = lab.shown(job).job
    assert (shown.state, shown.detail) == ("RUNNING", "")


def test_a_worker_that_cannot_read_its_task_says_so(lab):
    job, workers = lab.begun(node_request=FOUR_HOSTS)
    for worker in workers:
        worker.report("PULLED")
    lab.ticks(15)
    workers[2].seq += 1
    workers[2].report("PULLED", generation=1, task_error="the task is malformed")
    lab.ticks(120)
    assert lab.shown(job).job.detail == "worker 2 cannot read its task: the task is malformed"


def test_a_busy_device_of_a_callers_node_ends_the_job_and_not_the_node(lab):
    """Nobody but its caller may replace the node."""
    node = lab.up()
    job = lab.submit(node=node.name, retries=Retries(preemption=10))
    lab.ticks(10)
    holder = "process 7 (python train.py) holds /dev/vfio/0"
    Worker(lab.cloud, node).exit(None, reason="DEVICE_BUSY", detail=holder)
    lab.ticks(60)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason, shown.attempt) == ("FAILED", "DEVICE_BUSY", 1)
    assert holder in shown.detail
    assert lab.node(node).asked == "present"


@pytest.mark.deep
def test_a_busy_device_of_its_own_node_has_the_node_replaced(lab):
    job, (worker,) = lab.begun(retries=Retries(preemption=1))
    node = lab.node_of(job)
    worker.exit(None, reason="DEVICE_BUSY", detail="process 7 holds /dev/vfio/0")
    lab.ticks(30)
    assert (lab.state(job), lab.node(node).asked) == ("PREEMPTED", "absent")
    lab.ticks(400)
    assert lab.attempt(job).node_id != node.id


@pytest.mark.parametrize("told", ["PREEMPTION_NOTICE", "STOPPED", "TIMED_OUT"])
def test_a_program_that_saves_and_exits_with_0_when_told_to_end_is_no_success(lab, told):
    job, (worker,) = lab.running()
    if told == "STOPPED":
        lab.jobs.cancel(job.id)
        lab.ticks(5)
    noticed = lab.clock() if told == "PREEMPTION_NOTICE" else None
    worker.exit(0, reason=told, preempted_at=noticed)
    lab.ticks(60)
    expected = {"PREEMPTION_NOTICE": "PREEMPTED", "STOPPED": "CANCELLED", "TIMED_OUT": "TIMED_OUT"}
    assert lab.jobs.list_attempts(job.id)[0].attempt.reason == expected[told]
    assert lab.state(job) != "SUCCEEDED"


@pytest.mark.deep
def test_a_task_that_every_worker_has_answered_is_written_once(lab):
    lab.running(node_request=FOUR_HOSTS)
    lab.ticks(600)
    assert lab.cloud.count("update_metadata") == 1


REFUSAL = "the metadata of the node is too large"


def refuse_updates(lab, error, times=1_000):
    for _ in range(times):
        lab.cloud.fail("update_metadata", error)


@pytest.mark.parametrize("own", [True, False])
def test_a_task_that_google_refuses_for_good_ends_the_job_with_the_words_of_google(lab, own):
    refuse_updates(lab, InvalidRequest(REFUSAL))
    if own:
        job, workers = lab.begun(node_request=FOUR_HOSTS)
        for worker in workers:
            worker.report("PULLED")
    else:
        job = lab.submit(node=lab.up().id)
    lab.ticks(60)
    assert lab.state(job) == "CLASSIFYING"
    assert REFUSAL in lab.shown(job).job.detail
    lab.ticks(120)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "METADATA_REFUSED")
    assert REFUSAL in shown.detail
    assert lab.node_of(job).asked == ("absent" if own else "present")


def test_a_task_that_is_refused_because_the_node_was_taken_away_is_no_failure_of_the_job(lab):
    job = lab.submit(node=lab.up().id)
    refuse_updates(lab, InvalidRequest("not supported while in state STOPPING"))
    lab.ticks(40)
    assert lab.state(job) == "CLASSIFYING"
    lab.cloud.become(NodeState.PREEMPTED, lab.node_of(job).place.path)
    lab.ticks(120)
    assert lab.shown(job).job.reason == "PREEMPTED"


@pytest.mark.parametrize(
    ("error", "times"),
    [(InvalidRequest(REFUSAL), 1), (NotAllowed(REFUSAL), 6), (CloudUnavailable(REFUSAL), 6)],
)
def test_a_task_that_cannot_be_written_for_a_while_is_tried_again_and_says_why(lab, error, times):
    node = lab.up()
    refuse_updates(lab, error, times)
    job = lab.submit(node=node.id)
    seen = set()
    while lab.cloud.count("update_metadata") <= times:
        lab.tick()
        seen.add((lab.state(job), lab.shown(job).job.detail))
    assert any(state == "PULLING" and REFUSAL in detail for state, detail in seen)
    Worker(lab.cloud, node).run()
    lab.ticks(30)
    shown = lab.shown(job).job
    assert (shown.state, shown.detail, lab.attempt(job).detail) == ("RUNNING", "", "")


@pytest.mark.deep
def test_a_job_that_no_worker_ever_hears_of_says_why_its_task_was_not_written(lab):
    refuse_updates(lab, NotAllowed(REFUSAL))
    job = lab.submit(node=lab.up().id)
    lab.ticks(1_500)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "SUPERVISOR_SILENT")
    assert REFUSAL in shown.detail


@pytest.mark.deep
def test_reports_are_read_once_a_minute_while_it_runs_and_four_times_before(lab):
    lab.running()
    before = lab.cloud.count("guest_attributes")
    lab.ticks(600)
    assert lab.cloud.count("guest_attributes") - before <= 10


def test_a_report_of_another_attempt_or_an_older_one_changes_nothing(lab):
    job, (worker,) = lab.running()
    worker.seq = 0
    worker.exit(0)
    lab.ticks(90)
    assert lab.state(job) == "RUNNING"
    worker.seq = 50
    worker.report("EXITED", attempt="another-1", exit_code=0, reason="COMPLETED")
    lab.ticks(90)
    assert lab.state(job) == "RUNNING"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v":1}', '{"v":1,"seq":1e9,"state":"RUNNING"}'])
def test_a_forged_report_does_no_harm(lab, text):
    job, (worker,) = lab.running()
    worker.write(text)
    lab.ticks(90)
    assert lab.state(job) == "RUNNING"


def test_the_exit_code_of_the_startup_script_is_shown_with_the_attempt(lab):
    job, (worker,) = lab.begun(node_request=factories.request(startup_script="exit 3"))
    worker.report("PULLED", startup_script={"state": "ended", "exit_code": 3})
    lab.ticks(20)
    (shown,) = AttemptView.from_attempt(lab.jobs.list_attempts(job.id)[-1]).workers
    assert (shown.startup_script, shown.startup_exit_code) == ("ended", 3)


def test_a_worker_without_docker_ends_the_job_with_the_reason(lab):
    job, (worker,) = lab.begun()
    worker.report("UNAVAILABLE", reason="NO_DOCKER", attempt="")
    lab.ticks(30)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "NO_SUPERVISOR")
    assert "docker" in shown.detail


def test_an_abort_after_the_program_said_it_was_done_is_a_success(lab):
    job, workers = lab.running(node_request=FOUR_HOSTS)
    done_at = lab.clock()
    workers[0].exit(0, done_at=done_at)
    for worker in workers[1:]:
        worker.exit(134)
    lab.ticks(70)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("SUCCEEDED", "COMPLETED_THEN_ABORTED")


@pytest.mark.deep
def test_a_supervisor_that_falls_silent_ends_the_attempt(lab):
    job, _ = lab.running()
    lab.ticks(2_000)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "SUPERVISOR_SILENT")
    assert lab.node_of(job).asked == "absent"


@pytest.mark.deep
def test_a_cloud_that_gives_no_answer_for_hours_ends_no_job(lab):
    job, (worker,) = lab.running()
    for _ in range(1_000):
        lab.cloud.fail("guest_attributes", CloudUnavailable("no answer"))
    lab.ticks(3_000)
    assert lab.state(job) == "RUNNING"
    lab.cloud.heal("guest_attributes")
    worker.run()
    lab.ticks(90)
    assert lab.state(job) == "RUNNING"


@pytest.mark.parametrize("is_service_down", [False, True])
def test_after_an_outage_workers_have_time_to_answer_a_task_that_could_not_be_written(
    lab, is_service_down
):
    node = lab.up()
    refuse_updates(lab, NotAllowed(REFUSAL))
    job = lab.submit(node=node.id)
    lab.ticks(20)
    if not is_service_down:
        for _ in range(1_000):
            lab.cloud.fail("guest_attributes", NotAllowed(REFUSAL))
    lab.tick(1_200)
    worker = Worker(lab.cloud, node)
    worker.report("IDLE", task_error="there is no steward-task")
    lab.cloud.heal("guest_attributes")
    lab.cloud.heal("update_metadata")
    lab.ticks(20)
    assert lab.state(job) == "PULLING"
    assert worker.task["attempt"] == lab.attempt(job).id
    worker.run()
    lab.ticks(20)
    assert lab.state(job) == "RUNNING"


@pytest.mark.deep
def test_a_worker_that_stays_silent_after_an_outage_is_silent(lab):
    job, _ = lab.running()
    for _ in range(1_000):
        lab.cloud.fail("guest_attributes", CloudUnavailable("no answer"))
    lab.tick(1_200)
    lab.cloud.heal("guest_attributes")
    lab.ticks(800)
    assert lab.state(job) == "RUNNING"
    lab.ticks(500)
    assert lab.shown(job).job.reason == "SUPERVISOR_SILENT"


def test_an_answer_for_one_of_two_slices_is_no_answer_for_the_job(lab, monkeypatch):
    job = lab.submit(node_request=factories.request(queued=True, slices=2))
    lab.ticks(10)
    lab.grant()
    lab.ticks(20)
    node, read = lab.node_of(job), lab.cloud.guest_attributes
    for number in (0, 1):
        Worker(lab.cloud, node, part=number).run()
    lab.ticks(20)
    before = lab.attempt(job)

    def read_first_slice(place, namespace):
        if place == place_of(node, 1):
            raise CloudUnavailable("no answer")
        return read(place, namespace)

    monkeypatch.setattr(lab.cloud, "guest_attributes", read_first_slice)
    lab.ticks(70)
    after = lab.attempt(job)
    assert after.read_at > before.read_at == before.answered_at
    assert after.answered_at == before.answered_at, "a silent cloud is no silent worker"


def test_a_read_that_was_one_too_many_is_made_at_the_next_look(lab):
    job, (worker,) = lab.begun()
    lab.ticks(15)
    worker.report("PULLING")
    before = lab.attempt(job).read_at
    lab.cloud.fail("guest_attributes", RateLimited("read too often", retry_after=1))
    lab.ticks(25)
    assert lab.attempt(job).read_at - before == 20, "a tick later, and not a turn"
    assert lab.state(job) == "PULLING"


def test_a_host_that_starts_again_is_lost_hardware(lab):
    job, (worker,) = lab.running()
    worker.exit(None, reason="REBOOTED")
    lab.ticks(80)
    assert lab.jobs.list_attempts(job.id)[0].attempt.reason == "HOST_LOST"


def test_a_job_on_a_node_that_is_never_granted_fails_with_that_reason(lab):
    job = lab.submit(node_request=factories.request(max_wait_seconds=60))
    lab.ticks(120)
    lab.cloud.settle()
    lab.ticks(30)
    shown = lab.shown(job).job
    assert (shown.state, shown.reason) == ("FAILED", "NODE_NOT_GRANTED")
