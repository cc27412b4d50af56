"""What a job warns of: batches and devices that do not fit its node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.jobs.job import Job, JobSpec, Phase, Workers
from service.domain.jobs.presets import batch_warnings, device_warnings
from service.domain.jobs.report import SupervisorReport
from service.domain.jobs.step import WAIT, AttemptDecision, AttemptStep
from service.domain.jobs.transition import apply_decision, new_attempt
from service.domain.nodes.recipes import devices_expected
from tests import factories
from tests.hands import NOON

SLICE = factories.node(generation="v5e", accelerator_type="v5litepod-16", chips=16, hosts=4)
TWO_SLICES = factories.node(generation="v5e", chips=32, hosts=8, slices=2)
JOB = Job("job-1", "lab", JobSpec("image"), NOON, attempt=1)


@pytest.mark.parametrize(
    ("generation", "chips", "devices"),
    [("v2", 4, 8), ("v3", 16, 32), ("v4", 4, 4), ("v5p", 4, 4), ("v5e", 8, 8), ("v6e", 8, 8)],
)
def test_devices_are_those_that_the_framework_sees(generation, chips, devices):
    assert devices_expected(factories.node(generation=generation, chips=chips)) == devices


def test_the_devices_of_all_slices_count():
    assert devices_expected(TWO_SLICES) == 32


@pytest.mark.parametrize(
    ("batch", "nearest"),
    [(100, "96 or 104 does"), (97, "96 or 104 does"), (5, "; 8 does"), (96, None), (8, None)],
)
def test_a_batch_that_does_not_divide_names_the_nearest_that_do(batch, nearest):
    found = batch_warnings(8, batch, None, None)
    assert [nearest in warning for warning in found] == ([] if nearest is None else [True])


@pytest.mark.parametrize(("steps", "is_right"), [(10, True), (11, True), (20, False), (9, False)])
def test_steps_of_an_epoch_follow_from_examples_and_batch(steps, is_right):
    found = batch_warnings(8, 96, 1_000, steps)
    assert bool(found) is not is_right
    assert all("11 steps" in warning for warning in found)


@pytest.mark.parametrize(
    ("seen", "workers", "said"),
    [
        (16, Workers.ALL, ""),
        (None, Workers.ALL, ""),
        (4, Workers.ALL, "its own host"),
        (4, Workers.FIRST, ""),
        (1, Workers.ALL, "runs on the TPU"),
        (0, Workers.FIRST, "runs on the TPU"),
        (32, Workers.ALL, "runs on the TPU"),
    ],
)
def test_devices_that_a_program_sees_are_held_against_those_of_the_node(seen, workers, said):
    job = replace(JOB, spec=replace(JOB.spec, workers=workers))
    found = device_warnings(
        job, SLICE, {0: SupervisorReport(seq=1, devices=16), 2: SupervisorReport(1, devices=seen)}
    )
    assert len(found) == bool(said)
    for warning in found:
        assert warning.startswith(f"worker 2 sees {seen} devices, but the node has 16: ")
        assert said in warning


def running(job, *reports):
    """The job's attempt with the reports of its workers."""
    attempt = new_attempt(job, SLICE, generation=1, now=NOON)
    told = {str(n): replace(one, attempt=attempt.id) for n, one in enumerate(reports)}
    return replace(attempt, phase=Phase.RUNNING, placement=1, reports=told)


@pytest.mark.parametrize("decision", [WAIT, AttemptDecision(AttemptStep.PROGRESS, Phase.RUNNING)])
def test_warnings_of_workers_are_shown_while_the_job_runs_and_only_once(decision):
    job = replace(JOB, warnings=("known",))
    attempt = running(
        job,
        SupervisorReport(1, devices=4, warnings=("known", "new")),
        SupervisorReport(1, devices=16),
    )
    found = apply_decision(job, attempt, SLICE, decision, NOON).job
    assert [found.warnings[0], found.warnings[2:]] == ["known", ("new",)]
    assert "worker 0 sees 4 devices" in found.warnings[1]
    assert apply_decision(found, attempt, SLICE, decision, NOON).job.warnings == found.warnings


def test_a_worker_cannot_fill_the_job_with_warnings():
    job = JOB
    for count in range(0, 2_000, 20):
        told = tuple(f"warning {count + n}" for n in range(20))
        job = apply_decision(
            job, running(job, SupervisorReport(1, warnings=told)), SLICE, WAIT, NOON
        ).job
    assert len(job.warnings) == 50
