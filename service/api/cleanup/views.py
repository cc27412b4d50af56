"""Response models of the cleanup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from service.api.http.schemas import Page, Percent, Time, Usd, View, time_or_none, usd_or_none
from service.application.cleanup.cleanup import CleanupStatus, IdleNode
from service.application.cleanup.coverage import (
    FamilyCoverage,
    ProjectCoverage,
    ReportCoverage,
)
from service.domain.clock import to_rfc3339
from service.domain.idle.assess import is_kept, list_holders, list_limits
from service.domain.idle.cleanup import Cleanup, EndRecord, RailHold
from service.domain.idle.course import idle_at
from service.domain.idle.explain import Claim, SignalState
from service.domain.idle.plan import CleanupPlan, PlanEntry
from service.domain.idle.policy import Action, with_waste
from service.domain.idle.proof import Blocker, Host, IdleVerdict, Signals
from service.domain.idle.rails import Rail, Waiting
from service.domain.idle.signals.signal import Kind, Level
from service.domain.lifecycle.precedence import Holder
from service.domain.money import format_usd

_EXAMPLE = "every device is quiet"


class HeldView(View):
    """A rail that holds. While it holds, the daemon ends no idle node."""

    rail: Rail
    reason: str = Field(examples=["more than half of the nodes are idle at once"])
    since: Time
    until: Time | None = Field(description="Null if the time is not known.")
    waiting: tuple[str, ...] = Field(
        description="The names of the nodes that wait for the rail, the most expensive first.",
        examples=[["trainer"]],
    )

    @classmethod
    def from_hold(cls, held: RailHold, waiting: tuple[str, ...]) -> HeldView:
        """The view of a rail, with the names of the nodes that wait for it."""
        return cls(
            rail=held.rail,
            reason=held.reason,
            since=to_rfc3339(held.since),
            until=time_or_none(held.until),
            waiting=waiting,
        )


class WaitingView(View):
    """A node whose grace is over, and that waits for a rail or for its turn."""

    node_id: str
    name: str = Field(examples=["trainer"])
    rail: Rail = Field(
        description="`tick`, `hour` and `owner` limit the pace: the node waits for its turn."
    )
    place: int = Field(description="Counts from 1; the most expensive node is first.", examples=[1])
    since: Time | None = Field(
        description="Since when rails hold it without a gap, whichever rail it is now; null for a"
        " node that no check has covered since an upgrade."
    )
    until: Time | None

    @classmethod
    def from_waiting(cls, waiting: Waiting, name: str) -> WaitingView:
        """The view of a place in the line."""
        return cls(
            node_id=waiting.node_id,
            name=name,
            rail=waiting.rail,
            place=waiting.place,
            since=time_or_none(waiting.since),
            until=time_or_none(waiting.until),
        )


class CleanupProjectView(View):
    """How the cleanup of one project stands."""

    project: str = Field(examples=["lab"])
    ticked_at: Time | None = Field(
        description="When a daemon last checked the nodes; null for never."
    )
    next_tick_at: Time | None = Field(
        description="When a daemon checks next; null while no daemon runs."
    )
    paused_at: Time | None
    paused_by: str
    pause_reason: str
    breaker_open_since: Time | None
    breaker_reason: str
    breaker_closed_at: Time | None = Field(
        description="When the breaker last closed; null while it is open, or if it never opened."
    )
    breaker_closed_by: str = Field(
        description="The person who closed it; empty if it closed by itself.", examples=["caller"]
    )
    breaker_closed_reason: str = Field(examples=["Monitoring is back"])
    rails: tuple[HeldView, ...] = Field(description="The rails that hold now.")
    waiting: tuple[WaitingView, ...]

    @classmethod
    def from_cleanup(
        cls, row: Cleanup, names: Mapping[str, str], next_tick_at: int | None = None
    ) -> CleanupProjectView:
        """The view of the row of a project; `names` has those of the nodes that wait, by id."""
        named = [(place, names.get(place.node_id, place.node_id)) for place in row.waiting]
        waiting = tuple(name for _, name in named)  # a rail that holds, holds them all
        return cls(
            project=row.project,
            ticked_at=time_or_none(row.ticked_at or None),
            next_tick_at=time_or_none(next_tick_at),
            paused_at=time_or_none(row.paused_at),
            paused_by=row.paused_by,
            pause_reason=row.pause_reason,
            breaker_open_since=time_or_none(row.breaker.opened_at),
            breaker_reason=row.breaker.reason,
            breaker_closed_at=time_or_none(row.breaker.closed_at),
            breaker_closed_by=row.breaker.closed_by,
            breaker_closed_reason=row.breaker.closed_reason,
            rails=tuple(HeldView.from_hold(held, waiting) for held in row.holds),
            waiting=tuple(WaitingView.from_waiting(place, name) for place, name in named),
        )


class CleanupView(View):
    """What the daemon may do, and how it stands with each project."""

    mode: Action = Field(description="What is done at most; a policy may say less.")
    idle_seconds: int = Field(description="Seconds between two checks.", examples=[60])
    warmup_seconds: int = Field(description="Seconds from READY; idleness counts after them.")
    telemetry_seconds: int = Field(description="The newest seconds of signals; they are ignored.")
    start_seconds: int = Field(
        description="Seconds after a start in which the daemon ends no idle node."
    )
    projects: tuple[CleanupProjectView, ...]

    @classmethod
    def from_standings(cls, standings: tuple[CleanupStatus, ...], mode: Any) -> CleanupView:
        """The view of the whole."""
        return cls(
            mode=mode.ceiling,
            idle_seconds=mode.times.period,
            warmup_seconds=mode.times.warmup,
            telemetry_seconds=mode.times.telemetry,
            start_seconds=mode.times.start,
            projects=tuple(
                CleanupProjectView.from_cleanup(
                    standing.cleanup, standing.names, standing.next_tick_at
                )
                for standing in standings
            ),
        )


class PlannedEndView(View):
    """A node that is stopped or deleted when the plan is applied."""

    node_id: str
    name: str = Field(examples=["trainer"])
    action: Action
    reason: str = Field(examples=["it has been idle since 2026-11-01T12:00:00Z"])
    due_at: Time | None = Field(
        description="When the daemon does it by itself, if no rail holds it; null if it does not,"
        " because of its mode or because nobody was told yet."
    )
    expected_at: Time | None = Field(
        description="When the daemon does it with the rails that hold now; null if it does not, or"
        " while a rail without a known end holds it."
    )
    hourly_cost: Usd | None = Field(
        description="What it saves an hour; null if the price is not known."
    )

    @classmethod
    def from_entry(cls, entry: PlanEntry) -> PlannedEndView:
        """The view of an entry."""
        return cls(
            node_id=entry.node_id,
            name=entry.name,
            action=entry.action,
            reason=entry.reason,
            due_at=time_or_none(entry.due_at),
            expected_at=None if entry.expected is None else time_or_none(entry.expected.at),
            hourly_cost=usd_or_none(entry.hourly),
        )


class CleanupPlanView(View):
    """What would be stopped or deleted: `apply` does exactly this, or refuses it as stale."""

    plan_id: str = Field(examples=["5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"])
    project: str = Field(examples=["lab"])
    as_of: Time
    saves_hourly: Usd = Field(description="Savings an hour, as far as prices are known.")
    held_by: tuple[Rail, ...] = Field(
        description="Rails that hold the daemon; they do not hold `apply`."
    )
    entries: tuple[PlannedEndView, ...]

    @classmethod
    def from_plan(cls, plan: CleanupPlan) -> CleanupPlanView:
        """The view of a plan, the dearest node first."""
        ordered = sorted(plan.entries, key=lambda entry: (-(entry.hourly or 0), entry.node_id))
        return cls(
            plan_id=plan.id,
            project=plan.project,
            as_of=to_rfc3339(plan.as_of),
            saves_hourly=format_usd(plan.saves_hourly),
            held_by=plan.held_by,
            entries=tuple(map(PlannedEndView.from_entry, ordered)),
        )


class EndedView(View):
    """A node that was stopped or deleted for idleness, by whom and by what evidence."""

    at: Time
    project: str = Field(examples=["lab"])
    node_id: str
    incarnation: int = Field(description="The placement of the node, counted from 1.", examples=[1])
    name: str = Field(examples=["trainer"])
    action: Action
    actor: str = Field(examples=["the cleanup daemon"])
    reason: str
    hourly_cost: Usd | None
    plan_id: str = Field(description="Empty if the daemon did it by itself.")
    evidence: dict[str, Any] = Field(description="The verdict, the policy and every signal.")

    @classmethod
    def from_ended(cls, ended: EndRecord) -> EndedView:
        """The view of an end."""
        return cls(
            at=to_rfc3339(ended.at),
            project=ended.project,
            node_id=ended.node_id,
            incarnation=ended.incarnation,
            name=ended.name,
            action=ended.action,
            actor=ended.actor,
            reason=ended.reason,
            hourly_cost=usd_or_none(ended.hourly),
            plan_id=ended.plan_id,
            evidence=dict(ended.evidence),
        )


class HistoryPage(Page):
    """A page of what was ended, the newest first."""

    history: tuple[EndedView, ...]


class FamilyView(View):
    """A metric of Cloud Monitoring in a project."""

    signal: Kind
    state: str = Field(description="present, absent or failed.", examples=["present"])
    newest_at: Time | None = Field(description="The end of the newest series of any node.")
    read_at: Time | None = Field(description="When a read last succeeded.")
    error: str = Field(description="Why the newest read failed, else empty.", examples=[""])
    nodes: int = Field(description="READY nodes with a point in the last 15 minutes.", examples=[3])

    @classmethod
    def from_coverage(cls, family: FamilyCoverage) -> FamilyView:
        """The view of a metric."""
        return cls(
            signal=family.kind,
            state=family.family,
            newest_at=time_or_none(family.read.seen_at),
            read_at=time_or_none(family.read.read_at),
            error=family.read.error,
            nodes=family.nodes,
        )


class ReportsView(View):
    """What the supervisors on the workers report."""

    nodes: int = Field(description="Nodes with a supervisor.", examples=[10])
    reported: int = Field(description="Of these, nodes whose workers all reported.", examples=[10])
    needed: int = Field(
        description="Of these, nodes that Cloud Monitoring does not cover.", examples=[2]
    )
    silent: int = Field(
        description="Of the needed ones, nodes without a recent report; they are not deleted.",
        examples=[0],
    )
    newest_at: Time | None = Field(description="The end of the newest report of any node.")

    @classmethod
    def from_coverage(cls, reports: ReportCoverage) -> ReportsView:
        """The view of what is reported."""
        return cls(
            nodes=reports.nodes,
            reported=reports.reported,
            needed=reports.needed,
            silent=reports.silent,
            newest_at=time_or_none(reports.newest_at),
        )


class CoverageView(View):
    """What can be seen of the nodes of a project."""

    project: str = Field(examples=["lab"])
    nodes: int = Field(description="READY nodes.", examples=[12])
    known: int = Field(
        description="Of these, nodes that are proved to be active or quiet.", examples=[11]
    )
    unknown: int = Field(examples=[1])
    never_deleted: int = Field(
        description="Nodes without a supervisor and without metrics: they are never deleted for"
        " idleness.",
        examples=[0],
    )
    never_deleted_hourly_cost: Usd = Field(
        description="What those nodes cost an hour, as far as prices are known."
    )
    reports: ReportsView
    families: tuple[FamilyView, ...]

    @classmethod
    def from_coverage(cls, coverage: ProjectCoverage) -> CoverageView:
        """The view of the coverage of a project."""
        return cls(
            project=coverage.project,
            nodes=coverage.nodes,
            known=coverage.known,
            unknown=coverage.nodes - coverage.known,
            never_deleted=coverage.unseen,
            never_deleted_hourly_cost=format_usd(coverage.unseen_hourly),
            reports=ReportsView.from_coverage(coverage.reports),
            families=tuple(map(FamilyView.from_coverage, coverage.families)),
        )


class CoverageReport(View):
    """What can be seen of the nodes of every project."""

    projects: tuple[CoverageView, ...]


class SignalView(View):
    """What one signal shows: of one worker, or of the whole node for `job` and `heartbeat`."""

    worker: int | None = Field(
        description="Null for `job` and `heartbeat`, which are of the whole node.", examples=[0]
    )
    signal: Kind | Claim
    level: Level
    reason: str = Field(
        description="For UNKNOWN, why nothing is known; else what the signal shows.",
        examples=["quiet since 2026-11-01T12:00:00Z"],
    )
    value: float | None = Field(
        description="Percent, bytes a second, chips or seconds; null if nothing was measured.",
        examples=[0.0],
    )
    at: Time | None = Field(description="The end of the newest reading; null if there is none.")
    age_seconds: int | None = Field(examples=[90])
    coverage_percent: Percent = Field(
        description="The share of the policy's idle time in which the signal is known to be at"
        " rest. The newest seconds do not count.",
        examples=[98],
    )
    last_active_at: Time | None = Field(description="When the signal was last not quiet.")

    @classmethod
    def from_state(cls, row: SignalState, now: int) -> SignalView:
        """The view of a signal."""
        return cls(
            worker=row.worker,
            signal=row.signal,
            level=row.level,
            reason=row.reason,
            value=row.value,
            at=time_or_none(row.at),
            age_seconds=None if row.at is None else max(0, now - row.at),
            coverage_percent=row.coverage,
            last_active_at=time_or_none(row.last_active_at),
        )


class WorkerReportView(View):
    """What the newest report of one worker shows: a claim by a process on that machine."""

    worker: int = Field(examples=[0])
    at: Time = Field(description="The end of the time that the report covers.")
    age_seconds: int = Field(examples=[90])
    holder: str = Field(
        description="The process that holds the accelerator, empty for none.",
        examples=["process 4242 (python3 train.py) holds /dev/vfio/0"],
    )
    held_since: Time | None = Field(
        description="The end of the first of the consecutive reports that show this process."
        " The process has held the accelerator at least since then; null without a process."
    )
    sessions: int = Field(description="SSH sessions.", examples=[0])
    containers: int = Field(description="Running containers that belong to no job.", examples=[0])
    restarts: int = Field(
        description="The most restarts of one container in ten minutes.", examples=[0]
    )

    @classmethod
    def from_report(cls, worker: int, host: Host, now: int) -> WorkerReportView:
        """The view of a report."""
        return cls(
            worker=worker,
            at=to_rfc3339(host.at),
            age_seconds=max(0, now - host.at),
            holder=host.holder,
            held_since=time_or_none(host.held_since),
            sessions=host.sessions,
            containers=host.containers,
            restarts=host.restarts,
        )


class VerdictView(View):
    """What the signals prove."""

    level: Level
    reason: str = Field(examples=[_EXAMPLE])
    since: Time | None = Field(description="When the devices became idle.")
    coverage_percent: Percent = Field(examples=[98])
    blockers: tuple[Blocker, ...]
    waste: str = Field(description="crash_loop or no_progress, else empty.", examples=[""])
    lacking: tuple[str, ...] = Field(description="What is missing for a proof.")

    @classmethod
    def from_verdict(cls, verdict: IdleVerdict) -> VerdictView:
        """The view of a verdict."""
        return cls(
            level=verdict.level,
            reason=verdict.reason,
            since=time_or_none(verdict.since),
            coverage_percent=verdict.coverage,
            blockers=verdict.blockers,
            waste=verdict.waste or "",
            lacking=verdict.lacking,
        )


class NodeIdleView(View):
    """The idle state of a node, with the evidence."""

    node_id: str
    node_state: str = Field(
        description="The state of the node itself: Google's name of it, or one of ours.",
        examples=["READY"],
    )
    state: str = Field(
        description="WARMING, ACTIVE, QUIET, CANDIDATE, NOTIFIED, DELETING or UNKNOWN; empty for a"
        " node that was never checked.",
        examples=["QUIET"],
    )
    since: Time | None
    judged_at: Time | None
    notified_at: Time | None
    idle_at: Time | None = Field(
        description="When a QUIET node has been quiet for long enough, if it stays quiet; null"
        " in other states, and while something blocks its end."
    )
    due_at: Time | None = Field(description="When its grace is over; null if no action follows.")
    action: Action | None = Field(
        description="What is done then; null for a node that is not READY."
    )
    policy: str = Field(
        description="The policy that applies: `node`, or its scope.", examples=["node"]
    )
    idle_after_seconds: int | None = Field(
        description="Seconds it must be quiet to be idle; null for one that is not READY.",
        examples=[3_600],
    )
    grace_seconds: int | None = Field(
        description="Seconds from the notification to the action.", examples=[900]
    )
    limits: tuple[str, ...] = Field(description="Why less is done than the policy says.")
    held_by: tuple[Holder, ...] = Field(description="What holds its end back.")
    kept_until: Time | None = Field(
        description="The end of its keep; null without a keep, and for a date that cannot be read."
    )
    waiting: WaitingView | None = Field(description="The rail that it waits for.")
    verdict: VerdictView | None
    signals: tuple[SignalView, ...]
    reports: tuple[WorkerReportView, ...] = Field(
        description="The newest report of each worker; all are read again just before an end."
    )
    reports_read_at: Time | None = Field(description="When they were read last.")
    ended: tuple[EndedView, ...] = Field(description="How it was ended for idleness.")

    @classmethod
    def from_node(cls, found: IdleNode, now: int) -> NodeIdleView:
        """The view of what is known of a node."""
        watched, subject = found.watched, found.subject
        rule = None if subject is None else subject.applied.rule
        course = None if watched is None else watched.course
        verdict = None if watched is None else watched.verdict
        place = next(
            (each for each in found.cleanup.waiting if each.node_id == found.node.id), None
        )
        held = () if subject is None or verdict is None else list_holders(subject, verdict, now)
        waste = None if verdict is None else verdict.waste
        if subject is not None:
            subject = replace(subject, applied=with_waste(subject.applied, waste))
        signals = Signals() if watched is None else watched.signals
        keep = subject.keep if subject is not None and is_kept(subject, now) else None
        return cls(
            node_id=found.node.id,
            node_state=found.node.state,
            state="" if course is None else course.state,
            since=None if course is None else to_rfc3339(course.since),
            judged_at=None if watched is None else time_or_none(watched.judged_at or None),
            notified_at=None if course is None else time_or_none(course.notified_at),
            idle_at=None
            if watched is None or subject is None
            else time_or_none(idle_at(watched.course, verdict, subject.applied, watched.judged_at)),
            due_at=None if watched is None else time_or_none(watched.due_at),
            action=None if subject is None else subject.applied.action,
            policy="" if subject is None else subject.applied.source,
            idle_after_seconds=None if rule is None else rule.idle_after_seconds,
            grace_seconds=None if rule is None else rule.grace_seconds,
            limits=() if subject is None else list_limits(subject),
            held_by=tuple(held),
            kept_until=None if keep is None else time_or_none(keep.until),
            waiting=None if place is None else WaitingView.from_waiting(place, found.node.name),
            verdict=None if verdict is None else VerdictView.from_verdict(verdict),
            signals=tuple(SignalView.from_state(signal, now) for signal in found.signals),
            reports=tuple(
                WorkerReportView.from_report(worker, host, now)
                for worker, host in sorted(signals.hosts.items())
            ),
            reports_read_at=time_or_none(signals.asked_at),
            ended=tuple(map(EndedView.from_ended, found.ended)),
        )
