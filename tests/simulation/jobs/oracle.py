"""What must hold of jobs, held against what their containers really did."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from service.application.jobs.cost import attempt_costs, job_cost
from service.domain.jobs.job import INFRASTRUCTURE, Attempt, Job, JobState, Reason, Workers
from service.domain.nodes.node import ENDED, Asked, Node
from service.domain.nodes.placement import Outcome
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.world.bill import Transition
from service.emulator.world.container_runs import Cause, ContainerRun
from service.emulator.world.world import World
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from tests.simulation.clock import Agenda
from tests.simulation.invariants import LABEL, Invariants, Violation
from tests.simulation.jobs.requests import KINDS, MISSING_IMAGE

__all__ = ["KINDS", "JobOracle"]

FINAL = {
    Reason.COMPLETED: JobState.SUCCEEDED,
    Reason.COMPLETED_THEN_ABORTED: JobState.SUCCEEDED,
    Reason.CANCELLED: JobState.CANCELLED,
    Reason.TIMED_OUT: JobState.TIMED_OUT,
}
BY_PROGRAM = {Reason.PROGRAM_FAILED, Reason.OOM_KILLED}
UNDECIDED = {Reason.UNKNOWN, Reason.SUPERVISOR_SILENT}
LOSSES = {Cause.POWER, Cause.PEERS, Cause.NOTICE}
UP = {"READY", "CREATING"}
CLASSIFY_SECONDS = 300
"""Evidence that comes later than this after the first end need not count."""


SEEN_SECONDS = 120
"""What lasts longer than this, with nothing in the way, is seen: reports are read every minute."""

NOTICE_SECONDS = 60
"""What was told to go is gone by then, and every list shows it."""

FUSE_BURNED = "its time to live has expired"


@dataclass(frozen=True)
class Decided:
    """An attempt whose end was committed: when, and when the project was last seen by then."""

    at: int
    looked_at: int


@dataclass
class JobOracle:
    """Watches the containers of the world and every commit; knows not how the service decides."""

    agenda: Agenda
    world: World
    units: Units
    truth: Invariants
    hosts: dict[str, int] = field(default_factory=dict)
    """By attempt: how many workers its container runs on."""
    decided: dict[str, Decided] = field(default_factory=dict)
    attempts: int = 0
    undecided: int = 0
    """Of the attempts: those that ended without a known reason."""
    _final: dict[str, tuple[str, int]] = field(default_factory=dict)
    _heard: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    """By attempt and worker: the number of the newest report that was written down."""
    _moves: dict[str, list[Transition]] = field(default_factory=lambda: defaultdict(list))
    """By the id of our node: when it, or which slice of it, went to which state."""
    _noticed: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By the id of our node: when its workers were told of a preemption."""
    _owners: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.runs.observers.append(self._started)
        self.world.on_metadata.append(self._told)
        self.world.observers.append(self._moved)
        self.world.on_preemption_notice.append(self._announced)

    # at each moment

    def _started(self, run: ContainerRun) -> None:
        """One container on a worker, one attempt of a job."""
        for other in self.world.runs:
            if other is run or other.end is not None:
                continue
            if (other.uid, other.number) == (run.uid, run.number):
                self._wrong(f"{run.attempt} and {other.attempt} run on one worker")
            twice = other.attempt != run.attempt or other.worker == run.worker
            if other.job == run.job and twice:
                self._wrong(f"{run.attempt} started while {other.attempt} ran")
        record = self.world.nodes[run.node]
        with self.units.reading() as unit:
            job = unit.jobs.get(run.job)
            node = unit.nodes.get(record.message.labels[LABEL])
        everyone = record.accelerator.hosts * node.spec.slices
        self.hosts[run.attempt] = 1 if job.spec.workers is Workers.FIRST else everyone

    def _told(self, record: NodeRecord, at: float) -> None:
        """What a node is told was committed before."""
        task = json.loads(record.message.metadata.get("steward-task", "{}"))
        if not task:
            return
        with self.units.reading() as unit:
            found = {
                attempt.id: attempt
                for attempt in unit.jobs.list_attempts(task["attempt"].rpartition("-")[0])
            }
        attempt = found.get(task["attempt"])
        if attempt is None or task["generation"] > attempt.generation:
            self._wrong(f"{task['attempt']} was told {task['action']} before that was committed")
        elif task["action"] == "release" and attempt.ended_at is None:
            self._wrong(f"the end of {attempt.id} was acknowledged before it was committed")

    def _moved(self, transition: Transition) -> None:
        record = self.world.nodes.get(transition.name)
        if record is not None:
            self._owners.setdefault(transition.uid, record.message.labels.get(LABEL, ""))
        owner = self._owners.get(transition.uid, "")
        self._moves[owner].append(transition)

    def _announced(self, record: NodeRecord, at: float, *_: object) -> None:
        self._noticed[record.message.labels.get(LABEL, "")].append(at)

    def committed(self, jobs: Sequence[Job], attempts: Sequence[Attempt]) -> None:
        """A final state stays, and the node of an ended job is asked to go with it."""
        for job in jobs:
            if job.id in self._final and self._final[job.id][0] != job.state:
                raise self._wrong(f"{job.id} was {self._final[job.id][0]} and is {job.state}")
            if job.ended:
                self._final.setdefault(job.id, (job.state, self.agenda.seconds()))
        with self.units.reading() as unit:
            looked_at = unit.leases.looked_at("lab")
            for job in jobs:
                if job.ended and job.own_node:
                    self._check_leaves(unit, job)
            for attempt in attempts:
                self._check_news(attempt)
                if attempt.ended:
                    now = Decided(self.agenda.seconds(), looked_at)
                    self.decided.setdefault(attempt.id, now)

    def _check_news(self, attempt: Attempt) -> None:
        """What a worker said before never counts again."""
        for worker, report in attempt.reports.items():
            if report.seq < self._heard[attempt.id, worker]:
                raise self._wrong(f"worker {worker} of {attempt.id} is shown as it was before")
            self._heard[attempt.id, worker] = report.seq

    def _check_leaves(self, unit: Unit, job: Job) -> None:
        for attempt in unit.jobs.list_attempts(job.id):
            node = unit.nodes.get(attempt.node_id)
            if node.asked is not Asked.ABSENT and not node.has_ended:
                raise self._wrong(f"{job.id} is {job.state}, and its node {node.id} stays")

    def check_sums(self, jobs: Sequence[Job]) -> None:
        """What attempts cost is what their job costs, at any instant."""
        with self.units.reading() as unit:
            book, now = PriceBookCache().get_book(unit), self.agenda.seconds()
            for job in jobs:
                parts = sum(cost.cost for cost in attempt_costs(unit, job, book, now))
                whole = job_cost(unit, job, book, now).cost
                if parts != whole:
                    raise self._wrong(f"the attempts of {job.id} cost {parts}, the job {whole}")

    # at the end

    def waiting(self, jobs: Sequence[Job]) -> list[str]:
        """The jobs that have not ended although there is what they wait for."""
        with self.units.reading() as unit:
            found = [unit.jobs.get(job.id) for job in jobs]
            return [f"{job.id} is {job.state}" for job in found if self._can_end(unit, job)]

    def _can_end(self, unit: Unit, job: Job) -> bool:
        if job.ended:
            return False
        if job.cancel_requested_at is not None:
            return True
        state = unit.nodes.get(job.node_id).state
        return state in ("READY", *ENDED) or (
            job.own_node and not self._is_stocked_out(job) and not _is_refused(unit, job.node_id)
        )

    def _is_stocked_out(self, job: Job) -> bool:
        """Whether the cloud has no hardware for what was queued for the job, now and for ever."""
        return any(
            record.slices[0].asked.labels.get(LABEL) == job.node_id
            and record.state == "WAITING_FOR_RESOURCES"
            for record in self.world.queue.records.values()
        )

    def at_rest(self, jobs: Sequence[Job]) -> None:
        """Raises Violation."""
        if self.truth.violations:
            raise Violation(self.truth.violations[0])
        self.check_sums(jobs)
        runs: dict[str, list[ContainerRun]] = defaultdict(list)
        for run in self.world.runs:
            runs[run.attempt].append(run)
        with self.units.reading() as unit:
            found = [unit.jobs.get(job.id) for job in jobs]
            self._check_claims_after_notices(unit, found)
            for job in found:
                attempts = unit.jobs.list_attempts(job.id)
                self._check_job(job, attempts)
                for attempt in attempts:
                    self._check_attempt(unit, job, attempt, runs[attempt.id])
                for run in (run for attempt in attempts for run in runs[attempt.id]):
                    self._check_run(unit, job, attempts, run)
                _check_money(unit, job, attempts)

    def _check_job(self, job: Job, attempts: Sequence[Attempt]) -> None:
        if not job.ended:
            raise self._wrong(f"{job.id} never came to its end: {job.state}")
        if not attempts:
            self._check_unstarted(job)
            return
        last = attempts[-1].reason
        expected = FINAL.get(last, JobState.FAILED)
        cancelled = job.cancel_requested_at is not None and job.state == JobState.CANCELLED
        if job.state != expected and not cancelled:
            raise self._wrong(f"{job.id} is {job.state}, its last attempt ended with {last}")
        retries, own = job.spec.retries, job.own_node and job.cancel_requested_at is None
        if own and last in INFRASTRUCTURE and job.preemptions < retries.preemption:
            raise self._wrong(f"{job.id} was not tried again after {last}")
        if own and last in BY_PROGRAM and job.failures < retries.failure:
            raise self._wrong(f"{job.id} was not tried again after {last}")

    def _check_unstarted(self, job: Job) -> None:
        allowed = {Reason.NODE_DELETED, Reason.NODE_NOT_GRANTED}
        if job.spec.image == MISSING_IMAGE:
            allowed.add(Reason.IMAGE_NOT_FOUND)
        if job.cancel_requested_at is not None:
            allowed.add(Reason.CANCELLED)
        if job.reason not in allowed:
            raise self._wrong(f"{job.id} ended with {job.reason} before its first attempt")

    def _check_run(
        self, unit: Unit, job: Job, attempts: Sequence[Attempt], run: ContainerRun
    ) -> None:
        """It ran while its job did, once all workers had the image, and at the job's cost."""
        assert job.ended_at is not None
        if run.start > job.ended_at + 1:
            raise self._wrong(f"{run.attempt} started after its job was {job.state}")
        pulled, workers = self.world.runs.pulled[run.attempt], self.hosts[run.attempt]
        ready = [at for at in pulled.values() if at <= run.start]
        if len(ready) < workers:
            raise self._wrong(
                f"{run.attempt} started when {len(ready)} of {workers} workers had its image"
            )
        last = self._lasted_until(run)
        for second in (math.ceil(run.start), math.floor(last) - 1):
            if run.start <= second < last:
                self._check_payer(unit, job, attempts, run, second)

    def _check_payer(
        self, unit: Unit, job: Job, attempts: Sequence[Attempt], run: ContainerRun, second: int
    ) -> None:
        [attempt] = [attempt for attempt in attempts if attempt.id == run.attempt]
        decided = self.decided[attempt.id].at
        whose = [
            attribution
            for attribution in unit.attributions.list_by_node(attempt.node_id)
            if attribution.since <= second
        ]
        if whose[-1].job != job.id and second < decided:
            raise self._wrong(f"{run.attempt} ran at {second} at the cost of {whose[-1].job!r}")

    def _lasted_until(self, run: ContainerRun) -> float:
        return self.agenda.now if run.end is None else run.end

    def _check_attempt(
        self, unit: Unit, job: Job, attempt: Attempt, runs: Sequence[ContainerRun]
    ) -> None:
        self.attempts += 1
        node = unit.nodes.get(attempt.node_id)
        self._check_exit_codes(attempt, runs)
        if attempt.id not in self.decided:
            raise self._wrong(f"{attempt.id} never came to its end")
        if not self._is_true(job, attempt, node, runs):
            raise self._wrong(
                f"{attempt.id} ended with {attempt.reason} ({attempt.detail}), and in truth"
                f" {[(run.worker, run.cause.value, run.exit_code) for run in runs]}"
                f" on {[(move.at, move.after) for move in self._moves[node.id]]},"
                f" decided at {self.decided[attempt.id]}"
            )

    def _check_claims_after_notices(self, unit: Unit, jobs: Sequence[Job]) -> None:
        """What the service knows to be taken away gets no other attempt, of whichever job."""
        own = {job.id: job.own_node for job in jobs}
        claims: dict[str, list[Attempt]] = defaultdict(list)
        for job in jobs:
            for attempt in unit.jobs.list_attempts(job.id):
                claims[attempt.node_id].append(attempt)
        for attempts in claims.values():
            for one, following in pairwise(sorted(attempts, key=lambda one: one.claimed_at)):
                if one.id not in self.decided:
                    continue
                decided = self.decided[one.id].at
                noticed_at = self._noticed_at(one, decided)
                if one.reason is not Reason.PREEMPTED or noticed_at is None:
                    continue
                again = any(
                    noticed_at <= move.at <= following.claimed_at and move.after == "CREATING"
                    for move in self._moves[one.node_id]
                )
                soon = own[one.job_id] or following.claimed_at < decided + NOTICE_SECONDS
                if soon and not again:
                    raise self._wrong(f"{following.id} began after the notice to {one.id}")

    def _check_exit_codes(self, attempt: Attempt, runs: Sequence[ContainerRun]) -> None:
        real = {str(run.worker): run.exit_code for run in runs}
        for worker, code in attempt.exit_codes.items():
            if code is not None and code != real.get(worker):
                raise self._wrong(
                    f"worker {worker} of {attempt.id} ended with {real.get(worker)}, not {code}"
                )

    def _is_true(  # noqa: C901, PLR0911, PLR0912, PLR0915 - a table
        self, job: Job, attempt: Attempt, node: Node, runs: Sequence[ContainerRun]
    ) -> bool:
        """Whether the reason of an attempt is what happened to it."""
        reason, workers = attempt.reason, self.hosts.get(attempt.id, 0)
        own = [run for run in runs if run.cause is Cause.PROGRAM]
        failed = [run for run in own if run.exit_code]
        decided = self.decided[attempt.id]
        lost_at = self._lost_at(attempt, runs)
        env = job.spec.env
        done = [run for run in runs if run.cause is Cause.PROGRAM or _ended_done(run, env)]
        if reason is Reason.COMPLETED:
            return (
                len(done) >= workers > 0
                and not any(run.exit_code for run in done)
                and all(attempt.exit_codes.get(str(run.worker)) == 0 for run in done)
            )
        if own and len(own) == workers and not failed and reason in BY_PROGRAM | UNDECIDED:
            return False
        match reason:
            case Reason.COMPLETED_THEN_ABORTED:
                return len(done) == workers and any(_ended_done(run, env) for run in runs)
            case Reason.PROGRAM_FAILED | Reason.OOM_KILLED:
                blind = lost_at is not None and decided.looked_at <= lost_at
                first = min((run.end or 0 for run in failed), default=math.inf)
                ended = min((run.end or 0 for run in runs), default=math.inf)
                late = lost_at is not None and lost_at > ended + CLASSIFY_SECONDS
                return first <= ended or blind or late
            case Reason.PREEMPTED if self._noticed_at(attempt, decided.at) is not None:
                return True
            case Reason.PREEMPTED | Reason.HOST_LOST | Reason.NODE_GONE:
                return lost_at is not None and lost_at <= decided.at
            case Reason.NODE_DELETED:
                burned = job.own_node and node.delete_reason == FUSE_BURNED
                asked = node.delete_requested_at is not None or self._has_been(node, "STOPPING")
                return asked and not (burned and self._could_be_seen(attempt, node, runs))
            case Reason.NODE_NOT_GRANTED:
                return node.state == "FAILED" or node.gave_up
            case Reason.CANCELLED:
                return job.cancel_requested_at is not None
            case Reason.TIMED_OUT:
                longest = max((self._lasted_until(run) - run.start for run in runs), default=0.0)
                return longest >= job.spec.max_duration_seconds - 1
            case Reason.PULL_FAILED | Reason.PULL_DENIED:
                return env.get("EMULATOR_PULL_FAILS") == reason
            case Reason.IMAGE_NOT_FOUND:
                return job.spec.image == MISSING_IMAGE
            case Reason.UNKNOWN | Reason.SUPERVISOR_SILENT:
                self.undecided += 1
                return lost_at is not None and decided.looked_at <= lost_at
            case _:
                return False

    def _could_be_seen(self, attempt: Attempt, node: Node, runs: Sequence[ContainerRun]) -> bool:
        """Whether an attempt whose node came to the end of its fuse should have gone on, or have
        ended, before that.

        The fuse of a node of the job's own is longer than its job: what hangs until then has waited
        for ever. But something may have kept the daemon from seeing that the node was READY, or
        that the containers had ended by themselves, for nearly all of the time that was left.
        """
        looked_at = self.decided[attempt.id].looked_at
        ready = first_ready(self._moves[node.id], attempt.claimed_at, looked_at)
        if ready is None:
            return False
        until = float(node.delete_requested_at or looked_at)
        ends = [run.end for run in runs if run.end is not None and run.cause is not Cause.POWER]
        since = max(ready, *ends) if ends and len(ends) == len(runs) else ready
        return until - since - self.agenda.fog.within(since, until) > SEEN_SECONDS

    def _lost_at(self, attempt: Attempt, runs: Sequence[ContainerRun]) -> float | None:
        """When the world first showed that hardware of the attempt was lost; None for never."""
        away = [
            move.at
            for move in self._moves[attempt.node_id]
            if move.after not in UP and move.at >= attempt.claimed_at
        ]
        noticed = [run.end for run in runs if run.cause is Cause.NOTICE and run.end is not None]
        before = list_downs(self._moves[attempt.node_id], attempt.claimed_at)
        return min([*away, *noticed, *before], default=None)

    def _noticed_at(self, attempt: Attempt, by: float) -> float | None:
        """When its workers had the last notice of a preemption up to an instant; None for never.
        Hardware that is about to go explains the end of a program as hardware that has gone does.
        """
        times = [at for at in self._noticed[attempt.node_id] if attempt.claimed_at <= at <= by]
        return max(times, default=None)

    def _has_been(self, node: Node, state: str) -> bool:
        return any(move.after == state for move in self._moves[node.id])

    def _wrong(self, what: str) -> Violation:
        return self.truth.wrong(what)


