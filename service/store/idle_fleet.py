"""The READY nodes of a project with everything that decides whether they are idle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.domain.clock import HOUR
from service.domain.idle.assess import IdleSubject, signals_of
from service.domain.idle.cleanup import DAEMON, Cleanup, WatchedNode
from service.domain.idle.policy import MAX_SECONDS, Action, AppliedRule, Policy, apply_policies
from service.domain.idle.progress import activity_of
from service.domain.idle.proof import CRASHES, JobActivity
from service.domain.idle.rails import BegunEnd
from service.domain.idle.signals.heartbeat import Heartbeat
from service.domain.lifecycle.absence import FleetCensus
from service.domain.nodes.keep import keep_of_node
from service.domain.nodes.node import Asked, IdlePolicy, Node, NodeState
from service.domain.nodes.stop_rules import stop_obstacles
from service.domain.notifications.node_messages import recipients_of
from service.domain.notifications.notification import About
from service.domain.pricing.burn import BilledUnits, burn_of
from service.domain.pricing.price_book import PriceBook, Sku
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit


@dataclass(frozen=True, slots=True)
class IdleFleet:
    """The READY nodes of a project with everything that decides about their end, as one reading
    unit found them."""

    cleanup: Cleanup
    subjects: tuple[IdleSubject, ...]
    courses: Mapping[str, WatchedNode]
    census: FleetCensus
    held_since: int
    begun: tuple[BegunEnd, ...]


@dataclass(frozen=True, slots=True)
class _Around:
    """What is read once for all nodes of a project."""

    policies: Mapping[str, Policy]
    courses: Mapping[str, WatchedNode]
    activities: Mapping[str, JobActivity]
    waiting: Mapping[str, str]
    beats: Mapping[str, Heartbeat]
    rates: Mapping[str, int | None]
    untried: Collection[tuple[str, int]]
    ceiling: Action
    rules: dict[tuple[IdlePolicy | None, str, tuple[str, ...]], AppliedRule] = field(
        default_factory=dict
    )
    """What holds for nodes that say the same, belong to the same team, and can or cannot be
    stopped. A fleet has few of them."""

    def find_rule(self, node: Node) -> AppliedRule:
        """The rule that holds for a node of the project."""
        spec = node.spec
        place = spec.idle, node.team, stop_obstacles(spec)
        found = self.rules.get(place)
        if found is None:
            found = self.rules[place] = apply_policies(spec, node.team, self.policies, self.ceiling)
        return found


@dataclass(frozen=True, slots=True)
class KnownFleet:
    """Nodes and courses by node id, as the caller has read or written them: entries whose version
    is still the stored one are used instead of a read. A course may be ahead of its row by newer
    measurements, never by a decision."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    courses: Mapping[str, WatchedNode] = field(default_factory=dict)


def read_fleet(
    unit: Unit,
    project: str,
    prices: PriceBookCache,
    ceiling: Action,
    now: int,
    known: KnownFleet = KnownFleet(),
) -> IdleFleet:
    """Everything that a round over a project decides from, except for new measurements."""
    stored = unit.idle_courses.find_by_project(project, known.courses)
    courses: dict[str, WatchedNode] = {}
    for node_id, watched in stored.items():
        courses[node_id] = watched
        newest = known.courses.get(node_id)
        if newest is None or newest is watched:
            continue
        if newest.course.incarnation == watched.course.incarnation:
            courses[node_id] = replace(watched, signals=newest.signals)
    around = _read_around(unit, project, courses, prices, ceiling, now)
    ready = unit.nodes.list_ready(project, known.nodes)
    return IdleFleet(
        cleanup=unit.cleanups.get(project),
        subjects=tuple(_build_subject(node, around) for node in ready),
        courses=courses,
        census=unit.nodes.read_census(project),
        held_since=unit.leases.held_since(project),
        begun=tuple(unit.cleanups.list_begun(project, DAEMON, now - HOUR)),
    )


