"""One round over a project: the rails that hold, who is ended now, and who waits. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.domain.idle.assess import AssessedNode, IdleTimes, counts_from
from service.domain.idle.cleanup import Cleanup, RailHold, WatchedNode
from service.domain.idle.policy import Action
from service.domain.idle.proof import IdleVerdict
from service.domain.idle.rails import (
    CLOCK_SECONDS,
    MASS_SECONDS,
    MISSING_NODES,
    BegunEnd,
    DueNode,
    NodeSight,
    Rail,
    Waiting,
    is_mass,
    looked,
    paced,
    share_of,
)
from service.domain.idle.signal import DEVICE_KINDS, Level
from service.domain.lifecycle.absence import FleetCensus

BOOT_SECONDS = 120
"""After READY: for so long a point may be of the boot."""


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """What a round knows of its project besides the nodes. `held_since` is since when daemons have
    held its lease without a gap, `drift` by how many seconds the agreed clock left the monotonic
    one since the round before, `begun` whom the daemon began to end lately. `has_read` is
    whether this process has read every metric itself: until then it knows the past from rows, which
    are minutes old. `is_read` is whether each metric that the project has was read within two
    periods."""

    now: int
    held_since: int
    live: int
    census: FleetCensus
    drift: float = 0.0
    begun: Sequence[BegunEnd] = ()
    has_read: bool = True
    is_read: bool = True


@dataclass(frozen=True, slots=True)
class IdleRound:
    """What a round decides: the new row of the project, and the nodes whose end begins now, the
    dearest first. What waits, and why, is in the row."""

    cleanup: Cleanup
    goes: tuple[AssessedNode, ...]


def decide(
    before: Cleanup,
    nodes: Sequence[AssessedNode],
    earlier: Mapping[str, WatchedNode],
    facts: RoundFacts,
    times: IdleTimes,
) -> IdleRound:
    """Who is ended now. `earlier` are the courses as the round before left them. What is due and
    is not freshly seen waits until it is, and takes nobody's turn."""
    now = facts.now
    breaker = looked(
        before.breaker,
        _before(nodes, earlier),
        {one.watched.course.node_id: _sight(one, times) for one in nodes},
        now,
    )
    cleanup = replace(
        before, breaker=breaker, mass_since=_mass_since(before, nodes, earlier, facts)
    )
    holds = tuple(_holds(cleanup, facts, times))
    cleanup = replace(cleanup, ticked_at=now, holds=holds)
    due = [one for one in nodes if one.is_due]
    line = [_due(one) for one in due]
    if holds:
        waits = _held_line(line, holds)
        return IdleRound(replace(cleanup, waiting=waits), ())
    line = [_due(one) for one in due if _is_fresh(one, facts)]
    allowed = paced(line, facts.live, facts.begun, now, times.period)
    by_node = {one.subject.node.id: one for one in due}
    goes = tuple(by_node[node_id] for node_id in allowed.goes)
    return IdleRound(replace(cleanup, waiting=allowed.waits), goes)


def _is_fresh(one: AssessedNode, facts: RoundFacts) -> bool:
    """Whether what shows a node was read just now: its reports, and Monitoring too where not every
    worker reports, as without a supervisor."""
    subject = one.subject
    is_reported = len(subject.signals.hosts) >= subject.node.spec.hosts
    return one.is_fresh and (is_reported or facts.is_read)


def _before(
    nodes: Sequence[AssessedNode], earlier: Mapping[str, WatchedNode]
) -> Mapping[str, NodeSight]:
    """What the round before showed of the nodes as they are now. One that was made again or started
    since has not gone dark: nobody has seen it yet."""
    found = {}
    for one in nodes:
        node, before = one.subject.node, earlier.get(one.subject.node.id)
        if before is None or before.verdict is None or before.course.incarnation != node.attempt:
            continue
        if before.judged_at >= node.state_since:
            found[node.id] = sight_of(before.verdict)
    return found


def _sight(one: AssessedNode, times: IdleTimes) -> NodeSight:
    """What a look showed of a node. Its first minutes are no work: nodes that were made together
    come to rest together."""
    booted = counts_from(one.subject.node, times) - times.warmup + BOOT_SECONDS
    return sight_of(one.verdict, one.watched, booted)


def sight_of(
    verdict: IdleVerdict | None, watched: WatchedNode | None = None, since: int = 0
) -> NodeSight:
    """What a verdict showed of a node, for the breaker: its work from `since` on."""
    if verdict is None:
        return NodeSight(is_known=False)
    worked_at = None if watched is None else _worked_at(watched, since)
    return NodeSight(_is_known(verdict), worked_at, verdict.level is Level.QUIET)


