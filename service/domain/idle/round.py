"""One round over a project: the rails that hold, the nodes that end now, and those that wait.
Pure."""

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
    pace_ends,
    share_of,
    update_breaker,
)
from service.domain.idle.signals.signal import DEVICE_KINDS, Level
from service.domain.lifecycle.absence import FleetCensus

BOOT_SECONDS = 120
"""Seconds after READY in which a measurement may be of the boot."""


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """The facts of a project for a round, without its nodes. `held_since` is since when daemons
    have held the lease without a gap, `drift` the seconds by which the agreed clock left the
    monotonic clock since the previous round, `begun` the recent ends by the daemon. `has_read` is
    whether this process has read every metric itself: until then it knows the past from rows, which
    are minutes old. `is_read` is whether each metric that the project has was read within two
    periods. `is_shrunk` is `FleetWatch.is_shrunk`, as the collector of orphans has it."""

    now: int
    held_since: int
    live: int
    census: FleetCensus
    drift: float = 0.0
    begun: Sequence[BegunEnd] = ()
    has_read: bool = True
    is_read: bool = True
    is_shrunk: bool = False


@dataclass(frozen=True, slots=True)
class IdleRound:
    """The decision of a round: the new row of the project, and the nodes whose end begins now, the
    most expensive first. The row has the waiting nodes and their reasons."""

    cleanup: Cleanup
    goes: tuple[AssessedNode, ...]


def decide_round(
    before: Cleanup,
    nodes: Sequence[AssessedNode],
    earlier: Mapping[str, WatchedNode],
    facts: RoundFacts,
    times: IdleTimes,
) -> IdleRound:
    """Return the decision of one round over a project's nodes. `earlier` are the courses after the
    previous round. A due node waits for fresh reports and fresh metrics, and takes no turn of
    another node."""
    now, sights = facts.now, {}
    for assessed in nodes:
        # The first minutes are no work: nodes that were made together become quiet together.
        booted = counts_from(assessed.subject.node, times) - times.warmup + BOOT_SECONDS
        sight = sight_of(assessed.verdict, assessed.watched, booted)
        sights[assessed.watched.course.node_id] = sight
    earlier_sights = _list_earlier_sights(nodes, earlier)
    breaker = update_breaker(before.breaker, earlier_sights, sights, now)
    mass_since = _find_mass_since(before, nodes, earlier_sights, facts)
    cleanup = replace(before, breaker=breaker, mass_since=mass_since)
    holds = tuple(_list_holds(cleanup, facts, times))
    cleanup = replace(cleanup, ticked_at=now, holds=holds)
    due = [assessed for assessed in nodes if assessed.is_due]
    if holds:
        # All due nodes wait for the rail that holds longest, the most expensive node first.
        endless = [held for held in holds if held.until is None]
        last = endless[0] if endless else max(holds, key=lambda held: held.until or 0)
        ordered = sorted(
            (_to_due_node(assessed) for assessed in due),
            key=lambda node: (-(node.hourly or 0), node.node_id),
        )
        waits = [
            Waiting(node.node_id, last.rail, place, last.until)
            for place, node in enumerate(ordered, start=1)
        ]
        return IdleRound(replace(cleanup, waiting=_add_since(waits, before, now)), ())
    line = [_to_due_node(assessed) for assessed in due if assessed.is_fresh and facts.is_read]
    allowed = pace_ends(line, facts.live, facts.begun, now, times.period)
    by_node = {assessed.subject.node.id: assessed for assessed in due}
    goes = tuple(by_node[node_id] for node_id in allowed.goes)
    return IdleRound(replace(cleanup, waiting=_add_since(allowed.waits, before, now)), goes)


def _list_earlier_sights(
    nodes: Sequence[AssessedNode], earlier: Mapping[str, WatchedNode]
) -> Mapping[str, NodeSight]:
    """The sights of the nodes in the previous round. A node that was created again or started since
    has none: its signals are not lost, as they have not begun."""
    found = {}
    for assessed in nodes:
        node, before = assessed.subject.node, earlier.get(assessed.subject.node.id)
        if before is None or before.verdict is None or before.course.incarnation != node.attempt:
            continue
        if before.judged_at >= node.state_since:
            found[node.id] = sight_of(before.verdict)
    return found