def read_subject(
    unit: Unit, node: Node, prices: PriceBookCache, ceiling: Action, now: int
) -> IdleSubject | None:
    """The subject of one node, as in `read_fleet`; None unless the node is READY and is to stay."""
    if node.state != NodeState.READY or node.asked is not Asked.PRESENT:
        return None
    watched = unit.idle_courses.find_by_node(node.id)
    courses = {} if watched is None else {node.id: watched}
    return _build_subject(
        node, _read_around(unit, node.spec.project, courses, prices, ceiling, now)
    )


def _read_around(
    unit: Unit,
    project: str,
    courses: Mapping[str, WatchedNode],
    prices: PriceBookCache,
    ceiling: Action,
    now: int,
) -> _Around:
    claims = unit.jobs.find_claims(project)
    between = unit.jobs.list_between_attempts(project, CRASHES)
    failing = [job.id for job, _ in claims.values() if job.failures >= CRASHES]
    attempts = unit.jobs.list_attempts_of([*failing, *(job.id for job in between)])
    activities: dict[str, JobActivity] = {}
    # A job in a crash loop waits on its node for the next attempt. Without its activity each pause
    # of the loop would end the rest of the node, and the grace would begin again.
    for job in between:
        on_node = [
            attempt for attempt in attempts.get(job.id, ()) if attempt.node_id == job.node_id
        ]
        if on_node:
            latest = max(on_node, key=lambda attempt: attempt.number)
            looping = activity_of(job, latest, now, on_node)
            if looping.failures >= CRASHES:
                activities[job.node_id] = looping
    for node_id, (job, attempt) in claims.items():
        activities[node_id] = activity_of(job, attempt, now, attempts.get(job.id, ()))
    waiting = dict(unit.jobs.find_waiting(project))
    for node_id, job_id in list(waiting.items()):
        activity = activities.get(node_id)
        if activity is not None and activity.job_id == job_id:  # the node's own job
            waiting[node_id] = unit.jobs.find_waiting_for(node_id, besides=job_id)
    return _Around(
        unit.idle_policies.find_all(),
        courses,
        activities,
        waiting,
        unit.heartbeats.find_holding(now - MAX_SECONDS),
        read_rates(unit, project, prices.get_book(unit), now),
        unit.notifications.list_untried(About.NODE),
        ceiling,
    )


def read_rates(unit: Unit, project: str, book: PriceBook, now: int) -> Mapping[str, int | None]:
    """Nano-dollars an hour of each node that is billed, with the machine that drives it; None if a
    price is unknown."""
    return sum_rates(unit.usage.find_open_in(project), book, now)


def sum_rates(
    billed: Mapping[tuple[Sku, int], Sequence[str]], book: PriceBook, now: int
) -> Mapping[str, int | None]:
    """Nano-dollars an hour of each node in these groups; None if a price is unknown."""
    rates: dict[str, int | None] = {}
    for (sku, units), ids in billed.items():
        rate = burn_of([BilledUnits(sku, units)], book, now)
        for node_id in ids:
            before = rates.get(node_id, 0)
            rates[node_id] = None if rate is None or before is None else before + rate
    return rates


def _build_subject(node: Node, around: _Around) -> IdleSubject:
    watched, beat = around.courses.get(node.id), around.beats.get(node.id)
    holds = around.find_rule(node)
    return IdleSubject(
        node=node,
        applied=holds,
        watched=watched,
        signals=signals_of(node, watched),
        keep=keep_of_node(node),
        heartbeat_until=beat.until if beat is not None and beat.incarnation == node.attempt else 0,
        job=around.activities.get(node.id),
        queued_job=around.waiting.get(node.id, ""),
        hourly=around.rates.get(node.id),
        can_tell=bool(recipients_of(holds, node.owner)),
        is_untried=watched is not None and (node.id, watched.course.notified_at) in around.untried,
    )
