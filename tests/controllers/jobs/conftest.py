"""A laboratory with jobs: the real controller on a real database, workers played by hand."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from service.application.jobs.jobs import JobService, JobStatus
from service.application.nodes.requests import NodeRequests
from service.controllers.jobs.jobs import JobsController
from service.domain.jobs.job import Attempt, Job, JobSpec
from service.domain.jobs.submission import Submission
from service.domain.nodes.node import Node
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.controllers.conftest import Lab
from tests.fake_jobs import FakeRegistry, Worker
from tests.fakes import FakeCloud, OutsideTransactions
from tests.hands import HandClock

IMAGE = "us-docker.pkg.dev/lab/train/jax:7"


class JobLab(Lab):
    """A lab that runs jobs as well."""

    def start_daemon(self, holder: str) -> None:
        super().start_daemon(holder)
        prices, projects = PriceBookCache(), [factories.PROJECT]
        requests = NodeRequests(self.units, prices, self.clock, projects)
        self.registry = FakeRegistry()
        outside: Any = OutsideTransactions(self.cloud, self.engine)
        registry: Any = OutsideTransactions(self.registry, self.engine)  # type: ignore[arg-type]
        self.jobs = JobService(self.units, prices, self.clock, requests, projects)
        self.controller = JobsController(self.units, outside, registry, requests, self.clock)
        self.controller.workers = 1

    def submit(self, **changes: Any) -> Job:
        """A job with a node of its own, unless a node is named."""
        names = {"node", "node_request", "owner", "team", "labels"}
        around = {name: changes.pop(name) for name in names & changes.keys()}
        if "node" not in around:
            around.setdefault("node_request", factories.request())
        spec = JobSpec(**{"image": IMAGE, "args": ("train.py",), **changes})
        return self.jobs.submit(Submission(spec, **around)).shown.job

    def tick(self, seconds: int = 5) -> None:
        super().tick(seconds)
        with self.units() as unit:  # as the daemon does when it renews its lease
            lease = self.lease
            unit.leases.take(lease.project, lease.holder, 3_600, self.clock())
        self.controller.tick(self.lease)

    def ticks(self, seconds: int) -> None:
        """Let time pass in steps of five seconds."""
        for _ in range(0, seconds, 5):
            self.tick()

    def shown(self, job: Job) -> JobStatus:
        """The job as callers see it now."""
        return self.jobs.get(job.id)

    def state(self, job: Job) -> str:
        """Its state now."""
        return self.shown(job).job.state

    def node_of(self, job: Job) -> Node:
        """The node of its latest attempt."""
        return self.nodes.get(self.shown(job).job.node_id)

    def attempt(self, job: Job) -> Attempt:
        """Its latest attempt."""
        return self.jobs.list_attempts(job.id)[-1].attempt

    def begun(self, **changes: Any) -> tuple[Job, list[Worker]]:
        """A job whose own node is READY, and the workers of that node."""
        job = self.submit(**changes)
        self.ticks(10)
        node = self.node_of(job)
        self.cloud.come_up(node.place.path)
        self.ticks(10)
        workers = [Worker(self.cloud, node, number) for number in range(node.spec.hosts)]
        return job, workers

    def running(self, **changes: Any) -> tuple[Job, list[Worker]]:
        """A job whose containers run."""
        job, workers = self.begun(**changes)
        if len(workers) > 1:
            for worker in workers:
                worker.report("PULLED")
            self.ticks(20)
        for worker in workers:
            worker.run()
        self.ticks(20)
        assert self.state(job) == "RUNNING"
        return job, workers


@pytest.fixture
def lab(units: Units, engine: Engine, clock: HandClock) -> JobLab:
    """A laboratory on an empty database."""
    return JobLab(units, engine, clock, FakeCloud(clock))
