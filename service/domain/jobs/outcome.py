"""The reason why an attempt ended, decided from evidence and never from the first exit code alone.

The processes of a slice die before the cloud shows PREEMPTED (reference/jobs.md J4): exit codes 1,
139, 134 and 143 of a worker prove nothing. So an attempt is CLASSIFYING until there is evidence of
lost hardware, or proof that every machine lived on, or five minutes have passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.domain.clock import to_rfc3339
from service.domain.jobs.job import Attempt, Reason
from service.domain.jobs.report import SupervisorReport, WorkerState
from service.domain.nodes.node import LOST, Asked, Node, NodeState
from service.domain.nodes.placement import Outcome

CLASSIFY_SECONDS = 300
"""The longest time that an attempt is CLASSIFYING."""

PROOF_SECONDS = 60
"""A machine that still reports this long after the first exit was not preempted: Google gives a
preempted machine 30 s, and the inventory shows the state within 15 s more."""

ABORT_SECONDS = 600
"""A worker that aborts within this time after the program printed STEWARD_DONE has completed: JAX
has no shutdown barrier, so workers that end later may lose their peers (J15)."""

_HOST_STATES = frozenset({NodeState.RESTARTING, NodeState.REPAIRING, NodeState.UNKNOWN})

_REPORTED: Mapping[str, Reason] = {
    "PULL_FAILED": Reason.PULL_FAILED,
    "PULL_DENIED": Reason.PULL_DENIED,
    "IMAGE_NOT_FOUND": Reason.IMAGE_NOT_FOUND,
    "DEVICE_BUSY": Reason.DEVICE_BUSY,
    "START_FAILED": Reason.START_FAILED,
    "STORAGE_DENIED": Reason.STORAGE_DENIED,
    "DISK_FULL": Reason.DISK_FULL,
    "OOM_KILLED": Reason.OOM_KILLED,
    "LOST": Reason.CONTAINER_LOST,
    "TIMED_OUT": Reason.TIMED_OUT,
}
"""Our reason for each reason of a supervisor that needs no other evidence."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Other facts about the node since the attempt claimed it.

    `states` are the states in which the node was seen, `placement` is how the attempt's placement
    ended (OPEN or READY before its end), `looked_at` when the whole project was last listed, and
    `terminated` whether the audit log says that Google took the node away.
    """

    states: frozenset[str] = frozenset()
    placement: Outcome = Outcome.OPEN
    looked_at: int = 0
    terminated: bool = False


@dataclass(frozen=True, slots=True)
class AttemptVerdict:
    """Why an attempt ended, in a sentence, with the evidence."""

    reason: Reason
    detail: str
    evidence: tuple[str, ...] = ()


def find_success(reports: Sequence[SupervisorReport | None]) -> AttemptVerdict | None:
    """Return the outcome of an attempt that was a success; None for any other. Every program ended
    by itself with 0, or after STEWARD_DONE was printed.

    A program that is told to end saves its state and exits with 0, in the middle of its work. So
    the exit code 0 of a container that was stopped counts only after STEWARD_DONE.
    """
    if not all(report is not None and report.state is WorkerState.EXITED for report in reports):
        return None
    ended = [report for report in reports if report is not None]
    if all(map(ended_well, ended)):
        return AttemptVerdict(Reason.COMPLETED, "every worker ended with exit code 0")
    done_at = min((report.done_at for report in ended if report.done_at is not None), default=None)
    if done_at is None or not all(
        report.exit_code is not None
        and report.reason in _ENDED_OR_STOPPED
        and report.ended_at is not None
        and done_at <= report.ended_at <= done_at + ABORT_SECONDS
        for report in ended
        if not ended_well(report)
    ):
        return None
    said = f"the program said at {to_rfc3339(done_at)} that it was done"
    failed = sum(report.exit_code != 0 for report in ended)
    if not failed:
        return AttemptVerdict(Reason.COMPLETED, f"{said}, and every worker ended with exit code 0")
    return AttemptVerdict(
        Reason.COMPLETED_THEN_ABORTED,
        f"{said}; {failed} of {len(ended)} workers ended with another code after that",
    )


def ended_well(report: SupervisorReport) -> bool:
    """Whether the outcome of a worker is good: its program ended by itself with exit code 0."""
    return report.exit_code == 0 and report.reason == "COMPLETED"


_ENDED_OR_STOPPED = frozenset({"COMPLETED", "STOPPED", "PREEMPTION_NOTICE", "TIMED_OUT"})


def find_verdict(  # noqa: C901, PLR0911 - a table of the cases
    attempt: Attempt,
    node: Node,
    facts: NodeFacts,
    reports: Mapping[int, SupervisorReport | None],
    now: int,
) -> AttemptVerdict | None:
    """Return the outcome of an attempt, with the reason; None while better evidence may still come.

    `reports` are those of this attempt, by the worker's number; None for a worker without one.
    """
    known = [report for report in reports.values() if report is not None]
    infrastructure = _find_lost_hardware(attempt, node, facts, known)
    if infrastructure is not None:
        return infrastructure
    if node.asked is not Asked.PRESENT:
        what = "deleted" if node.asked is Asked.ABSENT else "stopped"
        why = f": {node.delete_reason}" if node.delete_reason else ""
        return AttemptVerdict(Reason.NODE_DELETED, f"the node was {what} through this service{why}")
    if (named := _find_supervisor_reason(reports)) is not None:
        return named
    if (complete := find_success(list(reports.values()))) is not None:
        return complete
    if (
        attempt.stop_reason is Reason.METADATA_REFUSED
        and node.state == NodeState.READY
        and facts.looked_at >= attempt.phase_since + PROOF_SECONDS
    ):
        return AttemptVerdict(Reason.METADATA_REFUSED, attempt.detail)
    if _has_every_machine_survived(node, facts, reports):
        return _blame_program(reports, "every worker reported after its end, and saw no notice")
    if now - attempt.phase_since < CLASSIFY_SECONDS:
        return None
    if any(report.exit_code for report in known):
        waited = f"no sign of lost hardware within {CLASSIFY_SECONDS // 60} minutes"
        return _blame_program(reports, waited)
    why = f"; {attempt.detail}" if attempt.detail else ""
    return AttemptVerdict(
        Reason.SUPERVISOR_SILENT if node.state == NodeState.READY else Reason.UNKNOWN,
        f"the workers stopped reporting, and the node is {node.state}{why}",
    )


def _find_lost_hardware(
    attempt: Attempt, node: Node, facts: NodeFacts, known: Sequence[SupervisorReport]
) -> AttemptVerdict | None:
    preempted = tuple(_list_preemption_signs(node, facts, known))
    if preempted:
        return AttemptVerdict(Reason.PREEMPTED, preempted[0], preempted)
    lost = tuple(_list_host_loss_signs(node, facts, known))
    if lost:
        return AttemptVerdict(Reason.HOST_LOST, lost[0], lost)
    is_gone = node.has_ended or (attempt.placement and node.attempt != attempt.placement)
    if facts.placement is Outcome.VANISHED or (is_gone and node.asked is Asked.PRESENT):
        sign = "the node was deleted outside this service"
        return AttemptVerdict(Reason.NODE_GONE, sign, (sign,))
    return None


def _list_preemption_signs(
    node: Node, facts: NodeFacts, known: Sequence[SupervisorReport]
) -> Iterator[str]:
    if facts.placement is Outcome.PREEMPTED or node.state in LOST:
        yield f"Google shows the node as {node.state if node.state in LOST else 'PREEMPTED'}"
    elif facts.states & LOST:
        yield "Google showed the node as PREEMPTED"
    if facts.terminated:
        yield "Google's audit log says that the node was taken away"
    if node.queue_state in {"SUSPENDED", "SUSPENDING"}:
        yield f"the queued resource of the node is {node.queue_state}"
    noticed = [report.preempted_at for report in known if report.preempted_at is not None]
    if noticed:
        first = to_rfc3339(min(noticed))
        yield f"{len(noticed)} workers had the notice of a preemption from {first}"


def _list_host_loss_signs(
    node: Node, facts: NodeFacts, known: Sequence[SupervisorReport]
) -> Iterator[str]:
    seen = sorted((facts.states | {node.state}) & _HOST_STATES)
    if seen:
        yield f"Google showed the node as {' and '.join(seen)}"
    rebooted = sum(report.reason == "REBOOTED" for report in known)
    if rebooted:
        yield f"{rebooted} workers started again while the attempt ran"
    events = sorted({report.maintenance for report in known if report.maintenance})
    if events:
        yield f"workers had the notice of {' and '.join(events)}"


def is_about_to_go(last: Attempt | None, node: Node, looked_at: int) -> bool:
    """Whether the outcome of a node's last attempt shows that it is about to be preempted, although
    READY.

    False for another placement, and once the whole project was listed (`looked_at`) so long after
    that attempt that the list would show the preemption.
    """
    if last is None or last.placement != node.attempt:
        return False
    noticed = any(report.preempted_at is not None for report in last.own_reports)
    is_recent = looked_at < (last.ended_at or 0) + PROOF_SECONDS
    return is_recent and (noticed or last.reason is Reason.PREEMPTED)


def _find_supervisor_reason(
    reports: Mapping[int, SupervisorReport | None],
) -> AttemptVerdict | None:
    for number, report in sorted(reports.items()):
        if report is not None and report.state is WorkerState.EXITED and report.reason in _REPORTED:
            said = report.detail or report.reason.lower().replace("_", " ")
            return AttemptVerdict(_REPORTED[report.reason], f"worker {number}: {said}")
    return None


def _has_every_machine_survived(
    node: Node, facts: NodeFacts, reports: Mapping[int, SupervisorReport | None]
) -> bool:
    """Whether each machine was alive, and the node READY, a minute after the first exit."""
    ends = [report.ended_at for report in reports.values() if report and report.ended_at]
    if not ends:
        return False
    safe = min(ends) + PROOF_SECONDS
    return (
        node.state == NodeState.READY
        and facts.looked_at >= safe
        and all(
            report is not None and report.is_final and report.sent_at >= safe
            for report in reports.values()
        )
    )


def _blame_program(reports: Mapping[int, SupervisorReport | None], because: str) -> AttemptVerdict:
    """PROGRAM_FAILED with the worker that failed first by itself. The other workers were stopped
    because of it, and their clocks may differ."""
    failed = [
        (report.reason == "STOPPED", report.ended_at or report.seen_at, number, report.exit_code)
        for number, report in reports.items()
        if report is not None and report.exit_code
    ]
    if not failed:
        return AttemptVerdict(
            Reason.UNKNOWN, f"no worker reported an exit code; {because}", (because,)
        )
    *_, number, code = min(failed, key=lambda entry: entry[:3])
    return AttemptVerdict(
        Reason.PROGRAM_FAILED, f"worker {number} ended first, with exit code {code}", (because,)
    )


def exit_codes_of(reports: Mapping[int, SupervisorReport | None]) -> dict[str, int | None]:
    """Return the exit code of each worker in an outcome, by its number; None where none was
    reported."""
    return {
        str(number): None if report is None else report.exit_code
        for number, report in sorted(reports.items())
    }
