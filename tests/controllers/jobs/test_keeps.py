"""The own node of a job stays after its end while somebody keeps it."""

from __future__ import annotations

import pytest

from service.application.cleanup.keeps import KeepOrder, KeepService
from service.domain.clock import HOUR
from service.domain.nodes.node import Asked
from service.store.pricebook import PriceBookCache

KEEP = KeepOrder("look at its disk", for_seconds=HOUR)


@pytest.fixture
def keeps(lab):
    return KeepService(lab.units, PriceBookCache(), lab.clock)


def succeed(lab, job, workers):
    for worker in workers:
        worker.exit(0)
    lab.ticks(60)
    assert lab.state(job) == "SUCCEEDED"


def test_a_kept_node_of_a_job_goes_once_the_keep_is_over(lab, keeps):
    job, workers = lab.running()
    node = lab.node_of(job)
    until = keeps.keep_node(node.id, KEEP).node.kept_until
    succeed(lab, job, workers)
    held = lab.node_of(job)
    assert (held.asked, held.ends_after_keep) == ("present", f"job {job.id} is SUCCEEDED")
    assert f"deletion waits: job {job.id} is SUCCEEDED; it is kept until" in lab.story(node)
    lab.clock.pass_(until - 5 - lab.clock())
    lab.tick(0)
    assert lab.node_of(job).asked == "present"
    lab.tick(5)
    after = lab.node_of(job)
    assert (after.asked, after.delete_reason) == ("absent", f"job {job.id} is SUCCEEDED")


def test_a_node_that_nobody_keeps_goes_with_its_job(lab):
    job, workers = lab.running()
    succeed(lab, job, workers)
    assert lab.node_of(job).asked == "absent"


def test_to_end_the_keep_ends_the_node(lab, keeps):
    job, workers = lab.running()
    node = lab.node_of(job)
    keeps.keep_node(node.id, KEEP)
    succeed(lab, job, workers)
    keeps.end_keep(node.id)
    lab.tick()
    assert lab.node_of(job).asked == "absent"


def test_a_new_job_on_the_kept_node_ends_the_wait(lab, keeps):
    job, workers = lab.running()
    node = lab.node_of(job)
    until = keeps.keep_node(node.id, KEEP).node.kept_until
    succeed(lab, job, workers)
    second = lab.submit(node=node.id)
    lab.ticks(30)
    assert lab.attempt(second).node_id == node.id
    assert lab.node(node).ends_after_keep == ""
    lab.clock.pass_(until - lab.clock())
    lab.ticks(10)
    assert lab.node(node).asked is Asked.PRESENT


def test_a_kept_node_outlives_the_fuse_of_its_job_and_says_both_reasons(lab, keeps):
    job, workers = lab.running(max_duration_seconds=600)
    node = lab.node_of(job)
    keeps.keep_node(node.id, KeepOrder("look at its disk", for_seconds=4 * HOUR))
    succeed(lab, job, workers)
    lab.clock.pass_(node.deletes_at + HOUR - lab.clock())
    lab.tick(0)
    held = lab.node_of(job)
    assert (held.asked, held.ends_after_keep) == ("present", f"job {job.id} is SUCCEEDED")
    keeps.end_keep(node.id)
    lab.tick(0)
    after = lab.node_of(job)
    assert (after.asked, after.delete_reason) == ("absent", f"job {job.id} is SUCCEEDED")
    assert "(also: its time to live has expired)" in lab.story(node)


@pytest.mark.deep
def test_a_kept_node_takes_no_second_attempt_of_a_job_that_does_not_trust_it(lab, keeps):
    job, _ = lab.running()
    node = lab.node_of(job)
    keeps.keep_node(node.id, KeepOrder("look at its disk", for_seconds=24 * HOUR))
    lab.ticks(1_700)  # the supervisor is silent
    assert lab.node(node).asked is Asked.PRESENT
    assert {attempt.attempt.node_id for attempt in lab.jobs.list_attempts(job.id)} == {node.id}
    assert len(lab.jobs.list_attempts(job.id)) == 1
