"""Begins the end of an idle node in one transaction, in which the facts of the decision are
unchanged. The daemon and people use the same function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from service.domain.clock import to_rfc3339
from service.domain.errors import Conflict, StaleVersion
from service.domain.event import Event
from service.domain.idle.assess import AssessedNode, IdleTimes, with_begun_end
from service.domain.idle.cleanup import DAEMON, Cleanup, EndRecord
from service.domain.idle.course import CourseChange
from service.domain.idle.explain import explain_signals
from service.domain.idle.policy import SHIPPED, Action, scopes_of
from service.domain.idle.readings import families_of
from service.domain.lifecycle.precedence import describe_others
from service.domain.nodes.deletion import requested_by
from service.domain.nodes.node import Asked, Node
from service.store.idle_fleet import read_subject
from service.store.node_ends import read_causes
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit


@dataclass(frozen=True, slots=True)
class EndOrder:
    """What to end, by whom and why. `cleanup` is the project's row that the decision used: a pause
    or a rail since then makes the order stale. `times` are those of the settings."""

    assessed: AssessedNode
    action: Action
    actor: str
    reason: str
    cleanup: Cleanup
    times: IdleTimes
    plan_id: str = ""

    @property
    def delete_reason(self) -> str:
        """Why the node is deleted: the evidence, after the person who has requested that."""
        if self.actor == DAEMON:
            return self.reason
        return requested_by(self.actor, self.reason)


def begin_end(unit: Unit, order: EndOrder, now: int) -> Node:
    """Request the stop or the deletion of a node, with the evidence in the history and in its
    course. Raises StaleVersion if the node, its course, its policy or the cleanup of the project
    changed since, Conflict if a job has claimed the node or waits for it, or the node is being
    ended already."""
    subject = order.assessed.subject
    # Heartbeats and jobs lock the node too: each commits before this, or finds the node ended.
    unit.nodes.lock(subject.node.id)
    node = unit.nodes.get(subject.node.id)
    _check_unchanged(unit, order, node, now)
    is_deletion = order.action is Action.DELETE
    unit.cleanups.add_end(
        EndRecord(
            project=node.spec.project,
            at=now,
            node_id=node.id,
            incarnation=node.attempt,
            name=node.name,
            action=order.action,
            actor=order.actor,
            reason=order.reason,
            hourly=subject.hourly,
            plan_id=order.plan_id,
            evidence=evidence_of(order.assessed, order.cleanup, order.times),
        )
    )
    verb = "deletion" if is_deletion else "stop"
    others = describe_others(read_causes(unit, node, now), order.reason)
    message = f"{verb} requested: {order.reason}{others}"
    unit.idle_courses.save([with_begun_end(order.assessed, now, is_deletion=is_deletion)])
    unit.events.add(Event(node.id, now, "asked", message, order.actor))
    return unit.nodes.save(
        replace(
            node,
            asked=Asked.ABSENT if is_deletion else Asked.STOPPED,
            delete_requested_at=now if is_deletion else None,
            delete_reason=order.delete_reason if is_deletion else node.delete_reason,
            alarmed_at=None,
            tries=0,
            next_try_at=now,
        )
    )


def record_end(  # noqa: PLR0913 - who, why, and what it was looked at with
    unit: Unit,
    node: Node,
    actor: str,
    reason: str,
    prices: PriceBookCache,
    now: int,
    *,
    times: IdleTimes,
) -> None:
    """Record a deletion that a person requested with the link of an idle message, with the known
    evidence. The caller requests the deletion itself. Raises Conflict if this incarnation is being
    deleted already.

    The caller has locked the node, and the history is written before the course, as in `begin_end`:
    a different order could deadlock.
    """
    subject = read_subject(unit, node, prices, Action.DELETE, now)
    watched = unit.idle_courses.find_by_node(node.id)
    evidence: Mapping[str, object] = {}
    assessed = None
    if subject is not None and watched is not None and watched.verdict is not None:
        assessed = AssessedNode(subject, watched, watched.verdict, CourseChange(watched.course))
        evidence = evidence_of(assessed, unit.cleanups.get(node.spec.project), times)
    unit.cleanups.add_end(
        EndRecord(
            project=node.spec.project,
            at=now,
            node_id=node.id,
            incarnation=node.attempt,
            name=node.name,
            action=Action.DELETE,
            actor=actor,
            reason=reason,
            hourly=None if subject is None else subject.hourly,
            evidence=evidence,
        )
    )
    if assessed is not None:
        unit.idle_courses.save([with_begun_end(assessed, now, is_deletion=True)])


def _check_unchanged(unit: Unit, order: EndOrder, node: Node, now: int) -> None:
    """Raise StaleVersion or Conflict unless everything is as it was when the end was decided."""
    subject = order.assessed.subject
    if node.version != subject.node.version:
        raise StaleVersion(f"node {node.name} was changed by someone else just now")
    # Both are locked: a pause or a policy takes effect before this decision, or after the commit.
    if unit.cleanups.get(node.spec.project, held=True).version != order.cleanup.version:
        raise StaleVersion(f"the cleanup of project {node.spec.project} was changed just now")
    if not subject.applied.is_own:
        unit.idle_policies.lock_all()
        scopes = scopes_of(node.spec, node.team)
        policies = unit.idle_policies.find_all()
        source = next((policies[scope] for scope in scopes if scope in policies), SHIPPED)
        if (source.scope, source.version) != (subject.applied.source, subject.applied.version):
            raise StaleVersion("the idle policy of the node was changed just now")
    claim = unit.jobs.find_claim(node.id)
    if claim is not None and (subject.job is None or subject.job.job_id != claim.job_id):
        raise Conflict(f"job {claim.job_id} has just begun on node {node.name}")
    known = "" if subject.job is None else subject.job.job_id
    queued = unit.jobs.find_waiting_for(node.id, besides=known)
    if queued and queued != subject.queued_job:
        raise Conflict(f"job {queued} has just been submitted to node {node.name}")
    beat = unit.heartbeats.find_by_node(node.id)
    is_news = beat is not None and beat.until > max(now, subject.heartbeat_until)
    if beat is not None and is_news and beat.incarnation == node.attempt:
        raise Conflict(f"a heartbeat of node {node.name} has just come")


def evidence_of(assessed: AssessedNode, cleanup: Cleanup, times: IdleTimes) -> Mapping[str, object]:
    """Why a node is ended, as a document: the verdict, every signal of the look, and the policy.
    Times are RFC 3339 in UTC."""
    verdict, applied = assessed.verdict, assessed.subject.applied
    signals, at = assessed.watched.signals, assessed.watched.judged_at
    families = families_of(cleanup.families, at, times.telemetry, times.period)
    return {
        "verdict": {
            **asdict(verdict),
            "blockers": list(verdict.blockers),
            "lacking": list(verdict.lacking),
            "since": None if verdict.since is None else to_rfc3339(verdict.since),
            "proved_since": None
            if verdict.proved_since is None
            else to_rfc3339(verdict.proved_since),
            "until": None if verdict.until is None else to_rfc3339(verdict.until),
        },
        "policy": {
            "source": applied.source,
            "version": applied.version,
            "idle_after_seconds": applied.rule.idle_after_seconds,
            "grace_seconds": applied.rule.grace_seconds,
            "action": applied.rule.action,
        },
        "signals": [
            {
                "worker": state.worker,
                "signal": state.signal,
                "level": state.level,
                "reason": state.reason,
                "value": state.value,
                "at": None if state.at is None else to_rfc3339(state.at),
                "age_seconds": None if state.at is None else max(0, at - state.at),
                "coverage_percent": state.coverage,
                "last_active_at": (
                    None if state.last_active_at is None else to_rfc3339(state.last_active_at)
                ),
            }
            for state in explain_signals(assessed.subject, families, times, at, verdict.until)
        ],
        "reports": [
            {
                "worker": worker,
                "at": to_rfc3339(host.at),
                "holder": host.holder,
                "held_since": None if host.held_since is None else to_rfc3339(host.held_since),
                "sessions": host.sessions,
                "containers": host.containers,
                "restarts": host.restarts,
            }
            for worker, host in sorted(signals.hosts.items())
        ],
        "judged_at": to_rfc3339(at),
    }
