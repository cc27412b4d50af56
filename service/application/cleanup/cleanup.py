"""The cleanup as people see and control it: status, plan, apply, pause and resume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from service.application.cleanup.activity import RecentActivity, join_hours
from service.application.cleanup.coverage import ProjectCoverage, coverage_of
from service.application.cleanup.daemon import reason_of
from service.application.cleanup.ending import EndOrder, begin_end
from service.application.retries import run_with_retries
from service.domain.clock import Clock
from service.domain.errors import Conflict, NotFound, Rejected, StaleVersion
from service.domain.idle.assess import AssessedNode, IdleSubject, IdleTimes
from service.domain.idle.cleanup import (
    REFRESH_SECONDS,
    Cleanup,
    EndRecord,
    ExpectedEnd,
    WatchedNode,
)
from service.domain.idle.course import CourseChange, State, is_idle
from service.domain.idle.ends import End
from service.domain.idle.explain import SignalState, explain_signals
from service.domain.idle.plan import CleanupPlan, PlanBasis, PlanEntry, check_fresh
from service.domain.idle.policy import Action, AppliedRule, apply_policies, with_waste
from service.domain.idle.proof import MetricFamily
from service.domain.idle.rails import Waiting
from service.domain.idle.readings import families_of
from service.domain.idle.rollup import SLOT_SECONDS
from service.domain.idle.signals.signal import MONITORED
from service.domain.nodes.keep import Keep, keep_of_node
from service.domain.nodes.node import Node, NodeState
from service.store.idle import RestingNode
from service.store.idle_fleet import IdleFleet, read_fleet, read_rates, read_subject
from service.store.node_ends import read_ends
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

log = structlog.get_logger()

MOST_HISTORY = 10_000


@dataclass(frozen=True, slots=True)
class IdleMode:
    """The settings of the cleanup: the strongest action, and the times."""

    ceiling: Action = Action.OBSERVE
    times: IdleTimes = field(default_factory=IdleTimes)


@dataclass(frozen=True, slots=True)
class CleanupStatus:
    """The cleanup of a project and its settings; `is_watched` is False while no daemon looks at the
    project. `names` maps the ids of the waiting nodes to their names."""

    cleanup: Cleanup
    mode: IdleMode
    is_watched: bool
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def next_tick_at(self) -> int | None:
        """When the daemon looks next; None while no daemon looks."""
        return self.cleanup.ticked_at + self.mode.times.period if self.is_watched else None


@dataclass(frozen=True, slots=True)
class IdleNode:
    """What is known of the idleness of a node. `ended` are the records of its ends for idleness,
    the newest first, `ends` is everything that may end it. `subject` is None unless the node is
    READY, `watched` is None if no look has covered it. `signals` are those of the last look; if
    that look is old and the node is READY, they are evaluated now."""

    node: Node
    watched: WatchedNode | None
    subject: IdleSubject | None
    cleanup: Cleanup
    ended: Sequence[EndRecord]
    ends: Sequence[End]
    signals: Sequence[SignalState] = ()


@dataclass(frozen=True, slots=True)
class IdleBrief:
    """What a line about the idleness of a READY node shows; `waiting` is the rail that the node
    waits for, `keep` is the keep that holds now. `expected` is when the daemon ends the node; None
    where it does not."""

    watched: WatchedNode
    applied: AppliedRule
    keep: Keep | None
    waiting: Waiting | None
    expected: ExpectedEnd | None = None


@dataclass(frozen=True, slots=True)
class UnknownNode:
    """A READY node of which it is unknown whether it is idle. `hourly` is in nano-dollars, None
    where the price is unknown."""

    resting: RestingNode
    hourly: int | None


class CleanupService:
    """Each method is one unit of work, without a call to the cloud."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        projects: Sequence[str],
        mode: IdleMode,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = projects
        self.mode = mode

    def list_statuses(self) -> Sequence[CleanupStatus]:
        """The cleanup status of every project."""
        now = self._clock()
        with self._units.reading() as unit:
            rows = [unit.cleanups.get(project) for project in self._projects]
            names = _names_of_waiting(unit, rows)
        longest = 3 * self.mode.times.period
        return [
            CleanupStatus(
                row, self.mode, bool(row.ticked_at) and now - row.ticked_at <= longest, names
            )
            for row in rows
        ]

    def names_of_waiting(self, rows: Iterable[Cleanup]) -> Mapping[str, str]:
        """The names of the nodes that wait in these projects, by id."""
        with self._units.reading() as unit:
            return _names_of_waiting(unit, rows)

    def make_plan(self, project: str, actor: str) -> CleanupPlan:
        """Plan what would be stopped or deleted now: every node that is proved to be idle and whose
        policy has an action, whatever the mode. Raises NotFound for an unknown project, Rejected
        for no project if there are several."""
        project = self._resolve_project(project)
        with self._units() as unit:
            plan, _ = self._build_plan(unit, project)
            unit.cleanups.save_plan(plan, actor)
        return plan

    def list_plans(self) -> Sequence[CleanupPlan]:
        """The plan of each project as of now. It is not stored, so it cannot be applied:
        `make_plan` stores a plan for that."""
        with self._units.reading() as unit:
            return [self._build_plan(unit, project)[0] for project in self._projects]

    def list_unknown(self) -> Sequence[UnknownNode]:
        """The READY nodes of which it is unknown whether they are idle, the longest unknown
        first. They are never ended for idleness."""
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.get_book(unit)
            rates: dict[str, int | None] = {}
            for project in self._projects:
                rates |= read_rates(unit, project, book, now)
            resting = unit.idle_courses.list_resting(self._projects)
        unknown = [node for node in resting if node.state is State.UNKNOWN]
        unknown.sort(key=lambda node: (node.since, node.name))
        return [UnknownNode(node, rates.get(node.node_id)) for node in unknown]

    def apply_plan(self, plan_id: str, actor: str) -> CleanupPlan:
        """Begin everything that a plan contains, at once; returns the plan. Rails, grace and mode
        do not hold back a person. Raises Conflict if the plan is stale or unknown."""
        try:
            with self._units() as unit:
                before = unit.cleanups.find_plan(plan_id)
                if before is None:
                    raise Conflict(
                        f"no plan has the id {plan_id[:64]!r}; make a plan, and apply it within two"
                        " days"
                    )
                plan, assessed = self._build_plan(unit, before.project)
                check_fresh(plan_id, before, plan)
                cleanup = unit.cleanups.get(before.project)
                # Every writer writes the rows of several nodes in the order of their ids.
                for entry in sorted(plan.entries, key=lambda entry: entry.node_id):
                    node = assessed[entry.node_id]
                    order = EndOrder(
                        node, entry.action, actor, entry.reason, cleanup, self.mode.times, plan_id
                    )
                    begin_end(unit, order, self._clock())
        except StaleVersion as error:
            raise Conflict(f"the plan is stale: {error}; make a new plan") from error
        return plan

    def pause(self, project: str, actor: str, reason: str) -> Sequence[Cleanup]:
        """Have the daemon end no node for idleness until the cleanup is resumed; in every project
        if none is named. Raises Rejected without a reason."""
        now = self._clock()
        named = [self._resolve_project(project)] if project else self._projects
        return [
            self._save_changed(name, lambda row: row.with_pause(now, actor, reason))
            for name in named
        ]

    def resume(self, project: str) -> Sequence[Cleanup]:
        """End the pause. Raises Conflict if nothing is paused."""
        named = [self._resolve_project(project)] if project else self._projects
        with self._units.reading() as unit:
            paused = [name for name in named if unit.cleanups.get(name).is_paused]
        if not paused:
            raise Conflict("the cleanup is not paused")
        return [self._save_changed(name, Cleanup.without_pause) for name in paused]

    def close_breaker(self, project: str, actor: str, reason: str) -> Cleanup:
        """Close the breaker of a project by hand. Raises Conflict if it is not open, Rejected
        without a reason."""
        now = self._clock()
        row = self._save_changed(
            self._resolve_project(project), lambda row: row.with_closed_breaker(now, actor, reason)
        )
        log.warning("cleanup.breaker_closed", project=row.project, actor=actor, reason=reason)
        return row

    def read_coverage(self) -> Sequence[ProjectCoverage]:
        """How well the nodes of every project are observed."""
        now, times = self._clock(), self.mode.times
        with self._units.reading() as unit:
            fleets = [self._read_fleet(unit, name, self.mode.ceiling) for name in self._projects]
        return [coverage_of(fleet, now, times) for fleet in fleets]

    def list_ended(self, limit: int = MOST_HISTORY) -> Sequence[EndRecord]:
        """The nodes that were ended for idleness, the newest first; at most ten thousand."""
        with self._units.reading() as unit:
            return [record for _, record in unit.cleanups.list_ended(self._projects, 0, limit)]

    def list_paused(self) -> frozenset[str]:
        """The projects whose cleanup a person has paused."""
        with self._units.reading() as unit:
            rows = [unit.cleanups.get(project) for project in self._projects]
        return frozenset(row.project for row in rows if row.is_paused)

    def current_time(self) -> int:
        """The current time in UTC seconds."""
        return self._clock()

    def get_node(self, node_id: str) -> IdleNode:
        """What is known of the idleness of a node, also after its end; raises NotFound."""
        now = self._clock()
        with self._units.reading() as unit:
            node = unit.nodes.get(node_id)
            subject = read_subject(unit, node, self._prices, self.mode.ceiling, now)
            cleanup = unit.cleanups.get(node.spec.project)
            watched = unit.idle_courses.find_by_node(node_id)
            rule = apply_policies(
                node.spec, node.team, unit.idle_policies.find_all(), self.mode.ceiling
            )
            ended = unit.cleanups.list_by_node(node_id)
            ends = read_ends(unit, node, subject, now)
            found = IdleNode(node, watched, subject, cleanup, ended, ends)
        return replace(found, signals=self._explain_signals(found, rule, now))

    def read_activity(self, node_id: str, seconds: int) -> RecentActivity:
        """What a node did in the last `seconds`, or in those before its end; nothing before its
        request. Raises NotFound."""
        now = self._clock()
        with self._units.reading() as unit:
            node = unit.nodes.get(node_id)
            until = now if node.ended_at is None else node.ended_at
            end = until - until % SLOT_SECONDS + SLOT_SECONDS
            start = max(end - seconds, node.created_at - node.created_at % SLOT_SECONDS)
            hours = unit.idle_rollups.list_hours([node_id], start, end).get(node_id, ())
        return join_hours(hours, start, end)

    def _explain_signals(
        self, found: IdleNode, rule: AppliedRule, now: int
    ) -> Sequence[SignalState]:
        watched, times = found.watched, self.mode.times
        if watched is None:
            return ()
        verdict, at = watched.verdict, watched.judged_at
        if found.subject is None:  # only the state of the last look is known
            known = {kind for _, kind in watched.signals.tracks}
            families = {
                kind: MetricFamily.PRESENT if kind in known else MetricFamily.ABSENT
                for kind in MONITORED
            }
            subject = IdleSubject(found.node, rule, watched, watched.signals)
        else:
            families = dict(families_of(found.cleanup.families, now, times.telemetry, times.period))
            subject = found.subject
            if at < now - REFRESH_SECONDS - self._late_seconds:
                at, verdict = now, None
        until = None if verdict is None else verdict.until
        return explain_signals(subject, families, times, at, until)

    def find_briefs(self, node_ids: Iterable[str]) -> Mapping[str, IdleBrief]:
        """What is known of the idleness of the nodes that are READY and were looked at, by id."""
        now, wanted = self._clock(), list(node_ids)
        with self._units.reading() as unit:
            courses = unit.idle_courses.find_many(wanted)
            nodes = unit.nodes.find_many(courses)
            policies = unit.idle_policies.find_all()
            projects = {node.spec.project for node in nodes.values()}
            cleanups = {project: unit.cleanups.get(project) for project in projects}
        waiting = {
            waiting.node_id: waiting for cleanup in cleanups.values() for waiting in cleanup.waiting
        }
        found = {}
        for node_id, watched in courses.items():
            node = nodes[node_id]
            if node.state != NodeState.READY or watched.course.incarnation != node.attempt:
                continue
            rule = apply_policies(node.spec, node.team, policies, self.mode.ceiling)
            keep = keep_of_node(node)
            held = keep if keep is not None and keep.is_active(now) else None
            expected: ExpectedEnd | None = None
            if watched.due_at is not None and held is None:
                expected = cleanups[node.spec.project].expect_end(node_id, watched.due_at, now)
            found[node_id] = IdleBrief(watched, rule, held, waiting.get(node_id), expected)
        return found

    def _read_fleet(self, unit: Unit, project: str, ceiling: Action) -> IdleFleet:
        return read_fleet(unit, project, self._prices, ceiling, self._clock())

    def _build_plan(self, unit: Unit, project: str) -> tuple[CleanupPlan, dict[str, AssessedNode]]:
        """The plan of a project as of now, and the last looks at the nodes in it."""
        now = self._clock()
        fleet = self._read_fleet(unit, project, Action.DELETE)
        # The daemon writes decisions at once, and repeats what it sees every few minutes. An older
        # row does not count, and no row counts while no daemon looks.
        ticked_at = fleet.cleanup.ticked_at
        is_watched = ticked_at >= now - self._late_seconds
        oldest = ticked_at - REFRESH_SECONDS - self._late_seconds if is_watched else now + 1
        looks = {
            subject.node.id: look
            for subject in fleet.subjects
            if (look := _find_proven_look(subject, oldest)) is not None
            and not _is_protected(subject, now)
        }
        plan = CleanupPlan(
            project,
            now,
            tuple(
                _to_plan_entry(look, self.mode.ceiling, fleet.cleanup, now)
                for look in looks.values()
            ),
            tuple(held.rail for held in fleet.cleanup.holds),
            fleet.cleanup.pauses,
        )
        return plan, looks

    @property
    def _late_seconds(self) -> int:
        """Seconds without a look after which no daemon counts as watching."""
        return 2 * self.mode.times.period + 60

    def _save_changed(self, project: str, change: Callable[[Cleanup], Cleanup]) -> Cleanup:
        """Change the row of a project in one unit of work; repeated if the daemon writes first."""

        def save_changed(unit: Unit) -> Cleanup:
            return unit.cleanups.save(change(unit.cleanups.get(project)))

        return run_with_retries(self._units, save_changed, f"the cleanup of project {project}")

    def _resolve_project(self, project: str) -> str:
        if not project and len(self._projects) == 1:
            return self._projects[0]
        if not project:
            raise Rejected(
                f"name a project: one of {', '.join(self._projects) or 'none is set'}",
                field="project",
            )
        if project not in self._projects:
            raise NotFound(
                f"no project {project[:80]!r} here; the projects are {', '.join(self._projects)}"
            )
        return project


