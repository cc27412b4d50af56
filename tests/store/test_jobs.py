"""Jobs and attempts: one claim a node, and no write over what was not read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from service.domain.errors import Conflict, NotFound, StaleVersion
from service.domain.ids import new_id
from service.domain.jobs.job import Attempt, Job, JobSpec, Retries, attempt_id
from service.domain.jobs.report import SupervisorReport, WorkerState
from service.store.jobs import JobFilter
from service.store.json_columns import dumps
from tests import factories
from tests.hands import NOON


def a_job(**changes):
    return replace(Job(new_id(), "lab", JobSpec("a/b:c"), NOON, next_try_at=NOON), **changes)


def an_attempt(job, node, number=1, **changes):
    base = Attempt(attempt_id(job.id, number), job.id, number, "lab", node.id, NOON)
    return replace(base, **changes)


@pytest.fixture
def node(units):
    made = factories.node()
    with units() as unit:
        unit.nodes.add(made)
    return made


def test_a_job_and_its_attempts_are_read_as_they_were_written(units, node):
    spec = JobSpec("a/b:c", env={"A": "1"}, args=("x",), retries=Retries(3, 2, (42,)))
    job = a_job(spec=spec, exit_codes={"0": None, "1": 7}, warnings=("w",), labels={"k": "v"})
    report = SupervisorReport(seq=3, state=WorkerState.RUNNING, warnings=("w",))
    attempt = an_attempt(job, node, reports={"0": report}, evidence=("e",))
    with units() as unit:
        unit.jobs.add(job, factories.request(team="nlp"))
        unit.jobs.add_attempt(attempt)
        assert unit.jobs.get(job.id) == job
        assert list(unit.jobs.list_attempts(job.id)) == [attempt]
        request = unit.jobs.node_request(job.id)
        assert dumps(request) == dumps(factories.request(team="nlp"))
        with pytest.raises(NotFound):
            unit.jobs.get("nobody")


def test_the_attempts_of_several_jobs_are_found_by_job(units, node):
    jobs = [a_job() for _ in range(3)]
    tried = [
        an_attempt(job, node, number, released_at=NOON) for job in jobs[:2] for number in (1, 2)
    ]
    with units() as unit:
        for job in jobs:
            unit.jobs.add(job, None)
        for attempt in tried:
            unit.jobs.add_attempt(attempt)
        found = unit.jobs.list_attempts_of([jobs[1].id, jobs[2].id])
        assert set(found) == {jobs[1].id}
        assert {attempt.id for attempt in found[jobs[1].id]} == {
            attempt.id for attempt in tried[2:]
        }
        assert unit.jobs.list_attempts_of([]) == {}


def test_what_was_changed_since_it_was_read_is_not_written_over(units, node):
    job = a_job()
    attempt = an_attempt(job, node)
    with units() as unit:
        unit.jobs.add(job, None)
        unit.jobs.add_attempt(attempt)
        unit.jobs.save(job)
        unit.jobs.save_attempt(attempt)
        with pytest.raises(StaleVersion):
            unit.jobs.save(job)
        with pytest.raises(StaleVersion):
            unit.jobs.save_attempt(attempt)


def test_a_job_that_was_woken_since_it_was_read_is_not_put_off(units):
    job = a_job(next_try_at=NOON + 300)
    with units() as unit:
        unit.jobs.add(job, None)
        unit.jobs.wake(job.id, NOON)
        with pytest.raises(StaleVersion):
            unit.jobs.save(replace(job, next_try_at=NOON + 600))
        assert unit.jobs.get(job.id).next_try_at == NOON


def test_of_many_who_claim_a_node_at_once_one_does(units, node):
    jobs = [a_job() for _ in range(6)]
    with units() as unit:
        for job in jobs:
            unit.jobs.add(job, None)

    def claim(job):
        try:
            with units() as unit:
                unit.jobs.add_attempt(an_attempt(job, node))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(len(jobs)) as pool:
        assert sorted(pool.map(claim, jobs)) == [False] * 5 + [True]
    with units() as unit:
        claimed = unit.jobs.find_claim(node.id)
        assert claimed is not None
        unit.jobs.save_attempt(replace(claimed, released_at=NOON + 9))
        assert unit.jobs.find_claim(node.id) is None
        unit.jobs.add_attempt(an_attempt(a_job(id=claimed.job_id), node, number=2))


def test_the_line_of_a_node_is_in_the_order_of_submission(units, node):
    earlier, later = sorted([new_id(), new_id()])  # made within one millisecond, in any order
    first = a_job(id=earlier, node_id=node.id)
    second = a_job(id=later, node_id=node.id, next_try_at=NOON + 300)
    own = a_job(node_id=node.id, own_node=True)
    with units() as unit:
        for job in (first, second, own):
            unit.jobs.add(job, None)
        assert unit.jobs.is_first_in_line(first)
        assert not unit.jobs.is_first_in_line(second)
        unit.jobs.wake_next(first, NOON)
        assert unit.jobs.get(second.id).next_try_at == NOON


def test_jobs_are_found_by_each_node_that_they_ran_on(units, node):
    with units() as unit:
        later = factories.node()
        unit.nodes.add(later)
        moved, other = a_job(node_id=later.id), a_job(node_id=later.id)
        for job in (moved, other):
            unit.jobs.add(job, None)
        unit.jobs.add_attempt(an_attempt(moved, node, released_at=NOON + 9, generation=7))
        unit.jobs.add_attempt(an_attempt(moved, later, number=2))
        assert [job.id for job in unit.jobs.list_page(JobFilter(node_id=node.id), "", 9)] == [
            moved.id
        ]
        found = unit.jobs.list_page(JobFilter(node_id=later.id), "", 9)
        assert {attempt.id for attempt in found} == {moved.id, other.id}
        assert unit.jobs.last_generation(node.id) == 7
        assert unit.jobs.last_generation("nobody") == 0
