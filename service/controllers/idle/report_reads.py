"""Reads the activity reports of workers, on separate threads for each project: a slow cloud delays
only the nodes whose reports are needed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

import structlog

from service.cloud.ports import TpuCloud
from service.controllers.idle.readings import Start, on_a_thread
from service.domain.clock import HOUR, Clock
from service.domain.errors import CloudError
from service.domain.idle.assess import IdleSubject, IdleTimes
from service.domain.idle.report_reads import ReportedNodes, ReportRead, choose_reads, with_answers
from service.domain.idle.worker_report import WorkerReport, parse_worker
from service.domain.jobs.task import NAMESPACE, hosts_of_slice
from service.domain.nodes.node import Node
from service.domain.nodes.slices import place_of, slice_numbers

log = structlog.get_logger()

THREADS = 8
"""Nodes of a project that are read at the same time."""


class ReportReader:
    """Reads reports between ticks. The next tick takes the answers; until then a stale report is
    UNKNOWN by its age. New reads begin once the previous reads have ended."""

    def __init__(
        self, cloud: TpuCloud, clock: Clock, times: IdleTimes, start: Start = on_a_thread
    ) -> None:
        self._cloud = cloud
        self._clock = clock
        self._times = times
        self._start = start
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self._answers: dict[str, list[ReportRead]] = {}
        self._tried: dict[str, int] = {}

    def take_reports(
        self, project: str, subjects: Sequence[IdleSubject], now: int
    ) -> ReportedNodes:
        """The nodes with the reports read since the last tick; begins the reads that are due.
        Called outside of any transaction."""
        with self._lock:
            is_free = not self._running.get(project)
            self._tried = {node: at for node, at in self._tried.items() if at > now - HOUR}
            tried = dict(self._tried)
        if is_free:
            nodes = choose_reads(subjects, tried, now, self._times)
            parts = [part for first in range(THREADS) if (part := nodes[first::THREADS])]
            with self._lock:
                self._running[project] = len(parts)
            for part in parts:
                self._start(partial(self._read_nodes, project, part))
        with self._lock:
            answers = self._answers.pop(project, [])
        return with_answers(subjects, answers, now, self._times)

    def _read_nodes(self, project: str, nodes: Sequence[Node]) -> None:
        try:
            for node in nodes:
                answer = self._read_node(node)
                with self._lock:
                    self._answers.setdefault(project, []).append(answer)
        finally:
            with self._lock:
                self._running[project] -= 1

    def _read_node(self, node: Node) -> ReportRead:
        """Read the reports of all workers of a node; one call for each slice."""
        now, hosts = self._clock(), hosts_of_slice(node)
        with self._lock:
            self._tried[node.id] = now
        workers: dict[int, WorkerReport] = {}
        is_complete = True
        for number, slice_number in enumerate(slice_numbers(node)):
            try:
                written = self._cloud.guest_attributes(place_of(node, slice_number), NAMESPACE)
            except CloudError as error:
                log.info("idle.no_reports", node_id=node.id, reason=str(error))
                is_complete = False
                continue
            except Exception:  # a thread that dies unnoticed would leave all reports stale
                log.exception("idle.reports_broke", node_id=node.id)
                is_complete = False
                continue
            for worker, values in enumerate(written[:hosts], start=number * hosts):
                # By the clock after the call: a worker may report while the call is under way.
                report = workers[worker] = parse_worker(values, self._clock(), node.up_since or 0)
                if report.is_ahead:
                    log.warning("idle.report_ahead", node_id=node.id, worker=worker)
                    is_complete = False
        return ReportRead(node.id, node.attempt, now, workers, is_complete)
