"""A lab whose jobs were submitted, ran, failed and were lost: what the pages of jobs show."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from service.domain.jobs.job import Job
from service.domain.nodes.node import Node, NodeState
from service.store.unit import Units
from tests import factories
from tests.controllers.jobs.conftest import JobLab
from tests.dashboard.lab import Lab
from tests.fake_jobs import FakeLogs, Worker
from tests.fakes import FakeCloud
from tests.hands import HandClock

FOUR_HOSTS = factories.request(accelerator_type="v5litepod-16")
HOSTILE = "<script>alert(1)</script>\"'\n\u202egnp.exe\u2066"
"""Markup, quotes, a line break, and what turns the text around it."""


class JobHouse:
    """Real controllers of jobs with workers in hand, and the dashboard over the same database."""

    def __init__(self, units: Units, engine: Engine, clock: HandClock) -> None:
        self.jobs = JobLab(units, engine, clock, FakeCloud(clock))
        self.log = FakeLogs()
        self.lab = Lab(units, clock, (factories.PROJECT,), self.log)
        self._says: dict[Worker, dict[str, Any]] = {}
        self.in_front: Worker | None = None
        """The worker of the job that is first in line."""

    def pass_(self, seconds: int) -> None:
        """Time passes; the workers whose containers run say so each minute."""
        for left in range(seconds, 0, -60):
            for worker, said in self._says.items():
                worker.report("RUNNING", **worker.times, **said)
            self.jobs.ticks(min(left, 60))

    def say(self, worker: Worker, **said: Any) -> None:
        """What a worker reports from now on, with what it said before."""
        self._says[worker] = {**self._says.get(worker, {}), **said}

    def exit(self, worker: Worker, code: int, **changes: Any) -> None:
        """The container has ended, now or when that was said first."""
        self._says.pop(worker, None)
        worker.exit(code, **changes)

    def run(self, job: Job) -> Worker:
        """The node of a job comes up, and its container starts."""
        self.pass_(60)
        node = self.jobs.node_of(job)
        self.jobs.cloud.come_up(node.place.path)
        self.pass_(20)
        worker = Worker(self.jobs.cloud, node)
        worker.report("PULLING", pull_started_at=self.jobs.clock())
        self.pass_(45)
        self.start(worker)
        return worker

    def start(self, worker: Worker) -> None:
        """The container has started after some time of pulling."""
        now = self.jobs.clock()
        worker.times = {"pull_started_at": now - 45, "pulled_at": now - 9, "started_at": now - 1}
        self.say(worker)
        self.pass_(20)

    def preempt(self, job: Job, worker: Worker) -> None:
        """Google takes the node, and the next attempt's is asked for."""
        del self._says[worker]
        self.jobs.cloud.become(NodeState.PREEMPTED, self.jobs.node_of(job).place.path)
        self.pass_(40)
        self.jobs.cloud.settle()
        self.pass_(40)

    def fail(self, job: Job, worker: Worker, code: int) -> None:
        """The container of the only worker ends with a code, and its node is gone after that."""
        for _ in range(10):
            self.exit(worker, code)
            self.pass_(15)
        self.jobs.cloud.settle()
        self.pass_(30)

    def succeed(self, worker: Worker) -> None:
        """The container ends with 0, and its node is gone after that."""
        self.exit(worker, 0)
        self.pass_(70)
        self.jobs.cloud.settle()
        self.pass_(30)

    # jobs of all sorts

    def preempted_twice(self) -> Job:
        """Lost twice: after a checkpoint, and after having caught up; then it succeeds."""
        wanted = factories.request(name="spotty", provisioning_model="spot")
        job = self.jobs.submit(node_request=wanted, run_name="resnet-90", owner="ada")
        for step in (1_200, 2_400):
            worker = self.run(job)
            now = self.jobs.clock()
            self.say(worker, checkpoint=step, checkpoint_at=now, step=step, step_at=now)
            self.pass_(180)
            self.say(worker, step=step + 300, step_at=self.jobs.clock())
            self.pass_(90)
            self.preempt(job, worker)
        worker = self.run(job)
        self.pass_(300)
        self.say(worker, step=2_700, step_at=self.jobs.clock())
        self.pass_(120)
        self.succeed(worker)
        self.tell(job, "epoch 90: loss 0.71, top-1 76.3 %")
        return job

    def failed(self, **changes: Any) -> Job:
        """Four workers, of which one ends with code 7 and takes the others down."""
        asked = {"node_request": FOUR_HOSTS, "run_name": "llama-sweep", "owner": "grace"}
        job, workers = self.jobs.running(**(asked | changes))
        self.exit(workers[2], 7)
        self.pass_(70)
        for _ in range(8):
            at = self.jobs.attempt(job).reports["2"].ended_at
            for number, worker in enumerate(workers):
                own = number == 2
                reason = "COMPLETED" if own else "STOPPED"
                self.exit(worker, 7 if own else 143, ended_at=at, reason=reason)
            self.pass_(15)
        self.jobs.cloud.settle()
        self.pass_(30)
        self.tell(job, "ValueError: batch of 1000 does not divide over 16 devices", worker=2)
        return job

    def cancelled(self, **changes: Any) -> Job:
        """Cancelled while it waits for its node."""
        job = self.jobs.submit(**({"run_name": "wrong-branch"} | changes))
        self.jobs.jobs.cancel(job.id)
        self.pass_(20)
        return job

    def running(self, **changes: Any) -> Job:
        """One that runs for a while."""
        job = self.jobs.submit(**({"run_name": "bert-large", "owner": "ada"} | changes))
        self.run(job)
        self.pass_(300)
        return job

    def in_line(self) -> tuple[Node, Job, Job]:
        """A caller's node with a job that runs, and one that waits for its turn."""
        node = self.jobs.up(name="shared", team="language")
        first = self.jobs.submit(node=node.id, run_name="eval-1", owner="lin")
        self.pass_(20)
        self.in_front = Worker(self.jobs.cloud, node)
        self.start(self.in_front)
        second = self.jobs.submit(node=node.id, run_name="eval-2", owner="lin")
        self.pass_(30)
        return node, first, second

    def hostile(self) -> Job:
        """Every text of a caller is hostile, and a line of output has 100 kB."""
        job = self.running(
            run_name="x" * 80,
            owner="<b>" + "o" * 100,
            team="\N{HEBREW LETTER ALEF}" * 80,
            args=(HOSTILE, "a" * 20_000, ""),
            command=("sh", "-c", HOSTILE),
            env={"HOSTILE": HOSTILE, "LONG": "v" * 20_000, "EMPTY": ""},
            labels={"stage": "eval"},
        )
        for text in (HOSTILE, "l" * 100_000, "\x1b[31mred\x1b[0m", "10%\r55%\r99%", "\ttab", ""):
            self.tell(job, text)
        return job

    def tell(self, job: Job, text: str, worker: int = 0) -> None:
        """A line of output arrives now."""
        self.log.write(self.jobs.clock(), text, worker, self.jobs.shown(job).job.attempt, job.id)