def sight_of(
    verdict: IdleVerdict | None, watched: WatchedNode | None = None, since: int = 0
) -> NodeSight:
    """Return how a round sees a node by its verdict, for the breaker. The sight has the end of its
    devices' work after `since`, None without such work."""
    if verdict is None:
        return NodeSight(is_known=False)
    latest = since
    if watched is not None:
        for (_, kind), track in watched.signals.tracks.items():
            at = track.broken_at
            if at is not None and at > latest and kind in DEVICE_KINDS:
                latest = at
    worked_at = latest if latest > since else None
    # In the warm-up there is no proof: the newest points of work may only be late.
    is_proved = (verdict.until or 0) > (verdict.since or 0)
    return NodeSight(_is_known(verdict), worked_at, verdict.level is Level.QUIET and is_proved)


def _to_due_node(assessed: AssessedNode) -> DueNode:
    node = assessed.subject.node
    return DueNode(node.id, share_of(node.id, node.owner, node.team), assessed.subject.hourly)


def _find_mass_since(
    before: Cleanup,
    nodes: Sequence[AssessedNode],
    earlier: Mapping[str, NodeSight],
    facts: RoundFacts,
) -> int | None:
    """The instant since which more than half of the nodes have been candidates; None where they are
    not. A lost signal restarts the hour. A node that was not known since its start does not, or it
    would hold the others for ever."""
    candidates = sum(
        assessed.is_idle and assessed.subject.applied.action.rank >= Action.STOP.rank
        for assessed in nodes
    )
    if not is_mass(candidates, facts.live):
        return None
    is_lost = any(
        not _is_known(assessed.verdict)
        and (previous := earlier.get(assessed.subject.node.id)) is not None
        and previous.is_known
        for assessed in nodes
    )
    return facts.now if is_lost or before.mass_since is None else before.mass_since


def _is_known(verdict: IdleVerdict) -> bool:
    """Whether the node has signals. Reports that show a held device are signals too."""
    return verdict.level is not Level.UNKNOWN or verdict.is_seen


def _list_holds(cleanup: Cleanup, facts: RoundFacts, times: IdleTimes) -> Sequence[RailHold]:
    """Every rail that holds now, with the instant since which it has held."""
    now, found = facts.now, []
    known = {held.rail: held for held in cleanup.holds}

    def add_hold(
        rail: Rail, reason: str, since: int | None = None, until: int | None = None
    ) -> None:
        first = known[rail].since if rail in known else now
        found.append(RailHold(rail, reason, since if since is not None else first, until))

    if cleanup.paused_at is not None:
        add_hold(Rail.PAUSE, f"{cleanup.paused_by}: {cleanup.pause_reason}", cleanup.paused_at)
    started_until = facts.held_since + times.start
    if now < started_until:
        add_hold(Rail.START, "a daemon has just begun to watch", facts.held_since, started_until)
    elif not facts.has_read:
        add_hold(Rail.START, "a daemon has just begun, and has not read every metric yet")
    _hold_for_clock(known.get(Rail.CLOCK), facts, times, found)
    missing, wanted = facts.census.missing, facts.census.wanted
    # The cloud's lists are probably wrong. A mass absence counts our nodes only. A project shrinks
    # by all of its resources, also those of others, so it may shrink without a mass absence.
    if missing >= MISSING_NODES and (facts.census.is_mass_absence or facts.is_shrunk):
        reason = f"{missing} of {wanted} nodes are missing, and no record shows a deletion"
        add_hold(Rail.INVENTORY, reason)
    if cleanup.breaker.is_open:
        breaker = cleanup.breaker
        add_hold(Rail.BREAKER, breaker.reason, breaker.opened_at, breaker.closes_at)
    since = cleanup.mass_since
    if since is not None and now < since + MASS_SECONDS:
        reason = "more than half of the nodes are idle at once; look at the plan, and apply it"
        add_hold(Rail.MASS, reason, since, since + MASS_SECONDS)
    return found


def _hold_for_clock(
    before: RailHold | None, facts: RoundFacts, times: IdleTimes, found: list[RailHold]
) -> None:
    """Add the hold of a clock that jumped, or one that is not over. After a jump the quiet time
    is unknown, so no node ends for the time of a start."""
    if abs(facts.drift) > CLOCK_SECONDS:
        reason = f"the clock jumped by {round(facts.drift)} s"
        found.append(RailHold(Rail.CLOCK, reason, facts.now, facts.now + times.start))
    elif before is not None and before.until is not None and facts.now < before.until:
        found.append(before)


def _add_since(waits: Sequence[Waiting], before: Cleanup, now: int) -> tuple[Waiting, ...]:
    """The waiting nodes with the instants since which they wait, for whichever rail. A node that
    did not wait in the previous round waits since now."""
    known = {
        waiting.node_id: waiting.since if waiting.since is not None else before.ticked_at or now
        for waiting in before.waiting
    }
    return tuple(
        replace(waiting, since=min(now, known.get(waiting.node_id, now))) for waiting in waits
    )
