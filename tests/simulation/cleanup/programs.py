"""What programs say about nodes: heartbeats hold some, and jobs run on or wait for others.

There is no supervisor here: a job is stored as the daemon and its workers' reports would have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from service.application.cleanup.heartbeats import HeartbeatService
from service.domain.errors import Conflict
from service.domain.idle.signals.heartbeat import Beat
from service.domain.jobs.job import Attempt, Job, JobSpec, JobState, Phase, Reason, attempt_id
from service.domain.jobs.report import SupervisorReport, WorkerState
from service.domain.nodes.node import Asked, NodeState
from tests.simulation.cleanup.oracle import Claim, Why
from tests.simulation.cleanup.workloads import RESTS
from tests.simulation.replica import PROJECT

if TYPE_CHECKING:
    from tests.simulation.cleanup.run import Run

STEP_SECONDS = 120
LATEST = 3_600
"""All heartbeats and jobs begin before, and end at most so long after."""


class Conduct(StrEnum):
    """What a job does on its node."""

    STEPS = "steps"
    HANGS = "hangs"
    """It holds the node and makes no progress."""
    WAITS = "waits"
    """It waits for the node, which no other job has."""


@dataclass
class Programs:
    """They have luck of their own."""

    life: Run
    luck: Random
    _steps: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._beats = HeartbeatService(self.life.units, self.life.agenda.seconds)

    def begin(self, node_ids: Iterable[str]) -> None:
        """Decide which node is needed when, and by what."""
        luck, later, fate = self.luck, self.life.agenda.after, self.life.fate
        for node_id in node_ids:
            rests = self.life.fleet.lives[node_id].workload in RESTS
            if fate.has_beats and luck.random() < (0.8 if rests else 0.3):
                start = luck.uniform(300, LATEST)
                end = self.life.agenda.now + start + luck.uniform(300, LATEST)
                later(start, partial(self._beat, node_id, end))
            if fate.has_jobs and luck.random() < (1.0 if rests else 0.3):
                conduct = luck.choice([*Conduct, Conduct.STEPS, Conduct.HANGS])
                seconds = luck.uniform(1_800, LATEST)
                begin = partial(self._begin_job, node_id, conduct, seconds)
                later(luck.uniform(300, LATEST / 3), begin)

    def _beat(self, node_id: str, end: float) -> None:
        """Send a heartbeat, and the next one after a while, now and then too late."""
        seconds = self.luck.choice([300, 600, 900])
        with suppress(Conflict):  # it is being deleted, or was not placed yet
            beat = self._beats.record_beat(node_id, Beat(seconds=seconds))
            now = self.life.agenda.seconds()
            claim = Claim(Why.BEAT, now, now + seconds, beat.incarnation)
            self.life.oracle.has_claimed(node_id, claim)
        again = self.luck.uniform(100, 500)
        if self.life.agenda.now + again < end:
            self.life.agenda.after(again, partial(self._beat, node_id, end))

    def _begin_job(self, node_id: str, conduct: Conduct, seconds: float) -> None:
        now, later = self.life.agenda.seconds(), self.life.agenda.after
        with self.life.units() as unit:
            unit.nodes.lock(node_id)
            node = unit.nodes.get(node_id)
            is_there = node.state == NodeState.READY and node.asked is Asked.PRESENT
            if not is_there or node.spec.recreate_on_preemption:
                return
            job = Job(f"job-{node.name}", PROJECT, JobSpec("a/b:c"), now, node_id=node.id)
            unit.jobs.add(job, None)
            if conduct is not Conduct.WAITS:
                attempt = Attempt(attempt_id(job.id, 1), job.id, 1, PROJECT, node.id, now)
                unit.jobs.add_attempt(replace(attempt, phase=Phase.RUNNING, placement=node.attempt))
                unit.nodes.save(node)  # whoever has read that no job runs there fails
        why = Why.QUEUED if conduct is Conduct.WAITS else Why.JOB
        claim = Claim(why, now, float("inf"))
        self.life.oracle.has_claimed(node_id, claim)
        if conduct is Conduct.STEPS:
            later(STEP_SECONDS, partial(self._step, job.id, claim))
        later(seconds, partial(self._end_job, job.id, claim))

    def _step(self, job_id: str, claim: Claim) -> None:
        """The job reports its next step."""
        now = self.life.agenda.seconds()
        if claim.until <= now:
            return
        number = self._steps[job_id] = self._steps.get(job_id, 0) + 1
        with self.life.units() as unit:
            (attempt,) = unit.jobs.list_attempts(job_id)
            told = SupervisorReport(number, attempt=attempt.id, step=number, step_at=now)
            told = replace(told, state=WorkerState.RUNNING)
            unit.jobs.save_attempt(replace(attempt, reports={"0": told}))
        self.life.agenda.after(STEP_SECONDS, partial(self._step, job_id, claim))

    def _end_job(self, job_id: str, claim: Claim) -> None:
        now = self.life.agenda.seconds()
        with self.life.units() as unit:
            job = unit.jobs.get(job_id)
            unit.jobs.save(job.with_end(JobState.SUCCEEDED, Reason.COMPLETED, "", now))
            for attempt in unit.jobs.list_attempts(job_id):
                ended = replace(attempt, phase=Phase.ENDED, ended_at=now, released_at=now)
                unit.jobs.save_attempt(ended)
        claim.until = now
