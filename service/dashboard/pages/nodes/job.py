"""The page of one job: its request, its state, its attempts, its cost, and its last output."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.application.jobs.cost import AttemptCost
from service.application.jobs.jobs import JobWithAttempts
from service.application.jobs.last_lines import LINES, LogEnd
from service.application.services import Services
from service.dashboard.actions.jobs import list_job_actions
from service.dashboard.actions.nodes import ActionLink
from service.dashboard.kit.amounts import ExactAmount, amount_of, places_of
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import (
    Fact,
    Moment,
    format_count,
    format_duration,
    format_money,
    to_moment,
)
from service.dashboard.kit.links import node_address
from service.dashboard.kit.visible_text import (
    escape_invisible,
    escape_log_line,
    format_argv,
    to_sentence,
)
from service.dashboard.pages.nodes.connection import ConnectionShown, build_connection
from service.dashboard.pages.nodes.job_timeline import JobTimeline, build_job_timeline
from service.dashboard.pages.nodes.jobs import JobRow, build_job_row
from service.dashboard.pages.nodes.signals import WINDOW, SignalsShown, build_signals
from service.domain.clock import DAY, floor_to, to_rfc3339
from service.domain.costs.dimensions import condition_of
from service.domain.jobs.job import Attempt, Job, JobState
from service.domain.jobs.log import NANOS
from service.domain.jobs.phases import Spent
from service.domain.nodes.node import Node, NodeState

WORKERS_OPEN = 16
"""The most workers that are shown at once; more are shown on demand."""

RANGES = 8
"""The most ranges of workers that are named for one exit code."""

_MEANINGS: Mapping[str, str] = {
    JobState.QUEUED: "The job waits for its turn.",
    JobState.WAITING_FOR_NODE: "The node is not READY yet.",
    JobState.PULLING: "The workers pull the image. None starts before all have it.",
    JobState.STARTING: "The containers start.",
    JobState.RUNNING: "The containers run.",
    JobState.CLASSIFYING: "A container ended; its reason is being determined. This takes at most"
    " five minutes.",
    JobState.CANCELLING: "The containers are told to end.",
    JobState.PREEMPTED: "The hardware was lost. Another attempt follows.",
}
_QUEUE = "queue", "waited for its turn or for hardware; nothing is charged"
_PHASES: Mapping[Spent, str] = {
    Spent.BOOT: "until the first worker began to pull the image",
    Spent.PULL: "until the last worker had the image",
    Spent.INIT: "until the last container had started",
    Spent.RUNNING: "the containers run",
    Spent.LOST: "ran after the last checkpoint, and was lost",
    Spent.RECOVERY: "ran again what an earlier attempt had done",
    Spent.UNATTRIBUTED: "after the containers ended, or explained by no report",
}


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase, summed over all attempts."""

    name: str
    means: str
    time: str
    cost: ExactAmount


@dataclass(frozen=True, slots=True)
class Money:
    """The cost of a job, to the last nano-dollar: the rows add up to the total. `costs_href` is the
    page of costs of this job alone. `unpriced` is for how long no price was known. `logs` is about
    what Cloud Logging costs, which is not in the total; both are empty for nothing."""

    total: ExactAmount
    rows: tuple[PhaseRow, ...]
    estimated: bool
    unpriced: str
    logs: str
    costs_href: str
    as_of: Moment


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt in words. `lost` is the time that ran after the last checkpoint and was lost,
    empty for none. `is_lost_known` is False if the attempt ended early, the job has no checkpoint
    directory, and no step or checkpoint was reported."""

    number: int
    node_href: str
    node_name: str
    zone: str
    phase: str
    started: Moment
    ended: Moment | None
    took: str
    exit_codes: str
    reason: str
    detail: str
    evidence: tuple[str, ...]
    cost: ExactAmount
    lost: str
    lost_cost: ExactAmount
    is_lost_known: bool


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """The last report of a worker of the latest attempt."""

    number: int
    state: str
    exit_code: str
    said: str
    step: str
    checkpoint: str
    seen: Moment


@dataclass(frozen=True, slots=True)
class JobWorkers:
    """The workers of the latest attempt."""

    attempt: int
    rows: tuple[WorkerRow, ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line of output; `worker` and `attempt` are empty if the log does not name them."""

    at: Moment
    attempt: str
    worker: str
    text: str