def _worked_at(watched: WatchedNode, since: int) -> int | None:
    """Until when a device of a node was at work after `since`; None for never."""
    latest = since
    for (_, kind), track in watched.signals.tracks.items():
        at = track.broken_at
        if at is not None and at > latest and kind in DEVICE_KINDS:
            latest = at
    return latest if latest > since else None


def _due(one: AssessedNode) -> DueNode:
    node = one.subject.node
    return DueNode(node.id, share_of(node.id, node.owner, node.team), one.subject.hourly)


def _mass_since(
    before: Cleanup,
    nodes: Sequence[AssessedNode],
    earlier: Mapping[str, WatchedNode],
    facts: RoundFacts,
) -> int | None:
    """Since when more than half of the nodes are candidates, with every signal fresh; None where
    they are not. A signal that is lost begins the hour anew; a node that was never known does not,
    or it alone would hold the others for ever."""
    candidates = sum(
        one.is_idle and one.subject.applied.action.rank >= Action.STOP.rank for one in nodes
    )
    if not is_mass(candidates, facts.live):
        return None
    is_lost = any(
        not _is_known(one.verdict) and _was_known(earlier.get(one.subject.node.id)) for one in nodes
    )
    return facts.now if is_lost or before.mass_since is None else before.mass_since


def _was_known(watched: WatchedNode | None) -> bool:
    return watched is not None and watched.verdict is not None and _is_known(watched.verdict)


def _is_known(verdict: IdleVerdict) -> bool:
    """Whether its signals come: a node whose reports show a device that is held is not dark."""
    return verdict.level is not Level.UNKNOWN or verdict.is_seen


def _holds(cleanup: Cleanup, facts: RoundFacts, times: IdleTimes) -> Sequence[RailHold]:
    """Every rail that holds now, with since when: as long as it holds, that stays."""
    now, found = facts.now, []
    known = {one.rail: one for one in cleanup.holds}

    def hold(rail: Rail, reason: str, since: int | None = None, until: int | None = None) -> None:
        first = known[rail].since if rail in known else now
        found.append(RailHold(rail, reason, since if since is not None else first, until))

    if cleanup.paused_at is not None:
        hold(Rail.PAUSE, f"{cleanup.paused_by}: {cleanup.pause_reason}", cleanup.paused_at)
    started_until = facts.held_since + times.start
    if now < started_until:
        hold(Rail.START, "a daemon has just begun to watch", facts.held_since, started_until)
    elif not facts.has_read:
        hold(Rail.START, "a daemon has just begun, and has not read every metric yet")
    _hold_for_clock(known.get(Rail.CLOCK), facts, times, found)
    missing = facts.census.missing
    if facts.census.too_many and missing >= MISSING_NODES:
        reason = (
            f"{missing} of {facts.census.wanted} nodes are missing, and no record shows a deletion"
        )
        hold(Rail.INVENTORY, reason)
    if cleanup.breaker.is_open:
        breaker = cleanup.breaker
        hold(Rail.BREAKER, breaker.reason, breaker.opened_at, breaker.closes_at)
    since = cleanup.mass_since
    if since is not None and now < since + MASS_SECONDS:
        reason = "more than half of the nodes are idle at once; look at the plan, and apply it"
        hold(Rail.MASS, reason, since, since + MASS_SECONDS)
    return found


def _hold_for_clock(
    before: RailHold | None, facts: RoundFacts, times: IdleTimes, found: list[RailHold]
) -> None:
    """A clock that jumped says nothing of how long a node was at rest: nothing is ended until the
    time for a start has gone by since."""
    if abs(facts.drift) > CLOCK_SECONDS:
        reason = f"the clock jumped by {round(facts.drift)} s"
        found.append(RailHold(Rail.CLOCK, reason, facts.now, facts.now + times.start))
    elif before is not None and before.until is not None and facts.now < before.until:
        found.append(before)


def _held_line(line: Sequence[DueNode], holds: Sequence[RailHold]) -> tuple[Waiting, ...]:
    """All that is due waits for the rail that holds longest, the dearest first."""
    unknown = [one for one in holds if one.until is None]
    last = unknown[0] if unknown else max(holds, key=lambda one: one.until or 0)
    ordered = sorted(line, key=lambda one: (-(one.hourly or 0), one.node_id))
    return tuple(
        Waiting(one.node_id, last.rail, place, last.until)
        for place, one in enumerate(ordered, start=1)
    )
