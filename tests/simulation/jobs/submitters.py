"""Callers who submit jobs, cancel some of them, and stop a node below a running one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from sqlalchemy import Engine

from service.application.jobs.jobs import JobService
from service.application.nodes.requests import NodeRequests
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import Conflict, QuotaTooSmall, Rejected, StoreUnavailable
from service.domain.idempotency import RequestKey
from service.domain.jobs.job import Job
from service.domain.jobs.submission import Submission
from service.domain.nodes.node import Node
from service.store.pricebook import PriceBookCache
from tests.simulation.client_retries import ShakyUnits
from tests.simulation.clock import Agenda
from tests.simulation.database_outages import DatabaseOutages
from tests.simulation.invariants import Violation
from tests.simulation.jobs.requests import draw_own_node, draw_spec
from tests.simulation.rates import Rates

PROJECT = "lab"


@dataclass
class Submitters:
    """Submit as many jobs as the seed says; `jobs` are those that were accepted."""

    agenda: Agenda
    engine: Engine
    outages: DatabaseOutages
    luck: Random
    fortune: Rates
    nodes: Sequence[Node]
    """The callers' nodes, as they come to be."""
    stop: Callable[[str], Any]
    """Stops a node although a job runs on it."""
    jobs: list[Job] = field(default_factory=list)
    _supplanted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        units, shared = (
            ShakyUnits(self.engine, self.outages),
            (PriceBookCache(), self.agenda.seconds),
        )
        requests = NodeRequests(units, *shared, [PROJECT])
        self.service = JobService(units, *shared, requests, [PROJECT])

    def begin(self) -> None:
        for number in range(self.fortune.jobs):
            when = self.luck.uniform(0, self.fortune.hours * 1800)
            self.agenda.after(when, partial(self._submit, number))

    def cancel_all(self) -> None:
        """Cancel whatever has not ended."""
        for job in self.jobs:
            self._cancel(job.id)

    def supplant(self, job_id: str) -> None:
        """Submit another job for the node of a job, unless that is the job's own, and cancel it."""
        job = next((job for job in self.jobs if job.id == job_id), None)
        if job is None or job.own_node or job_id in self._supplanted:
            return
        self._supplanted.add(job_id)
        spec, key = draw_spec(Random(f"instead of {job_id}")), RequestKey(f"not-{job_id}", "0")
        other = Submission(spec, owner="eve", node=job.node_id)
        with suppress(Conflict, QuotaTooSmall, Rejected):
            self.jobs.append(self._ask(lambda: self.service.submit(other, key=key)).shown.job)
        self._cancel(job_id)

    def _submit(self, number: int) -> None:
        luck = Random(f"{self.luck.random()}/{number}")
        submission, key = self._draw(luck), RequestKey(f"job-{number}", str(number))
        try:
            shown = self._ask(lambda: self.service.submit(submission, key=key)).shown
            if luck.random() < 0.3:
                again = self._ask(lambda: self.service.submit(submission, key=key)).shown
                if again.job.id != shown.job.id:
                    raise Violation("the same key made two jobs")
        except (Conflict, QuotaTooSmall, Rejected):
            return  # the node went away meanwhile, or no zone has quota
        self.jobs.append(shown.job)
        if luck.random() < 0.25:
            self.agenda.after(self._some_time(luck), lambda: self._cancel(shown.job.id))
        if submission.node and luck.random() < 0.15:
            self.agenda.after(self._some_time(luck), lambda: self._stop(shown.job.node_id))

    def _draw(self, luck: Random) -> Submission:
        hosts = [node for node in self.nodes if node.spec.architecture is Architecture.VM]
        if hosts and luck.random() < 0.5:
            return Submission(draw_spec(luck), owner="eve", node=luck.choice(hosts).id)
        return draw_own_node(luck, self.fortune.queued)

    def _some_time(self, luck: Random) -> float:
        """Mostly within minutes, when a job is still on its way."""
        return luck.choice([luck.uniform(0, 300), luck.uniform(0, self.fortune.hours * 3600)])

    def _cancel(self, job_id: str) -> None:
        self._ask(lambda: self.service.cancel(job_id))

    def _stop(self, node_id: str) -> None:
        with suppress(Conflict, Rejected):  # too late for that, or never possible
            self._ask(lambda: self.stop(node_id))

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask until there is an answer."""
        while True:
            try:
                return question()
            except StoreUnavailable:
                self.agenda.pass_(self.luck.uniform(1, 20))
