"""One played worker: the supervisor's side of the contract with the service."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from service.emulator.nodes import guest_attributes
from service.emulator.nodes.nodes import NodeRecord, instance_id
from service.emulator.played.meter import PlayedMeter
from service.emulator.played.plan import MAX_LINES, SIGKILL_CODE, PlayedPlan, plan_of
from service.emulator.played.report import MINUTE, Puts, Record, Weight
from service.emulator.played.task import KEY, Task, TaskError, task_of
from service.emulator.telemetry import logs
from service.emulator.timeline import Event
from service.emulator.world.container_runs import Cause, ContainerRun
from service.emulator.world.world import World

NAMESPACE, REPORT = "steward", "report"
SUPERVISOR, STARTUP = "steward-supervisor", "steward-startup-script"
START_SECONDS = 1.0
"""From the pulled image to the running container."""
NOTICE_SECONDS = 60.0
"""Google documents that `maintenance-event` changes a minute before maintenance begins."""
MAX_RECORDS = 20
CAUSES = {
    "STOPPED": Cause.TASK,
    "TIMED_OUT": Cause.LIMIT,
    "PREEMPTION_NOTICE": Cause.NOTICE,
}
"""The cause of a stop, by the stop reason."""
DEATHS = (1, 139, 134)
"""Exit codes of a program without its peers, seen in the field: an error, SIGSEGV, SIGABRT."""


@dataclass(eq=False)
class PlayedContainer:
    """A container of this boot; `stop_reason` is set when the stop begins."""

    task: Task
    record: Record
    plan: PlayedPlan
    run: ContainerRun
    stop_reason: str = ""
    lines: int = 0


@dataclass(eq=False)
class PlayedWorker:
    """One worker. A reboot keeps its disk, but ends its containers."""

    world: World
    node: NodeRecord
    number: int
    checkpoints: dict[str, int]
    """The last checkpoint of each job, in place of its bucket."""
    boots: int = 0
    on: bool = False
    boot_at: int = 0
    seq: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    """The records on the disk by attempt."""
    task: Task | None = None
    offered: Task | None = None
    task_error: str = ""
    container: PlayedContainer | None = None
    preempted_at: int | None = None
    _supervisor: str = ""
    _due: Event | None = None
    """The next PUT."""

    def __post_init__(self) -> None:
        self._puts = Puts(self.world.config.speed)
        self._meter = PlayedMeter(self.world, self.node, self.number)

    # the machine

    def start_boot(self, at: float) -> None:
        """Start a boot. Without a supervisor in the metadata, the worker stays idle."""
        self.boots += 1
        self.preempted_at = None
        source = str(self.node.message.metadata.get(SUPERVISOR, ""))
        self.on = bool(source)
        if self.on:
            self.boot_at = int(at)
            self._supervisor = digest_of(source)
            self._meter.start_boot(at, self.boot_id)
            self.act_on_task(at)
            self._schedule_report(at, Weight.STATE)

    def power_off(self, at: float) -> None:
        """End the container and the boot; the disk stays."""
        if self.container is not None:
            self.container.run.close(at, None, "power", Cause.POWER)
        self.on, self.container = False, None
        self._cancel_report()
        self._meter.turn_off()

    def notice_preemption(self, at: float) -> None:
        """Handle a preemption notice: `instance/preempted` is TRUE from now on."""
        if self.on and self.preempted_at is None:
            self.preempted_at = int(at)
            record = self._current_record
            if self.container is not None:
                self._stop_container("PREEMPTION_NOTICE", at)
            elif record is not None and not record.has_ended and self._takes_part:
                self._finish_attempt(record, at, "PREEMPTION_NOTICE")
            self._schedule_report(at, Weight.END)

    def fail_program(self, at: float, code: int) -> None:
        """End the program with an error, because its peers are gone."""
        if self.container is not None:
            self._print_line(self.container, at, "Socket closed" if code == 1 else "Fatal error")
            self._end_container(self.container, at, code, Cause.PEERS)

    # the task of the service

    def act_on_task(self, at: float) -> None:
        """Read the task from the metadata, and act on it."""
        if not self.on:
            return
        error = self.task_error
        self.task_error = ""
        metadata: Mapping[str, str] = self.node.message.metadata
        if KEY not in metadata:
            self.task_error = "there is no steward-task"
        else:
            try:
                task = task_of(metadata[KEY])
            except TaskError as problem:
                self.task_error = str(problem)[:500]
            else:
                known = task if self.task is None else self.task
                if task.generation < known.generation:
                    self.task_error = f"its generation is older than {known.generation}"
                else:
                    self.offered = task
        self._act_on_offer(at)
        if self.task_error != error:
            self._schedule_report(at, Weight.DETAIL)

    def _act_on_offer(self, at: float) -> None:
        """Take over the offered task; the container of another attempt ends first."""
        offered, running = self.offered, self.container
        if offered is None:
            return
        if running is not None and running.task.attempt != offered.attempt:
            self._stop_container("STOPPED", at)
            return
        changed = self.task != offered
        self.task = offered
        if self._takes_part:
            attempt = offered.attempt
            if attempt not in self.records:
                self.records[attempt] = Record(attempt)
                for old in list(self.records)[:-MAX_RECORDS]:
                    del self.records[old]
            record = self.records[attempt]
            if record.seen_in != self.boots:
                # A pull or start that the reboot interrupted begins again; a pulled image stays.
                interrupted = {"PULLING": "IDLE", "STARTING": "PULLED"}
                record.state = interrupted.get(record.state, record.state)
            record.seen_in = self.boots
            self._take_step(offered, record, at)
        if changed:
            self._schedule_report(at, Weight.DETAIL)

    def _take_step(  # noqa: C901 - a table
        self, task: Task, record: Record, at: float
    ) -> None:
        """Take the one next step of an attempt."""
        if task.action == "release":
            self._release_attempt(record, at)
        elif record.has_ended or record.released:
            pass
        elif record.boot not in {"", self.boot_id}:
            self._finish_attempt(record, at, "REBOOTED")
        elif task.action == "stop" and self.container is not None:
            self._stop_container("STOPPED", at)
        elif task.action == "stop":
            self._finish_attempt(record, at, "STOPPED")
        elif self.preempted_at is not None:
            self._finish_attempt(record, at, "PREEMPTION_NOTICE")
        elif record.state == "IDLE":
            self._pull_image(task, record, at)
        elif record.state == "PULLED" and task.action == "run":
            self._start_container(task, record, at)

    def _release_attempt(self, record: Record, at: float) -> None:
        if self.container is not None:
            self.container.run.close(at, SIGKILL_CODE, "released", Cause.TASK)
            self.container = None
            self._meter.free_chips(at)
        if not record.released:
            record.released = True
            self._schedule_report(at, Weight.STATE)

    # from the pull to the end

    def _pull_image(self, task: Task, record: Record, at: float) -> None:
        plan = self._make_plan(task)
        record.state, record.pull_started_at, record.reason = "PULLING", int(at), ""
        self._schedule_report(at, Weight.DETAIL)

        def finish_pull(at: float) -> None:
            if record.state != "PULLING":
                return
            if plan.pull_fails or plan.pull_seconds > task.pull_seconds:
                self._finish_attempt(record, at, plan.pull_fails or "PULL_FAILED")
                return
            record.state, record.pulled_at = "PULLED", int(at)
            self.world.runs.pulled[task.attempt].setdefault(self._job_number(task), at)
            record.image_digest = task.image.partition("@")[2]
            self._schedule_report(at, Weight.STATE)
            self._act_on_offer(at)

        self._schedule_event(at, min(plan.pull_seconds, task.pull_seconds), "pull", finish_pull)

    def _start_container(self, task: Task, record: Record, at: float) -> None:
        record.state = "STARTING"
        self._schedule_report(at, Weight.DETAIL)

        def finish_start(at: float) -> None:
            if record.state != "STARTING":
                return
            if fails := self._make_plan(task).start_fails:
                self._finish_attempt(record, at, fails)
            else:
                self._run_container(task, record, at)

        self._schedule_event(at, START_SECONDS, "start", finish_start)

    def _run_container(self, task: Task, record: Record, at: float) -> None:
        plan = self._make_plan(task)
        run = ContainerRun(
            attempt=task.attempt,
            job=task.labels.get("job", ""),
            node=self.node.name,
            uid=int(self.node.message.id),
            number=self.number,
            worker=self._job_number(task),
            slice=task.slice,
            boot=self.boots,
            start=at,
        )
        self.world.runs.add_run(run)
        container = self.container = PlayedContainer(task, record, plan, run)
        record.state, record.started_at, record.boot = "RUNNING", int(at), self.boot_id
        record.access = "privileged" if task.device_access == "privileged" else "device"
        self._meter.hold_chips(at, task.attempt, hangs=plan.hangs)
        self._schedule_report(at, Weight.STATE)
        self._print_line(container, at, f"worker {self._job_number(task)} of {task.attempt} starts")
        if not plan.hangs:
            self._schedule_work(container, at)
        if task.max_duration_seconds:
            real = task.max_duration_seconds * self.world.config.speed
            self._schedule_for(
                container, at, real, "time out", lambda at: self._stop_container("TIMED_OUT", at)
            )

    def _schedule_work(self, container: PlayedContainer, at: float) -> None:
        """Schedule the output, the steps and the end of a container."""
        plan, run = container.plan, container.run

        def print_done(at: float) -> None:
            container.record.done_at = int(at)
            self._print_line(container, at, "STEWARD_DONE")
            self._schedule_report(at, Weight.DETAIL)

        self._write_lines(container, at)
        self._take_steps(container, at, self.checkpoints.get(run.job, 0))
        if plan.done_seconds is not None:
            self._schedule_for(container, at, plan.done_seconds, "done", print_done)
        seconds, code = plan.seconds, plan.exit_code
        if plan.steps:
            # A training continues from its last checkpoint.
            done = self.checkpoints.get(run.job, 0) if plan.checkpoint_every else 0
            seconds = max(plan.steps - done, 0) * plan.step_seconds
        self._schedule_for(
            container, at, seconds, "exit", lambda at: self._end_container(container, at, code)
        )

    def _take_steps(self, container: PlayedContainer, at: float, step: int) -> None:
        """Schedule the next checkpoint, and so all that follow."""
        plan, record = container.plan, container.record
        if not plan.checkpoint_every:
            return

        def save_checkpoint(at: float) -> None:
            reached = step + plan.checkpoint_every
            record.checkpoint = record.step = reached
            record.checkpoint_at = record.step_at = int(at)
            self.checkpoints[container.run.job] = reached
            self._print_line(container, at, f"STEWARD_CHECKPOINT {reached}")
            self._schedule_report(at, Weight.DETAIL)
            self._take_steps(container, at, reached)

        self._schedule_for(
            container, at, plan.checkpoint_every * plan.step_seconds, "checkpoint", save_checkpoint
        )

    def _write_lines(self, container: PlayedContainer, at: float) -> None:
        def write_line(at: float) -> None:
            container.lines += 1
            self._print_line(container, at, f"line {container.lines}")
            if container.lines < MAX_LINES:
                self._write_lines(container, at)

        self._schedule_for(container, at, container.plan.every, "output", write_line)

    def _stop_container(self, reason: str, at: float) -> None:
        """Stop the container: SIGTERM, then SIGKILL after the grace."""
        container = self.container
        if container is None or container.stop_reason:
            return
        container.stop_reason, container.record.state = reason, "STOPPING"
        plan, grace = container.plan, container.task.stop_grace_seconds
        killed = plan.deaf or plan.stop_seconds > grace
        seconds, code = (grace, SIGKILL_CODE) if killed else (plan.stop_seconds, plan.stop_code)
        self._schedule_report(at, Weight.DETAIL)
        cause = CAUSES[reason]
        self._schedule_for(
            container,
            at,
            seconds,
            "stop",
            lambda at: self._end_container(container, at, code, cause),
        )

    def _end_container(
        self, container: PlayedContainer, at: float, code: int, cause: Cause = Cause.PROGRAM
    ) -> None:
        container.run.close(at, code, "ended", cause)
        self._print_line(container, at, f"worker {container.run.worker} ends with {code}")
        self.container = None
        self._meter.free_chips(at)
        reason = container.stop_reason or ("PREEMPTION_NOTICE" if self.preempted_at else "")
        if not reason:
            oom = container.plan.out_of_memory and code == SIGKILL_CODE
            reason = "OOM_KILLED" if oom else "COMPLETED"
        container.record.exit_code = code
        self._finish_attempt(container.record, at, reason)
        self._act_on_offer(at)

    def _finish_attempt(self, record: Record, at: float, reason: str) -> None:
        record.state, record.reason, record.ended_at = "EXITED", reason, int(at)
        self._schedule_report(at, Weight.END)

    # reports and output

    def _schedule_report(self, at: float, weight: Weight) -> None:
        """PUT the newest report as soon as its weight allows; an earlier PUT contains it, too."""
        least = self.task.report_seconds if self.task is not None else 15.0
        free = self._puts.free_at(at, weight, least)
        if weight is Weight.END and free <= at:
            # At once, because a later step of this moment may be about another attempt.
            self._cancel_report()
            self._put_report(at)
        elif self._due is None or self._due.due > free:
            self._cancel_report()
            self._due = self._schedule_event(
                at, (free - at) * self.world.config.speed, "report", self._put_report
            )

    def _put_report(self, at: float) -> None:
        self._due = None
        self._puts.times.append(at)
        self.seq = max(self.seq + 1, int(at))
        if guest_attributes.is_enabled(self.node):
            text = json.dumps(self.build_report(at), separators=(",", ":"))
            guest_attributes.publish_value(self.node, self.number, NAMESPACE, REPORT, text)
        # A supervisor reports once a minute even without changes.
        self._due = self._schedule_event(at, MINUTE, "report again", self._put_report)

    def build_report(self, at: float) -> dict[str, Any]:
        """Return the present report."""
        task, window = self.task, self.node.maintenance
        speed = self.world.config.speed
        soon = window is not None and at >= window[0] - NOTICE_SECONDS / speed
        startup = "recorded" if STARTUP in self.node.message.metadata else "none"
        return {
            "v": 1,
            "seq": self.seq,
            "at": int(at),
            "boot": self.boot_id,
            "instance": str(instance_id(self.node, self.number)),
            "worker": self.number,
            "supervisor": self._supervisor,
            "generation": task.generation if task is not None else 0,
            "attempt": task.attempt if task is not None else "",
            "boot_at": self.boot_at,
            "preempted_at": self.preempted_at,
            "maintenance": "TERMINATE_ON_HOST_MAINTENANCE" if soon else "",
            "startup_script": {"state": startup, "exit_code": None},
            "task_error": self.task_error,
            **(self._current_record or Record("")).to_report(),
        }

    def _print_line(self, container: PlayedContainer, at: float, text: str) -> None:
        """Write a line to the emulated Cloud Logging, as the supervisor does."""
        task, run = container.task, container.run
        container.record.shipped += len(text) + 1
        if not task.project or not task.log:
            return
        run.lines += 1
        container.record.lines += 1
        sender = logs.Sender(task.log, {"type": "global", "labels": {"project_id": task.project}})
        payload = {
            "logName": f"projects/{task.project}/logs/{task.log}",
            "labels": {**task.labels, "worker": str(run.worker), "stream": "stdout"},
            "insertId": f"{instance_id(self.node, self.number)}-{self.boots:04}-{run.lines:08}",
            "textPayload": text,
        }
        logs.write_entry(self.world, self.node, sender, payload, at, "INFO")

    # records and events

    @property
    def boot_id(self) -> str:
        """The kernel's id of this boot, the same at each run of the same world."""
        seed = f"{self.world.seed}/{self.node.message.id}/{self.number}/{self.boots}"
        return hashlib.sha256(seed.encode()).hexdigest()[:32]

    @property
    def _takes_part(self) -> bool:
        return self.task is not None and self.number in self.task.workers

    @property
    def _current_record(self) -> Record | None:
        return self.records.get(self.task.attempt) if self.task is not None else None

    def _job_number(self, task: Task) -> int:
        return task.first_worker + self.number

    def _make_plan(self, task: Task) -> PlayedPlan:
        return plan_of(task, self._job_number(task), self.world.config.registry)

    def _schedule_for(
        self,
        container: PlayedContainer,
        at: float,
        seconds: float,
        what: str,
        act: Callable[[float], None],
    ) -> None:
        """Schedule an event of a container, which is dropped if the container is gone by then."""

        def act_if_running(at: float) -> None:
            if self.container is container:
                act(at)

        self._schedule_event(at, seconds, what, act_if_running)

    def _schedule_event(
        self, at: float, seconds: float, what: str, act: Callable[[float], None]
    ) -> Event:
        """Schedule an event of this boot after seconds, which the world's speed divides.

        The event waits for its time even if the world hurries, because a job is no operation.
        """
        boot = self.boots

        def act_if_on(at: float) -> None:
            if self.on and self.boots == boot:
                act(at)

        due = at + seconds / self.world.config.speed
        return self.world.timeline.schedule_event(due, self.node.name, what, act_if_on, fate=True)

    def _cancel_report(self) -> None:
        if self._due is not None:
            self._due.cancelled = True
            self._due = None


@lru_cache(maxsize=16)
def digest_of(packed: str) -> str:
    """Return the first digits of a packed source's SHA-256; of the text itself if not packed."""
    try:
        source = gzip.decompress(base64.b64decode(packed, validate=True))
    except (ValueError, OSError, EOFError, zlib.error):
        source = packed.encode()
    return hashlib.sha256(source).hexdigest()[:12]


def death_code(random: Random) -> int:
    """Draw the exit code of a program that lost its peers."""
    return random.choice(DEATHS)