@dataclass(frozen=True, slots=True)
class Log:
    """The last lines of output. `error` says why they cannot be read, `notes` why some are missing;
    `several` is True if there is more than one attempt."""

    lines: tuple[LogRow, ...]
    read: Moment | None
    error: str
    notes: tuple[str, ...]
    several: bool


@dataclass(frozen=True, slots=True)
class JobSummary:
    """Everything on the page. `why` is a sentence about the state, or about why the job ended;
    `before` says why the previous attempt ended, `waiting` what a job that waits is waiting for.
    `signals` and `connection` are those of its node while the job has it, else None."""

    job: JobRow
    why: str
    before: str
    evidence: tuple[str, ...]
    cancelled: Moment | None
    warnings: tuple[str, ...]
    image: str
    digest: str
    looked_up: bool
    command: str
    args: str
    env: tuple[tuple[str, str], ...]
    facts: tuple[Fact, ...]
    labels: tuple[tuple[str, str], ...]
    money: Money
    attempts: tuple[AttemptRow, ...]
    timeline: JobTimeline
    waiting: str
    workers: JobWorkers | None
    log: Log
    commands: tuple[str, ...]
    signals: SignalsShown | None
    connection: ConnectionShown | None
    actions: tuple[ActionLink, ...]
    as_of: Moment


def build_job_page(services: Services, job_id: str) -> JobSummary:
    """The page as of now; raises NotFound."""
    whole = services.jobs.get_with_attempts(job_id)
    end = services.job_logs.read_end(job_id)
    job, cost = whole.shown.job, whole.shown.cost
    places = places_of(
        [cost.cost], (part.cost for attempt in whole.attempts for part in attempt.amounts)
    )
    rows = tuple(_build_attempt_row(attempt, cost.as_of, places) for attempt in whole.attempts)
    node = _find_node(whole)
    return JobSummary(
        job=build_job_row(whole.shown),
        actions=list_job_actions(job),
        why=escape_invisible(explain_state(job)),
        before="" if job.ended or not job.reason else escape_invisible(to_sentence(job.detail)),
        evidence=rows[-1].evidence if rows else (),
        cancelled=None if job.cancel_requested_at is None else to_moment(job.cancel_requested_at),
        warnings=tuple(escape_invisible(to_sentence(warning)) for warning in job.warnings),
        image=escape_invisible(job.spec.image),
        digest=escape_invisible(job.image_digest),
        looked_up=job.image_checked_at is not None,
        command=format_argv(job.spec.command) if job.spec.command else "",
        args=format_argv(job.spec.args) if job.spec.args else "",
        env=tuple(
            (escape_invisible(name), escape_invisible(text))
            for name, text in sorted(job.spec.env.items())
        ),
        facts=tuple(list_facts(whole)),
        labels=tuple(
            (escape_invisible(key), escape_invisible(text))
            for key, text in sorted(job.labels.items())
        ),
        money=build_money(whole, places),
        attempts=rows,
        timeline=build_job_timeline(whole),
        waiting=escape_invisible(describe_wait(whole)),
        workers=_list_workers([found.attempt for found in whole.attempts]),
        log=build_log(end, several=len(rows) > 1),
        commands=tuple(list_commands(job)),
        signals=None
        if node is None
        else build_signals(
            services.cleanup.get_node(node.id),
            services.cleanup.read_activity(node.id, WINDOW),
            cost.as_of,
        ),
        connection=None if node is None else build_connection(services, node),
        as_of=to_moment(cost.as_of),
    )


def _find_node(whole: JobWithAttempts) -> Node | None:
    """The node on which the latest attempt of a job runs; None if none does."""
    node = whole.node
    if node is None or node.has_ended or not whole.attempts:
        return None
    attempt = whole.attempts[-1].attempt
    is_on_it = attempt.ended_at is None and attempt.node_id == node.id
    return node if is_on_it else None


def explain_state(job: Job) -> str:
    """The state of a job in a sentence: what it means, or why the job ended."""
    if job.ended:
        return to_sentence(job.detail) or "The job has ended, and no reason is known."
    if job.state == JobState.QUEUED and job.image_checked_at is None:
        return "The image is being looked up in its registry."
    if job.state == JobState.QUEUED and job.detail and not job.reason:
        return to_sentence(job.detail)
    return _MEANINGS.get(job.state, "")