def list_downs(moves: Sequence[Transition], by: float) -> list[float]:
    """Since when slices of a node's newest hardware were down, if they were so at an instant.

    What a job claims may be lost already, while no list has shown it yet.
    """
    earlier = [move for move in moves if move.at < by]
    newest = max((move.created for move in earlier), default=0.0)
    since: dict[int, float] = {}
    for move in earlier:
        if move.created == newest and move.after not in UP:
            since.setdefault(move.uid, move.at)
        elif move.created == newest:
            since.pop(move.uid, None)
    return list(since.values())


def first_ready(moves: Sequence[Transition], since: float, upto: float) -> float | None:
    """When a node, or a slice of it, was READY first in [since, upto]; None if it never was."""
    states = {move.uid: move.after for move in moves if move.at <= since}
    if since <= upto and "READY" in states.values():
        return since
    later = (move.at for move in moves if since < move.at <= upto and move.after == "READY")
    return next(later, None)


def _is_refused(unit: Unit, node_id: str) -> bool:
    """Whether the cloud has refused a node, so that the next try may be hours away."""
    placements = unit.placements.list_by_node(node_id)
    return bool(placements) and placements[-1].outcome in (
        Outcome.QUOTA,
        Outcome.DENIED,
        Outcome.STOCK_OUT,
    )


