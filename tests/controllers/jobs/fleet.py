"""Many jobs on many nodes: only the controller of the jobs ticks, and its workers answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from service.domain.clock import MINUTE
from service.domain.jobs.job import Job
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.placement import Placement
from tests import factories
from tests.controllers.jobs.conftest import JobLab
from tests.fake_jobs import Worker
from tests.hands import NOON

HOSTS = 4
RUN_SECONDS = 90
TICK = 5


@dataclass
class JobFleet:
    """`nodes` four-host nodes of callers, with the same number of jobs in line for each."""

    lab: JobLab
    nodes: list[Node] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    changes: Counter[str] = field(default_factory=Counter)
    """By node: how many tasks its workers have seen."""
    reads: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By node and minute: how often its reports were read."""
    _workers: dict[str, list[Worker]] = field(default_factory=dict)
    _tasks: dict[str, tuple[str, int]] = field(default_factory=dict)
    _running_since: dict[str, int] = field(default_factory=dict)

    def add(self, nodes: int, jobs: int) -> None:
        """Make the nodes, READY, and submit the jobs."""
        for number in range(nodes):
            node = factories.node(
                name=f"n-{number}",
                accelerator_type="v5litepod-16",
                topology="4x4",
                chips=16,
                hosts=HOSTS,
                supervisor=True,
                state=NodeState.READY,
                ready_at=NOON,
                attempt=1,
                cloud_id=f"n-{number}",
                sent_at=NOON,
                next_try_at=None,
            )
            with self.lab.units() as unit:
                unit.nodes.add(node)
                unit.placements.add(
                    Placement(node.id, 1, node.zone, "on_demand", node.cloud_id, NOON)
                )
            self.nodes.append(node)
            self.lab.cloud.nodes[node.place.path] = factories.sight(node, state=NodeState.READY)
            self.lab.cloud.maps[node.place.path] = {"ssh-keys": "ada:key"}
            self._workers[node.id] = [Worker(self.lab.cloud, node, host) for host in range(HOSTS)]
        for _ in range(jobs):
            self.jobs += [self.lab.submit(node=node.id, owner="ada") for node in self.nodes]

    def tick(self) -> None:
        """Let workers act on their tasks, and the controller look."""
        self.lab.clock.pass_(TICK)
        for node in self.nodes:
            self._work(node)
        before = len(self.lab.cloud.calls)
        with self.lab.units() as unit:
            lease = self.lab.lease
            unit.leases.take(lease.project, lease.holder, 3_600, self.lab.clock())
        self.lab.controller.tick(self.lab.lease)
        minute = self.lab.clock() // MINUTE
        for verb, path in self.lab.cloud.calls[before:]:
            if verb == "guest_attributes":
                self.reads[path, minute] += 1

    def updates(self) -> Counter[str]:
        """By node's path: how often its metadata was written."""
        calls = self.lab.cloud.calls
        return Counter(path for verb, path in calls if verb == "update_metadata")

    def _work(self, node: Node) -> None:
        workers = self._workers[node.id]
        task = workers[0].task
        if not task:
            return
        key = task["attempt"], task["generation"]
        if self._tasks.get(node.id) != key:
            self._tasks[node.id] = key
            self.changes[node.place.path] += 1
            self._begin(node, task["action"])
        since = self._running_since.get(node.id)
        if since is not None and self.lab.clock() - since >= RUN_SECONDS:
            del self._running_since[node.id]
            for worker in workers:
                worker.exit(0)

    def _begin(self, node: Node, action: str) -> None:
        for worker in self._workers[node.id]:
            if action == "pull":
                worker.report("PULLED")
            elif action == "run":
                worker.run()
                self._running_since[node.id] = self.lab.clock()
            elif action == "release":
                worker.report("IDLE")
