"""Bugs of jobs that somebody could write tomorrow; the first three are the grossest there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import update

from service.application.jobs import cost
from service.application.jobs.jobs import JobService
from service.controllers.jobs import jobs as controller
from service.controllers.jobs.jobs import JobsController
from service.domain.jobs import outcome, transition
from service.domain.jobs import step as job_step
from service.domain.jobs.job import Attempt, Job, JobState, Reason
from service.domain.jobs.outcome import AttemptVerdict
from service.domain.jobs.pace import is_delivery_due
from service.domain.jobs.phases import AttemptSeconds, list_claims
from service.domain.jobs.retries import decide_follow_up
from service.domain.jobs.step import AttemptDecision, AttemptStep
from service.domain.jobs.transition import JobTransition
from service.domain.nodes.node import Node
from service.emulator.played.worker import PlayedWorker
from service.store.jobs import Jobs
from service.store.nodes import Nodes
from service.store.tables import job_attempts
from tests.planting import replace_function

Planting = Callable[[], Any]


def nothing_is_ever_started() -> Any:
    """No attempt goes beyond the wait for its node."""
    return _deciding(
        lambda found: (
            AttemptDecision(AttemptStep.WAIT) if found.step is AttemptStep.BEGIN else found
        )
    )


def every_attempt_is_unknown() -> Any:
    """Nobody finds out why an attempt ended."""

    def unknown(found: AttemptDecision) -> AttemptDecision:
        if found.step is not AttemptStep.END:
            return found
        return replace(found, verdict=AttemptVerdict(Reason.UNKNOWN, "who knows"))

    return _deciding(unknown)


def nothing_is_charged_to_jobs() -> Any:
    """Nodes are charged to their owners, whatever runs on them."""
    stack, add = ExitStack(), Nodes.add

    def add_to_owner(self: Nodes, node: Node, _job: str = "") -> None:
        add(self, node)

    stack.enter_context(patch.object(Nodes, "add", add_to_owner))
    stack.enter_context(patch.object(Nodes, "charge_to", lambda *_: None))
    return stack


def exit_code_0_is_a_success() -> Any:
    """A program that saves its state and exits with 0 when it is told to end has completed."""
    stack = ExitStack()
    for module in (outcome, job_step):
        stack.enter_context(patch.object(module, "ended_well", lambda one: one.exit_code == 0))
    return stack


def first_exit_code_for_all() -> Any:
    """The exit code of the first worker is taken for that of all."""
    codes_of = outcome.exit_codes_of

    def first(reports: Mapping[int, Any]) -> dict[str, int | None]:
        codes = codes_of(reports)
        return dict.fromkeys(codes, next(iter(codes.values()), None))

    return patch.object(transition, "exit_codes_of", first)


def older_report_overwrites() -> Any:
    """Whatever report is read last counts."""
    return patch.object(transition, "is_newer", lambda *_: True)


def previous_boot_counts() -> Any:
    """A supervisor takes what ran before the machine started again for running still."""
    step = PlayedWorker._take_step

    def blind(self: PlayedWorker, task: Any, record: Any, at: float) -> None:
        record.boot = record.boot and self.boot_id
        step(self, task, record, at)

    return replace_function(PlayedWorker, PlayedWorker._take_step, blind)


def started_before_all_have_pulled() -> Any:
    """Each worker starts as soon as it has the image."""
    stack = ExitStack()
    stack.enter_context(patch.object(job_step, "needs_barrier", lambda *_: False))
    stack.enter_context(patch.object(transition, "needs_barrier", lambda *_: False))
    return stack


def acknowledged_before_the_commit() -> Any:
    """Workers are told that their end is known before it is written down."""
    save = JobsController._save_transition

    def eager(
        self: JobsController, changed: JobTransition, before: Attempt, node: Node, lease: Any
    ) -> JobTransition:
        if changed.follow is not None and changed.attempt.placement:
            self._mailbox.deliver_task(changed.job, changed.attempt, node, lease)
        return save(self, changed, before, node, lease)

    return replace_function(JobsController, JobsController._save_transition, eager)


def task_written_once() -> Any:
    """A task that was written is not looked for again."""

    def due(attempt: Attempt, node: Node, now: int) -> bool:
        return attempt.written_at is None and is_delivery_due(attempt, node, now)

    return patch.object(controller, "is_delivery_due", due)


def old_container_not_removed() -> Any:
    """A supervisor starts the next container beside the one that runs."""
    act = PlayedWorker._act_on_offer

    def careless(self: PlayedWorker, at: float) -> None:
        running = self.container
        if running is not None and self.offered and running.task.attempt != self.offered.attempt:
            self.container = None
        act(self, at)

    return replace_function(PlayedWorker, PlayedWorker._act_on_offer, careless)


def infrastructure_by_default() -> Any:
    """A program that fails is taken for lost hardware."""

    def lost(*_: object) -> AttemptVerdict:
        return AttemptVerdict(Reason.PREEMPTED, "it must have been preempted")

    return replace_function(outcome, outcome._blame_program, lost)


def segments_overlap_by_a_second() -> Any:
    """A claim answers for the first second of the next one as well."""

    def longer(*what: Any, **more: Any) -> list[AttemptSeconds]:
        return [replace(claim, end=claim.end + 1) for claim in list_claims(*what, **more)]

    return patch.object(cost, "list_claims", longer)


def cancelled_without_a_word() -> Any:
    """A job that is cancelled before it runs counts as cancelled at once; nobody tells the
    workers."""
    cancelled = JobService._request_end

    def told(self: JobService, unit: Any, job: Job, actor: str) -> Job:
        if job.ended or job.state == JobState.RUNNING:
            return cancelled(self, unit, job, actor)
        now = self._clock()
        ended = job.with_end(JobState.CANCELLED, Reason.CANCELLED, "cancelled", now)
        saved: Job = unit.jobs.save(replace(ended, cancel_requested_at=now))
        return saved

    return replace_function(JobService, JobService._request_end, told)


def node_of_an_ended_job_stays() -> Any:
    """Nobody deletes the node that was made for a job."""
    return replace_function(JobsController, JobsController._delete_node, lambda *_: None)


def two_jobs_on_one_node() -> Any:
    """A node that is claimed is free."""
    add = Jobs.add_attempt

    def push_aside(self: Jobs, attempt: Attempt) -> None:
        held = (
            update(job_attempts)
            .where(job_attempts.c.node_id == attempt.node_id)
            .where(job_attempts.c.released_at.is_(None))
        )
        self._connection.execute(held.values(released_at=attempt.claimed_at))
        add(self, attempt)

    stack = ExitStack()
    stack.enter_context(patch.object(Jobs, "find_claim", lambda *_: None))
    stack.enter_context(patch.object(Jobs, "is_first_in_line", lambda *_: True))
    stack.enter_context(patch.object(Jobs, "add_attempt", push_aside))
    return stack


def noticed_node_is_used_again() -> Any:
    """After the notice of a preemption the next attempt begins on the node that goes."""

    def stay(job: Job, attempt: Attempt, node: Node) -> Any:
        if attempt.reason is Reason.PREEMPTED:
            attempt = replace(attempt, reason=Reason.HOST_LOST)
        return decide_follow_up(job, attempt, node)

    stack = ExitStack()
    stack.enter_context(patch.object(transition, "decide_follow_up", stay))
    stack.enter_context(patch.object(controller, "is_about_to_go", lambda *_: False))
    return stack


def outage_is_silence() -> Any:
    """Workers count as silent while the cloud gives no answer."""

    def answered(attempt: Attempt, now: int) -> Attempt:
        return replace(attempt, answered_at=now, answering_since=attempt.ready_at)

    return patch.object(controller, "with_answer", answered)


def _deciding(changed: Callable[[AttemptDecision], AttemptDecision]) -> Any:
    decide = job_step.decide_step
    return patch.object(controller, "decide_step", lambda *what: changed(decide(*what)))


GROSS: Mapping[str, Planting] = {
    bug.__name__: bug
    for bug in (nothing_is_ever_started, every_attempt_is_unknown, nothing_is_charged_to_jobs)
}
SUBTLE: Mapping[str, Planting] = {
    bug.__name__: bug
    for bug in (
        exit_code_0_is_a_success,
        first_exit_code_for_all,
        older_report_overwrites,
        previous_boot_counts,
        started_before_all_have_pulled,
        acknowledged_before_the_commit,
        task_written_once,
        old_container_not_removed,
        infrastructure_by_default,
        segments_overlap_by_a_second,
        cancelled_without_a_word,
        node_of_an_ended_job_stays,
        two_jobs_on_one_node,
        noticed_node_is_used_again,
        outage_is_silence,
    )
}
