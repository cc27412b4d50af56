"""One played worker: the supervisor's side of the contract, one step after another."""

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
"""By the reason for which a container is told to end."""
DEATHS = (1, 139, 134)
"""How a program ends whose peers vanished (seen in the field): an error, SIGSEGV, SIGABRT."""


@dataclass(eq=False)
class PlayedContainer:
    """A container of this boot; `stop_reason` is set once it is told to end."""

    task: Task
    record: Record
    plan: PlayedPlan
    run: ContainerRun
    stop_reason: str = ""
    lines: int = 0


@dataclass(eq=False)
class PlayedWorker:
    """Its disk outlives a reboot, its containers do not."""

    world: World
    node: NodeRecord
    number: int
    checkpoints: dict[str, int]
    """The last checkpoint of each job, as its bucket would hold it."""
    boots: int = 0
    on: bool = False
    boot_at: int = 0
    seq: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    """By attempt: what is kept on the disk."""
    task: Task | None = None
    offered: Task | None = None
    task_error: str = ""
    container: PlayedContainer | None = None
    preempted_at: int | None = None
    _supervisor: str = ""
    _due: Event | None = None
    """The PUT that is to come."""

    def __post_init__(self) -> None:
        self._puts = Puts(self.world.config.speed)
        self._meter = PlayedMeter(self.world, self.node, self.number)

    # what happens to the machine

    def boot(self, at: float) -> None:
        """Come up; without a supervisor in the metadata, nothing more happens in this boot."""
        self.boots += 1
        self.preempted_at = None
        source = str(self.node.message.metadata.get(SUPERVISOR, ""))
        self.on = bool(source)
        if self.on:
            self.boot_at = int(at)
            self._supervisor = digest_of(source)
            self._meter.boot(at, self.boot_id)
            self.look(at)
            self._report(at, Weight.STATE)

    def power_off(self, at: float) -> None:
        """Lose whatever runs; what is on the disk stays."""
        if self.container is not None:
            self.container.run.close(at, None, "power", Cause.POWER)
        self.on, self.container = False, None
        self._call_off()
        self._meter.off()

    def notice(self, at: float) -> None:
        """`instance/preempted` is TRUE from now on."""
        if self.on and self.preempted_at is None:
            self.preempted_at = int(at)
            if self.container is not None:
                self._stop("PREEMPTION_NOTICE", at)
            elif self._record is not None and not self._record.ended and self._takes_part:
                self._finish(self._record, at, "PREEMPTION_NOTICE")
            self._report(at, Weight.END)

    def die(self, at: float, code: int) -> None:
        """The program ends by itself, because its peers are gone."""
        if self.container is not None:
            self._print(self.container, at, "Socket closed" if code == 1 else "Fatal error")
            self._end(self.container, at, code, Cause.PEERS)

    # what the service says

    def look(self, at: float) -> None:
        """Read the task, and act on it."""
        if not self.on:
            return
        error = self.task_error
        self.task_error = ""
        try:
            self.offered = self._read()
        except TaskError as problem:
            self.task_error = str(problem)[:500]
        self._act(at)
        if self.task_error != error:
            self._report(at, Weight.DETAIL)

    def _read(self) -> Task:
        metadata: Mapping[str, str] = self.node.message.metadata
        if KEY not in metadata:
            raise TaskError("there is no steward-task")
        task = task_of(metadata[KEY])
        known = task if self.task is None else self.task
        if task.generation < known.generation:
            raise TaskError(f"its generation is older than {known.generation}")
        return task

    def _act(self, at: float) -> None:
        """Take up the task that is offered: one attempt ends before another one begins."""
        offered, running = self.offered, self.container
        if offered is None:
            return
        if running is not None and running.task.attempt != offered.attempt:
            self._stop("STOPPED", at)
            return
        changed = self.task != offered
        self.task = offered
        if self._takes_part:
            self._step(offered, self._keep(offered.attempt), at)
        if changed:
            self._report(at, Weight.DETAIL)

    def _step(  # noqa: C901 - a table
        self, task: Task, record: Record, at: float
    ) -> None:
        """The one thing to do next."""
        if task.action == "release":
            self._release(record, at)
        elif record.ended or record.released:
            pass
        elif record.boot not in {"", self.boot_id}:
            self._finish(record, at, "REBOOTED")
        elif task.action == "stop" and self.container is not None:
            self._stop("STOPPED", at)
        elif task.action == "stop":
            self._finish(record, at, "STOPPED")
        elif self.preempted_at is not None:
            self._finish(record, at, "PREEMPTION_NOTICE")
        elif record.state == "IDLE":
            self._pull(task, record, at)
        elif record.state == "PULLED" and task.action == "run":
            self._start(task, record, at)

    def _release(self, record: Record, at: float) -> None:
        if self.container is not None:
            self.container.run.close(at, SIGKILL_CODE, "released", Cause.TASK)
            self.container = None
            self._meter.free(at)
        if not record.released:
            record.released = True
            self._report(at, Weight.STATE)

    # from the pull to the end

    def _pull(self, task: Task, record: Record, at: float) -> None:
        plan = self._plan(task)
        record.state, record.pull_started_at, record.reason = "PULLING", int(at), ""
        self._report(at, Weight.DETAIL)

        def pulled(at: float) -> None:
            if record.state != "PULLING":
                return
            if plan.pull_fails or plan.pull_seconds > task.pull_seconds:
                self._finish(record, at, plan.pull_fails or "PULL_FAILED")
                return
            record.state, record.pulled_at = "PULLED", int(at)
            self.world.runs.pulled[task.attempt].setdefault(self._job_number(task), at)
            record.image_digest = task.image.partition("@")[2]
            self._report(at, Weight.STATE)
            self._act(at)

        self._later(at, min(plan.pull_seconds, task.pull_seconds), "pull", pulled)

    def _start(self, task: Task, record: Record, at: float) -> None:
        record.state = "STARTING"
        self._report(at, Weight.DETAIL)

        def started(at: float) -> None:
            if record.state != "STARTING":
                return
            if fails := self._plan(task).start_fails:
                self._finish(record, at, fails)
            else:
                self._run(task, record, at)

        self._later(at, START_SECONDS, "start", started)

    def _run(self, task: Task, record: Record, at: float) -> None:
        plan = self._plan(task)
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
        self.world.runs.begin(run)
        container = self.container = PlayedContainer(task, record, plan, run)
        record.state, record.started_at, record.boot = "RUNNING", int(at), self.boot_id
        record.access = "privileged" if task.device_access == "privileged" else "device"
        self._meter.hold(at, task.attempt, hangs=plan.hangs)
        self._report(at, Weight.STATE)
        self._print(container, at, f"worker {self._job_number(task)} of {task.attempt} starts")
        if not plan.hangs:
            self._work(container, at)
        if task.max_duration_seconds:
            real = task.max_duration_seconds * self.world.config.speed
            self._of(container, at, real, "time out", lambda at: self._stop("TIMED_OUT", at))

    def _work(self, container: PlayedContainer, at: float) -> None:
        """Write output, take steps, and come to an end."""
        plan, run = container.plan, container.run
        self._write_lines(container, at)
        self._take_steps(container, at, self.checkpoints.get(run.job, 0))
        if plan.done_seconds is not None:
            self._of(
                container, at, plan.done_seconds, "done", lambda at: self._say_done(container, at)
            )
        code = plan.exit_code
        seconds = self._left(plan, run.job)
        self._of(container, at, seconds, "exit", lambda at: self._end(container, at, code))

    def _left(self, plan: PlayedPlan, job: str) -> float:
        """How long the container runs: a training goes on from its last checkpoint."""
        done = self.checkpoints.get(job, 0) if plan.steps and plan.checkpoint_every else 0
        return max(plan.steps - done, 0) * plan.step_seconds if plan.steps else plan.seconds

    def _say_done(self, container: PlayedContainer, at: float) -> None:
        container.record.done_at = int(at)
        self._print(container, at, "STEWARD_DONE")
        self._report(at, Weight.DETAIL)

    def _take_steps(self, container: PlayedContainer, at: float, step: int) -> None:
        """Write a checkpoint every so many steps."""
        plan, record = container.plan, container.record
        if not plan.checkpoint_every:
            return

        def save(at: float) -> None:
            reached = step + plan.checkpoint_every
            record.checkpoint = record.step = reached
            record.checkpoint_at = record.step_at = int(at)
            self.checkpoints[container.run.job] = reached
            self._print(container, at, f"STEWARD_CHECKPOINT {reached}")
            self._report(at, Weight.DETAIL)
            self._take_steps(container, at, reached)

        self._of(container, at, plan.checkpoint_every * plan.step_seconds, "checkpoint", save)

    def _write_lines(self, container: PlayedContainer, at: float) -> None:
        def write(at: float) -> None:
            container.lines += 1
            self._print(container, at, f"line {container.lines}")
            if container.lines < MAX_LINES:
                self._write_lines(container, at)

        self._of(container, at, container.plan.every, "output", write)

    def _stop(self, reason: str, at: float) -> None:
        """SIGTERM, and SIGKILL after the grace."""
        container = self.container
        if container is None or container.stop_reason:
            return
        container.stop_reason, container.record.state = reason, "STOPPING"
        plan, grace = container.plan, container.task.stop_grace_seconds
        killed = plan.deaf or plan.stop_seconds > grace
        seconds, code = (grace, SIGKILL_CODE) if killed else (plan.stop_seconds, plan.stop_code)
        self._report(at, Weight.DETAIL)
        cause = CAUSES[reason]
        self._of(container, at, seconds, "stop", lambda at: self._end(container, at, code, cause))

    def _end(
        self, container: PlayedContainer, at: float, code: int, cause: Cause = Cause.PROGRAM
    ) -> None:
        container.run.close(at, code, "ended", cause)
        self._print(container, at, f"worker {container.run.worker} ends with {code}")
        self.container = None
        self._meter.free(at)
        reason = container.stop_reason or ("PREEMPTION_NOTICE" if self.preempted_at else "")
        if not reason:
            oom = container.plan.out_of_memory and code == SIGKILL_CODE
            reason = "OOM_KILLED" if oom else "COMPLETED"
        container.record.exit_code = code
        self._finish(container.record, at, reason)
        self._act(at)

    def _finish(self, record: Record, at: float, reason: str) -> None:
        record.state, record.reason, record.ended_at = "EXITED", reason, int(at)
        self._report(at, Weight.END)

    # reports and output

    def _report(self, at: float, weight: Weight) -> None:
        """PUT the newest report as soon as its weight allows; one that is due anyhow takes it
        along."""
        least = self.task.report_seconds if self.task is not None else 15.0
        free = self._puts.free_at(at, weight, least)
        if weight is Weight.END and free <= at:
            # At once: what follows at this moment may be about another attempt.
            self._call_off()
            self._put(at)
        elif self._due is None or self._due.due > free:
            self._call_off()
            self._due = self._later(at, (free - at) * self.world.config.speed, "report", self._put)

    def _put(self, at: float) -> None:
        self._due = None
        self._puts.times.append(at)
        self.seq = max(self.seq + 1, int(at))
        if guest_attributes.enabled(self.node):
            text = json.dumps(self.report(at), separators=(",", ":"))
            guest_attributes.publish(self.node, self.number, NAMESPACE, REPORT, text)
        # A supervisor is heard of once a minute, whether there is news or not.
        self._due = self._later(at, MINUTE, "report again", self._put)

    def report(self, at: float) -> dict[str, Any]:
        """The report of now."""
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
            **(self._record or Record("")).shown(),
        }

    def _print(self, container: PlayedContainer, at: float, text: str) -> None:
        """Write a line to the emulated Cloud Logging, as the supervisor ships it."""
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
        logs.put(self.world, self.node, sender, payload, at, "INFO")

    # small things

    @property
    def boot_id(self) -> str:
        """The kernel's id of this boot: the same at each run of the same world."""
        seed = f"{self.world.seed}/{self.node.message.id}/{self.number}/{self.boots}"
        return hashlib.sha256(seed.encode()).hexdigest()[:32]

    @property
    def _takes_part(self) -> bool:
        return self.task is not None and self.number in self.task.workers

    @property
    def _record(self) -> Record | None:
        return self.records.get(self.task.attempt) if self.task is not None else None

    def _keep(self, attempt: str) -> Record:
        if attempt not in self.records:
            self.records[attempt] = Record(attempt)
            for old in list(self.records)[:-MAX_RECORDS]:
                del self.records[old]
        record = self.records[attempt]
        if record.seen_in != self.boots:
            # What was under way when the machine went down begins again; an image stays.
            record.state = {"PULLING": "IDLE", "STARTING": "PULLED"}.get(record.state, record.state)
        record.seen_in = self.boots
        return record

    def _job_number(self, task: Task) -> int:
        return task.first_worker + self.number

    def _plan(self, task: Task) -> PlayedPlan:
        return plan_of(task, self._job_number(task), self.world.config.registry)

    def _of(
        self,
        container: PlayedContainer,
        at: float,
        seconds: float,
        what: str,
        act: Callable[[float], None],
    ) -> None:
        """Let something happen to a container, unless it is gone by then."""

        def happen(at: float) -> None:
            if self.container is container:
                act(at)

        self._later(at, seconds, what, happen)

    def _later(self, at: float, seconds: float, what: str, act: Callable[[float], None]) -> Event:
        """Let something happen in this boot, after seconds that the world's speed divides.

        It waits for its time even when all is hurried: a job is not the end of something under way.
        """
        boot = self.boots

        def happen(at: float) -> None:
            if self.on and self.boots == boot:
                act(at)

        due = at + seconds / self.world.config.speed
        return self.world.timeline.schedule(due, self.node.name, what, happen, fate=True)

    def _call_off(self) -> None:
        if self._due is not None:
            self._due.cancelled = True
            self._due = None


@lru_cache(maxsize=16)
def digest_of(packed: str) -> str:
    """The first digits of the SHA-256 of a packed source; of the text itself if it is none."""
    try:
        source = gzip.decompress(base64.b64decode(packed, validate=True))
    except (ValueError, OSError, EOFError, zlib.error):
        source = packed.encode()
    return hashlib.sha256(source).hexdigest()[:12]


def death_code(random: Random) -> int:
    """How a program ends that lost its peers."""
    return random.choice(DEATHS)