def _check_money(unit: Unit, job: Job, attempts: Sequence[Attempt]) -> None:
    """A node of the job's own is charged to it alone; a caller's only while the job holds it."""
    node_ids = sorted({attempt.node_id for attempt in attempts})
    charged: dict[str, int] = defaultdict(int)
    for node_id in node_ids:
        for _, (payer,), nanos, _, _ in unit.costs.sum_by_day(
            0, 2**40, ("job",), {"node_id": [node_id]}
        ):
            charged[payer] += nanos
            if job.own_node and payer != job.id and nanos:
                raise Violation(f"node {node_id} of job {job.id} is charged to {payer!r}")
    whole = job_cost(unit, job, PriceBookCache().get_book(unit), 2**40).cost
    if charged[job.id] != whole:
        raise Violation(f"{job.id} costs {whole}, and the ledger charges {charged[job.id]}")
    _check_claims(unit, job, attempts, node_ids)


def _check_claims(
    unit: Unit, job: Job, attempts: Sequence[Attempt], node_ids: Sequence[str]
) -> None:
    """A caller's node is charged to the job from each claim to its release."""
    claims: Mapping[str, list[Any]] = defaultdict(list)
    for attempt in attempts:
        claims[attempt.node_id].append((attempt.claimed_at, attempt.released_at))
    for node_id in node_ids if not job.own_node else ():
        rows = list(unit.attributions.list_by_node(node_id))
        until = [*(row.since for row in rows[1:]), None]
        found = [
            (row.since, end) for row, end in zip(rows, until, strict=True) if row.job == job.id
        ]
        if found != claims[node_id]:
            raise Violation(f"{job.id} pays for {node_id} in {found}, and held it {claims}")


def _ended_done(run: ContainerRun, env: Mapping[str, str]) -> bool:
    """Whether a program ended, by itself or as it was told to, once it had said that it is done."""
    said = env.get("EMULATOR_DONE_SECONDS")
    return said is not None and run.end is not None and run.start + float(said) <= run.end