def describe_wait(whole: JobWithAttempts) -> str:
    """The place of a waiting job in the line of its node, or the state of that node. Empty for a
    job that does not wait."""
    job, node = whole.shown.job, whole.node
    if node is None or job.ended:
        return ""
    if whole.ahead:
        others = format_count(whole.ahead, "job comes", "jobs come")
        place = f"number {whole.ahead + 1:,} in the line of node {node.name}"
        return f"The job is {place}: {others} first."
    is_early = job.state in (JobState.QUEUED, JobState.WAITING_FOR_NODE)
    if job.own_node and is_early and node.state != NodeState.READY:
        reason = f" {to_sentence(node.last_error)}" if node.last_error else ""
        return f"Node {node.name} is {node.state}.{reason}"
    return ""


def list_facts(whole: JobWithAttempts) -> Iterator[Fact]:
    """Further facts of a job; empty ones are left out."""
    shown, job, spec = whole.shown, whole.shown.job, whole.shown.job.spec
    if shown.node_name:
        yield Fact("Node", escape_invisible(shown.node_name), href=node_address(job.node_id))
    label = spec.framework and spec.framework.label
    framework = " ".join(part for part in (label, spec.framework_version) if part)
    plain = (
        ("Made for the job", "yes, and deleted after it" if job.own_node else "no"),
        ("Project", job.project),
        ("Owner", job.owner),
        ("Team", job.team),
        ("Workers", "the first one alone" if spec.workers == "first" else ""),
        ("Framework", framework),
        ("Data", ", ".join(spec.data)),
        ("Checkpoints", spec.checkpoint_dir),
        ("Longest attempt", format_duration(spec.max_duration_seconds)),
        ("Retries after lost hardware", f"{job.preemptions:,} of {spec.retries.preemption:,}"),
        ("Retries after a failure", f"{job.failures:,} of {spec.retries.failure:,}"),
        ("Id", job.id),
    )
    yield from (Fact(name, escape_invisible(text)) for name, text in plain if text)
    for name, at in (("Submitted", job.created_at), ("Ended", job.ended_at)):
        if at is not None:
            yield Fact(name, to_moment(at).full, to_moment(at))


def build_money(whole: JobWithAttempts, places: int) -> Money:
    """The cost of a job, and the same by phase; the rows add up to the total."""
    job, cost = whole.shown.job, whole.shown.cost
    seconds: dict[Spent, int] = defaultdict(int)
    nanos: dict[Spent, int] = defaultdict(int)
    for part in (part for attempt in whole.attempts for part in attempt.amounts):
        seconds[part.spent] += part.seconds
        nanos[part.spent] += part.cost
    spent = (
        PhaseRow(phase, means, format_duration(seconds[phase]), amount_of(nanos[phase], places))
        for phase, means in _PHASES.items()
        if phase in seconds
    )
    queue = PhaseRow(*_QUEUE, format_duration(cost.waited_seconds), amount_of(0, places))
    # All days since its submission: only this job, by node, whichever team pays.
    first, last = floor_to(job.created_at, DAY), floor_to(cost.as_of, DAY) + DAY
    window = f"{to_rfc3339(first)[:10]},{to_rfc3339(last)[:10]}"
    asked = CostsAsked(window=window, aggregate=("node",), only=(condition_of("job", job.id),))
    return Money(
        total=amount_of(cost.cost, places),
        rows=(queue, *spent),
        estimated=cost.estimated,
        unpriced=format_duration(cost.unpriced_seconds) if cost.unpriced_seconds else "",
        logs=format_money(cost.logs) if cost.logs else "",
        costs_href=asked.page,
        as_of=to_moment(cost.as_of),
    )