def _names_of_waiting(unit: Unit, rows: Iterable[Cleanup]) -> Mapping[str, str]:
    ids = [waiting.node_id for row in rows for waiting in row.waiting]
    return {node_id: node.name for node_id, node in unit.nodes.find_many(ids).items()}


def _find_proven_look(subject: IdleSubject, oldest: int) -> AssessedNode | None:
    """The last look at a node; None unless the look is recent and proves that the node has been
    idle for as long as its policy asks."""
    watched = subject.watched
    if watched is None or watched.verdict is None or watched.judged_at < oldest:
        return None
    if watched.course.incarnation != subject.node.attempt:
        return None
    verdict, until = watched.verdict, watched.verdict.until
    found = AssessedNode(subject, watched, verdict, CourseChange(watched.course))
    rule = with_waste(subject.applied, verdict.waste)
    does_end = rule.action.rank >= Action.STOP.rank
    is_long = until is not None and is_idle(verdict, subject.applied, until)
    return found if found.is_idle and does_end and is_long else None


def _is_protected(subject: IdleSubject, now: int) -> bool:
    """Whether a node is kept, or a job or a heartbeat has come since the last look."""
    is_kept = subject.keep is not None and subject.keep.is_active(now)
    is_awaited = bool(subject.queued_job)
    job, watched = subject.job, subject.watched
    is_busy = job is not None
    if job is not None and watched is not None and watched.verdict is not None:
        # A job that the last look found to hang does not protect its node.
        has_moved = job.is_preparing or job.progress_at > watched.judged_at
        is_busy = has_moved or watched.verdict.waste is None
    return is_kept or is_awaited or is_busy or subject.heartbeat_until > now


def _to_plan_entry(look: AssessedNode, ceiling: Action, cleanup: Cleanup, now: int) -> PlanEntry:
    """The plan entry of a node."""
    due_at = look.watched.due_at
    node, verdict, applied = look.subject.node, look.verdict, look.subject.applied
    is_told = applied.is_own or look.subject.can_tell
    does_it = is_told and applied.action.limited_to(ceiling).rank >= Action.STOP.rank
    expected = None if due_at is None else cleanup.expect_end(node.id, due_at, now)
    waits_until = [waiting.until for waiting in cleanup.waiting if waiting.node_id == node.id]
    if due_at is not None:
        due_at = max([due_at, *(at for at in waits_until if at is not None)])
    return PlanEntry(
        node_id=node.id,
        name=node.name,
        action=applied.action,
        reason=reason_of(verdict),
        due_at=due_at if does_it else None,
        hourly=look.subject.hourly,
        basis=PlanBasis(
            node_version=node.version,
            incarnation=node.attempt,
            course_since=look.watched.course.since,
            policy=applied.source,
            policy_version=applied.version,
            verdict=f"{verdict.level} {verdict.waste or ''} since {verdict.since}",
        ),
        expected=expected if does_it else None,
    )
