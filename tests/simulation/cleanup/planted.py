"""Bugs of the cleanup that somebody could write tomorrow; the first four are the grossest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch

from google.cloud.monitoring_v3 import Aggregation

from service.application.cleanup import cleanup, links
from service.application.nodes.nodes import NodeService
from service.cloud.google import telemetry
from service.controllers.budgets.budgets import BudgetController
from service.controllers.idle import report_reads
from service.controllers.idle.idle import IdleController
from service.controllers.lifecycle import launch
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.domain.errors import Conflict
from service.domain.idle import assess, course, policy, proof, rails, readings, worker_report
from service.domain.idle import links as domain_links
from service.domain.idle import round as rounds
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.policy import Action
from service.domain.idle.proof import ActivityEvidence, IdleVerdict, MetricFamily, Signals
from service.domain.idle.rails import DueNode, Rail, RailDecision, Waiting
from service.domain.idle.signals.signal import Kind, Level, SignalTrack
from service.domain.lifecycle import precedence
from service.domain.lifecycle.precedence import EndCause, Holder
from service.domain.nodes import deletion
from service.domain.nodes.keep import Keep, asked_keep
from service.domain.nodes.node import Asked
from service.store import idle_fleet
from service.store.cleanups import Cleanups
from tests.planting import replace_function
from tests.simulation.cleanup import run

_NEEDED = (Kind.DUTY_CYCLE, Kind.CPU, Kind.NETWORK)
Planting = Callable[[], Any]


def nothing_is_ever_a_candidate() -> Any:
    """No node is ever at rest for long enough."""
    return patch.object(course, "is_idle", lambda *_: False)


def everything_is_unknown() -> Any:
    """Nobody knows anything of any node."""
    return patch.object(assess, "verdict_on", lambda *_: IdleVerdict(Level.UNKNOWN, "who knows"))


def the_breaker_never_closes() -> Any:
    """Once open, for ever open."""
    return patch.object(rails, "CLOSING_SECONDS", 10**9)


def the_pace_is_zero() -> Any:
    """Everybody waits for a turn that never comes."""

    def paced(
        due: list[DueNode], _live: int, _begun: object, now: int, period: int
    ) -> RailDecision:
        waits = [Waiting(node.node_id, Rail.TICK, 1, now + period) for node in due]
        return RailDecision((), tuple(waits))

    return patch.object(rounds, "pace_ends", paced)


def the_grace_is_skipped() -> Any:
    """What was told of goes at the next look."""
    real = course.due_at

    def due_at(before: Any, *more: Any) -> int | None:
        at = real(before, *more)
        return None if at is None else before.notified_at

    return patch.object(course, "due_at", due_at)


def a_keep_holds_nothing() -> Any:
    """Whoever keeps a node is not heard."""
    return patch.object(Keep, "is_active", lambda *_: False)


def held_devices_are_free() -> Any:
    """A process that holds the device is overlooked, as is what it did."""
    real = proof.judge_evidence

    def judge(evidence: Any, *more: Any) -> IdleVerdict:
        tracks = {
            key: track._replace(at_rest=((0, track.end),), broken_at=None, level=Level.QUIET)
            for key, track in evidence.tracks.items()
        }
        return real(replace(evidence, tracks=tracks, hosts={}), *more)

    return patch.object(assess, "judge_evidence", judge)


def what_is_missing_counts_as_zero() -> Any:
    """A signal of which nothing came, or nothing comes any more, is one at rest."""
    real = proof.judge_evidence

    def judge(evidence: ActivityEvidence, idle_after: int, now: int, delay: int) -> IdleVerdict:
        nothing = SignalTrack(now, 0.0, Level.QUIET, ((0, now),))
        keys = [(worker, kind) for worker in range(evidence.workers) for kind in _NEEDED]
        known = {
            key: track._replace(end=now, at_rest=(*track.at_rest, (track.end, now)))
            for key, track in evidence.tracks.items()
        }
        tracks = dict.fromkeys(keys, nothing) | known
        families = dict.fromkeys(evidence.families, MetricFamily.ABSENT)
        missing = replace(evidence, tracks=tracks, families=families)
        return real(missing, idle_after, now, delay)

    return patch.object(assess, "judge_evidence", judge)


def averages_are_read() -> Any:
    """One core at work among many is hardly anything."""
    mean: dict[str, Any] = {
        "aligner": Aggregation.Aligner.ALIGN_MEAN,
        "reducer": Aggregation.Reducer.REDUCE_MEAN,
    }
    metrics = {
        kind: tuple(replace(node, **mean) for node in some)
        for kind, some in telemetry._METRICS.items()
    }
    return patch.object(telemetry, "_METRICS", metrics)


def the_last_reading_stays_true() -> Any:
    """Whatever a signal said last, it says for ever."""
    real = proof.judge_evidence

    def judge(evidence: ActivityEvidence, idle_after: int, now: int, delay: int) -> IdleVerdict:
        tracks = {
            key: track._replace(end=now, at_rest=(*track.at_rest, (track.end, now)))
            if track.level is Level.QUIET
            else track
            for key, track in evidence.tracks.items()
        }
        return real(replace(evidence, tracks=tracks), idle_after, now, delay)

    return patch.object(assess, "judge_evidence", judge)


def the_newest_seconds_count() -> Any:
    """Nobody waits for what is still to come."""
    real = proof.judge_evidence
    return patch.object(
        assess, "judge_evidence", lambda evidence, after, now, _delay: real(evidence, after, now, 0)
    )


def each_process_counts_its_own_ends() -> Any:
    """A daemon that was killed has forgotten whom it has ended."""
    real = Cleanups.list_begun
    began: list[int] = [0]

    class Forgetful(IdleController):
        def __init__(self, units: Any, prices: Any, clock: Any, *more: Any) -> None:
            super().__init__(units, prices, clock, *more)
            began[0] = clock()

    def begun(self: Any, project: str, actor: str, since: int) -> Any:
        return real(self, project, actor, max(since, began[0]))

    stack = ExitStack()
    stack.enter_context(patch.object(Cleanups, "list_begun", begun))
    stack.enter_context(patch.object(run, "IdleController", Forgetful))
    return stack


def a_restart_skips_the_grace() -> Any:
    """A daemon that has just begun takes what was told of before for over."""
    real = course.due_at
    began: list[int] = [0]

    class Hasty(IdleController):
        def __init__(self, units: Any, prices: Any, clock: Any, *more: Any) -> None:
            super().__init__(units, prices, clock, *more)
            began[0] = clock()

    def due_at(before: Any, applied: Any) -> int | None:
        at = real(before, applied)
        is_older = at is not None and before.notified_at < began[0]
        return before.notified_at if is_older else at

    stack = ExitStack()
    stack.enter_context(patch.object(course, "due_at", due_at))
    stack.enter_context(patch.object(run, "IdleController", Hasty))
    return stack


def a_stale_plan_is_applied() -> Any:
    """Whatever would be ended by now is ended."""
    return patch.object(cleanup, "check_fresh", lambda *_: None)


def a_takeover_begins_a_new_tick() -> Any:
    """A daemon that takes over does not count what the one before ended a moment ago."""
    return patch.object(rails, "SAME_TICK_PERCENT", -1)


def a_keep_is_lost_at_a_recreation() -> Any:
    """What is made again is another node, that nobody has kept."""
    real = deletion.with_room
    return patch.object(launch, "with_room", lambda node: replace(real(node), kept_until=None))


def a_report_of_the_boot_before_counts() -> Any:
    """What a worker had written before it went down is read as of now.

    The product has two defences: rest also counts only from the boot on. Both are taken away.
    """
    real = worker_report.parse_worker

    def parse(values: Mapping[str, str], now: int, _since: int = 0) -> Any:
        found = json.loads(values.get("activity", "{}"))
        told = {**json.loads(values.get("report", "{}")), "boot": found.get("boot")}
        told.pop("boot_at", None)
        return real({**values, "report": json.dumps(told)}, now, 0)

    stack = ExitStack()
    stack.enter_context(patch.object(report_reads, "parse_worker", parse))
    stack.enter_context(patch.object(assess, "counts_from", _since_it_was_first_ready))
    return stack


def what_an_earlier_incarnation_did_counts() -> Any:
    """A node that was made again goes on where the one before was.

    The product has two defences: rest also counts only from the boot on. Both are taken away.
    """
    stack = ExitStack()
    stack.enter_context(
        patch.object(
            idle_fleet, "signals_of", lambda _, found: Signals() if found is None else found.signals
        )
    )
    stack.enter_context(replace_function(assess, assess._find_course, _course_of_any))
    stack.enter_context(patch.object(assess, "counts_from", _since_it_was_first_ready))
    return stack


def _course_of_any(subject: Any, now: int) -> IdleCourse:
    if subject.watched is None:
        return IdleCourse(subject.node.id, subject.node.attempt, State.WARMING, now)
    found: IdleCourse = subject.watched.course
    return replace(found, incarnation=subject.node.attempt)


def _since_it_was_first_ready(node: Any, times: Any) -> int:
    return int(node.ready_at or node.state_since) + int(times.warmup)


def unknown_for_long_is_at_rest() -> Any:
    """What nobody has seen at work for two hours does not work.

    The product has two defences: an UNKNOWN verdict also holds an end back. Both are taken away.
    """
    lost: set[tuple[str, int]] = set()
    real = course.advance_course

    def advance(
        before: IdleCourse, verdict: IdleVerdict, applied: Any, now: int, *more: Any, **how: Any
    ) -> Any:
        frozen, node = before.frozen_at, (before.node_id, before.incarnation)
        if frozen is not None and now - frozen >= 7_200:
            lost.add(node)
        if verdict.level is Level.UNKNOWN and node in lost:
            since = now - applied.rule.idle_after_seconds - 1_000
            verdict = replace(verdict, level=Level.QUIET, since=since, proved_since=since)
        return real(before, verdict, applied, now, *more, **how)

    stack = ExitStack()
    stack.enter_context(patch.object(assess, "advance_course", advance))
    stack.enter_context(patch.object(assess, "list_holders", lambda *_: []))
    return stack


def nodes_of_nobody_share_one_slot() -> Any:
    """Whoever has neither an owner nor a team takes the place of all the others like it."""
    real = rails.share_of
    return patch.object(
        rounds,
        "share_of",
        lambda node_id, owner, team: real(node_id if owner or team else "", owner, team),
    )


def a_link_works_twice() -> Any:
    """Nobody looks whether a link was used."""
    real = domain_links.find_refusal
    return patch.object(
        links, "find_refusal", lambda link, **how: real(replace(link, used_at=None), **how)
    )


def nothing_is_ever_ended_for_anything() -> Any:
    """Neither idleness, nor a time to live, nor a budget ever ends a node."""
    stack = ExitStack()
    for plant in (nothing_is_ever_a_candidate, a_ttl_never_ends, a_budget_never_deletes):
        stack.enter_context(plant())
    return stack


def a_ttl_never_ends() -> Any:
    """Nobody looks whether the time to live of a node is over."""
    return replace_function(
        LifecycleController, LifecycleController._expire_node, lambda _self, node, *_: node
    )


def a_budget_never_deletes() -> Any:
    """A budget that is exceeded tells people, and that is all."""
    return replace_function(BudgetController, BudgetController._delete_due, lambda *_: None)


def a_heartbeat_is_ignored() -> Any:
    """A heartbeat is stored, and says nothing about the node."""
    real = assess.evidence_of
    return patch.object(
        assess, "evidence_of", lambda *some: replace(real(*some), heartbeat_until=0)
    )


def a_job_on_the_node_is_ignored() -> Any:
    """A node is judged as if no job ran on it.

    The product has two defences: a job is activity, and holds an end back. Both are taken away.
    """
    evidence_of, list_holders = assess.evidence_of, assess.list_holders
    stack = ExitStack()
    stack.enter_context(
        patch.object(assess, "evidence_of", lambda *some: replace(evidence_of(*some), job=None))
    )
    stack.enter_context(
        patch.object(
            assess,
            "list_holders",
            lambda *some: [
                holder for holder in list_holders(*some) if holder is not Holder.BUSY_JOB
            ],
        )
    )
    return stack


def a_ttl_is_held_by_unknown() -> Any:
    """A node of which nobody knows what it does outlives its time."""
    real = LifecycleController._expire_node

    def expire(self: Any, node: Any, now: int, lease: Any) -> Any:
        with self._units.reading() as unit:
            watched = unit.idle_courses.find_by_node(node.id)
        verdict = None if watched is None else watched.verdict
        is_unknown = verdict is not None and verdict.level is Level.UNKNOWN
        return node if is_unknown else real(self, node, now, lease)

    return replace_function(LifecycleController, LifecycleController._expire_node, expire)


def a_keep_does_not_hold_a_ttl() -> Any:
    """A time to live ends a node that somebody keeps, after a notice at most."""
    held_by = {EndCause.TTL: frozenset({Holder.PAUSE})}
    return patch.dict(cast("dict[Any, Any]", precedence.HELD_BY), held_by)


def the_mode_is_ignored() -> Any:
    """What a policy says is done, though the mode of the daemon is weaker."""
    real = policy._limit_action
    return replace_function(
        policy,
        policy._limit_action,
        lambda wanted, spec, _ceiling, **how: real(wanted, spec, Action.DELETE, **how),
    )


def a_delete_link_works_twice() -> Any:
    """Nobody looks whether a link was used, and whether its node is being deleted already."""
    real = domain_links.find_refusal

    def find_refusal(link: Any, **how: Any) -> Any:
        is_first = link.verb is not domain_links.Verb.DELETE
        free = {**how, "ended": False, "ending": False}
        return real(link, **how) if is_first else real(replace(link, used_at=None), **free)

    return patch.object(links, "find_refusal", find_refusal)


def a_failed_read_counts_as_absent() -> Any:
    """A metric that could not be read is one that the project does not have."""
    real = readings.family_of

    def family_of(*some: Any) -> MetricFamily:
        found = real(*some)
        return MetricFamily.ABSENT if found is MetricFamily.FAILED else found

    return patch.object(readings, "family_of", family_of)


def one_mass_holds_for_ever() -> Any:
    """Once more than half of a fleet was idle, nothing goes any more."""
    real = rounds._find_mass_since
    masses: set[int] = set()

    def find_mass_since(before: Any, nodes: Any, earlier: Any, facts: Any) -> int | None:
        since = real(before, nodes, earlier, facts)
        masses.update([] if since is None else [since])
        return facts.now if masses else None

    return replace_function(rounds, rounds._find_mass_since, find_mass_since)


def a_keep_holds_back_a_person() -> Any:
    """Whoever wants to delete or stop a node that is kept is told to wait."""
    real = NodeService._ask_for

    def ask_for(self: Any, unit: Any, node: Any, asked: Asked, *more: Any) -> Any:
        if asked is not Asked.PRESENT and asked_keep(node, self._clock()) is not None:
            raise Conflict("it is kept")
        return real(self, unit, node, asked, *more)

    return replace_function(NodeService, NodeService._ask_for, ask_for)


GROSS: Mapping[str, Planting] = {
    plant.__name__: plant
    for plant in (
        nothing_is_ever_a_candidate,
        everything_is_unknown,
        the_breaker_never_closes,
        the_pace_is_zero,
        nothing_is_ever_ended_for_anything,
    )
}
SUBTLE: Mapping[str, Planting] = {
    plant.__name__: plant
    for plant in (
        the_grace_is_skipped,
        a_keep_holds_nothing,
        held_devices_are_free,
        what_is_missing_counts_as_zero,
        averages_are_read,
        the_last_reading_stays_true,
        the_newest_seconds_count,
        each_process_counts_its_own_ends,
        a_takeover_begins_a_new_tick,
        a_keep_is_lost_at_a_recreation,
        a_report_of_the_boot_before_counts,
        unknown_for_long_is_at_rest,
        nodes_of_nobody_share_one_slot,
        a_restart_skips_the_grace,
        a_stale_plan_is_applied,
        what_an_earlier_incarnation_did_counts,
        a_link_works_twice,
        a_ttl_never_ends,
        a_budget_never_deletes,
        a_heartbeat_is_ignored,
        a_job_on_the_node_is_ignored,
        a_ttl_is_held_by_unknown,
        a_keep_does_not_hold_a_ttl,
        the_mode_is_ignored,
        a_delete_link_works_twice,
        a_failed_read_counts_as_absent,
        one_mass_holds_for_ever,
        a_keep_holds_back_a_person,
    )
}