def _build_attempt_row(found: AttemptCost, now: int, places: int) -> AttemptRow:
    attempt = found.attempt
    lost = sum(part.cost for part in found.amounts if part.spent is Spent.LOST)
    until = now if attempt.ended_at is None else attempt.ended_at
    return AttemptRow(
        number=attempt.number,
        node_href=node_address(attempt.node_id),
        node_name=escape_invisible(found.node_name),
        zone=escape_invisible(attempt.zone),
        phase=attempt.phase.value,
        started=to_moment(attempt.claimed_at),
        ended=None if attempt.ended_at is None else to_moment(attempt.ended_at),
        took=format_duration(until - attempt.claimed_at),
        exit_codes=format_exit_codes(attempt.exit_codes),
        reason=attempt.reason.replace("_", " ").lower(),
        detail=escape_invisible(to_sentence(attempt.detail)),
        evidence=tuple(
            escape_invisible(to_sentence(text))
            for text in attempt.evidence
            if text != attempt.detail
        ),
        cost=amount_of(found.cost, places),
        lost=format_duration(found.lost_seconds) if found.lost_seconds else "",
        lost_cost=amount_of(lost, places),
        is_lost_known=found.lost_seconds is not None,
    )


def format_exit_codes(codes: Mapping[str, int | None]) -> str:
    """Exit codes in words: `Exit code 0 on every worker.`, `Exit code 139 on worker 2; 143 on
    workers 0, 3.`; empty if there are no workers."""
    by_code: dict[int | None, list[int]] = defaultdict(list)
    for worker in sorted(map(int, codes)):
        by_code[codes[str(worker)]].append(worker)
    silent = by_code.pop(None, [])
    everyone = len(by_code) == 1 and not silent and len(codes) > 1
    said = [
        f"{code} on {'every worker' if everyone else _name_workers(workers)}"
        for code, workers in by_code.items()
    ]
    reported = f"Exit code {'; '.join(said)}." if said else ""
    missing = f"No exit code from {_name_workers(silent)}." if silent else ""
    return " ".join(part for part in (reported, missing) if part)


def _name_workers(workers: Sequence[int]) -> str:
    """Workers by their numbers: `worker 2`, `workers 0, 2, 7`. Of many ranges, the first ones and
    the number of workers that are left."""
    breaks = [0, *(at for at, (a, b) in enumerate(pairwise(workers), 1) if b != a + 1)]
    ranges = [workers[a:b] for a, b in pairwise([*breaks, len(workers)])]
    named = [
        str(run[0]) if len(run) == 1 else f"{run[0]}\N{EN DASH}{run[-1]}" for run in ranges[:RANGES]
    ]
    left = sum(map(len, ranges[RANGES:]))
    more = f" and {left:,} more" if left else ""
    return f"worker{'' if len(workers) == 1 else 's'} {', '.join(named)}{more}"


def _list_workers(attempts: Sequence[Attempt]) -> JobWorkers | None:
    """The workers of the latest attempt that have reported; None if there are none."""
    if not attempts:
        return None
    attempt = attempts[-1]
    rows = []
    for number, report in sorted(attempt.reports.items(), key=lambda item: int(item[0])):
        if report.attempt not in {"", attempt.id}:
            continue
        parts = report.reason, report.detail or report.task_error
        rows.append(
            WorkerRow(
                number=int(number),
                state=report.state.value,
                exit_code="" if report.exit_code is None else str(report.exit_code),
                said=escape_invisible(": ".join(part for part in parts if part)),
                step="" if report.step is None else f"{report.step:,}",
                checkpoint="" if report.checkpoint is None else f"step {report.checkpoint:,}",
                seen=to_moment(report.seen_at),
            )
        )
    return JobWorkers(attempt.number, tuple(rows), len(rows) <= WORKERS_OPEN) if rows else None


def build_log(end: LogEnd, *, several: bool, most: int = LINES) -> Log:
    """The last lines of output, at most `most`."""
    return Log(
        lines=tuple(
            LogRow(
                at=to_moment(line.at_ns // NANOS),
                attempt="" if line.attempt < 0 else str(line.attempt),
                worker="" if line.worker < 0 else str(line.worker),
                text=escape_log_line(line.text),
            )
            for line in end.lines[-most:]
        ),
        read=None if end.read_at is None else to_moment(end.read_at),
        error=escape_invisible(to_sentence(end.error)),
        notes=tuple(escape_invisible(to_sentence(note)) for note in end.notes),
        several=several,
    )


def list_commands(job: Job) -> Iterator[str]:
    """The commands that a reader can type about a job."""
    yield f"tpu-steward jobs logs {'' if job.ended else '-f '}{job.id}"
    yield f"tpu-steward jobs attempts {job.id}"
    if not job.ended and job.cancel_requested_at is None:
        yield f"tpu-steward jobs cancel {job.id}"
