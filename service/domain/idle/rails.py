"""The rails: how many nodes the daemon may end by itself, and when it must end none. Pure.

They limit the daemon only; a person's apply or DELETE is not limited. All rails are for one
project, whose lease one daemon holds at a time. They are kept in rows, so they survive a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from service.domain.clock import HOUR

PER_TICK = 3
TICK_PERCENT = 10
PER_HOUR = 3
HOUR_PERCENT = 25
SAME_TICK_PERCENT = 75
"""The share of the time between two ticks in which an end counts as begun in this tick, by the
daemon before a takeover. Less than the whole, as a tick may come some seconds early."""
MASS_NODES = 5
MASS_SECONDS = HOUR
BREAKER_NODES = 5
BREAKER_PERCENT = 30
BREAKER_SECONDS = 600
CLOSING_SECONDS = 900
CLOSING_PERCENT = 90
LOST_SECONDS = 2 * HOUR
"""Nodes that are unknown for this long do not keep the breaker open, unless they are enough to open
one."""
CLOSED_BY_ITSELF = (
    f"{CLOSING_PERCENT} % of the nodes had fresh signals for {CLOSING_SECONDS // 60} min"
)
MISSING_NODES = 3
CLOCK_SECONDS = 60


class Rail(StrEnum):
    """What holds a node back."""

    PAUSE = "pause"
    START = "start"
    CLOCK = "clock"
    INVENTORY = "inventory"
    BREAKER = "breaker"
    MASS = "mass"
    TICK = "tick"
    OWNER = "owner"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class DueNode:
    """A node whose end is due. `share` names the quota that the deletion counts against:
    `owner:`, `team:` or `node:` and a name; `hourly` is in nano-dollars, None where the price is
    unknown."""

    node_id: str
    share: str
    hourly: int | None


class BegunEnd(NamedTuple):
    """When the daemon began to end a node, and whose turn the end took."""

    at: int
    share: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A node that a rail holds back: its place in the line from 1 on, and the earliest end of the
    wait; None where it is unknown. `since` is the first round of an unbroken series of rounds in
    which any rail held the node; None in rows of an earlier version."""

    node_id: str
    rail: Rail
    place: int
    until: int | None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class RailDecision:
    """The nodes that end now, and the nodes that wait."""

    goes: tuple[str, ...]
    waits: tuple[Waiting, ...]


def share_of(node_id: str, owner: str, team: str) -> str:
    """Return whose turn the end of a node takes under the rails. It is the owner's, else the
    team's, else the node's own."""
    if owner:
        return f"owner:{owner}"
    return f"team:{team}" if team else f"node:{node_id}"


def pace_ends(
    due: Sequence[DueNode], live: int, begun: Sequence[BegunEnd], now: int, period: int
) -> RailDecision:
    """Return the nodes that the rails let end in this tick, the most expensive first. `begun` are
    the ends that this or an earlier daemon began; `period` is the time between two ticks.

    A tick ends at most three nodes and a tenth of the fleet, one node of each owner. An hour ends
    at most three nodes, or a quarter of the fleet if that is more. After a takeover the daemon
    continues the tick of the previous daemon. Each waiting node gets the earliest time of its turn.
    """
    line = sorted(due, key=lambda node: (-(node.hourly or 0), node.node_id))
    # an instant that is later than now: the clock was set back
    recent = sorted(end.at for end in begun if abs(now - end.at) < HOUR)
    just = [end for end in begun if 100 * abs(now - end.at) <= SAME_TICK_PERCENT * period]
    hour = max(PER_HOUR, live * HOUR_PERCENT // 100)
    tick = min(PER_TICK, max(1, live * TICK_PERCENT // 100))
    goes: list[str] = []
    waits: list[Waiting] = []
    shares = {end.share for end in just}
    for node in line:
        rail = None
        if len(recent) + len(goes) >= hour:
            rail = Rail.HOUR
        elif len(just) + len(goes) >= tick:
            rail = Rail.TICK
        elif node.share in shares:
            rail = Rail.OWNER
        if rail is None:
            goes.append(node.node_id)
            shares.add(node.share)
            continue
        before = sum(waiting.rail is rail for waiting in waits)
        until = now + period
        if rail is Rail.TICK:
            until += period * (before // tick)
        elif rail is Rail.HOUR:
            rounds, turn = divmod(before, hour)
            freed = [*recent, *(now for _ in goes)][len(recent) + len(goes) - hour + turn]
            until = freed + HOUR * (1 + rounds)
        waits.append(Waiting(node.node_id, rail, len(waits) + 1, until))
    return RailDecision(tuple(goes), tuple(waits))


def is_mass(candidates: int, live: int) -> bool:
    """Whether the rail against a mass of ends holds. It holds where more than half of the nodes,
    and more than five, would end at once: an error is more likely than an unused fleet."""
    return candidates > MASS_NODES and 2 * candidates > live


class NodeSight(NamedTuple):
    """One node in one assessment: whether its level is known, and the end of its latest work (a
    whole UTC second; None for never)."""

    is_known: bool
    active_until: int | None = None
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker of a project: `lost` are the instants at which known nodes became unknown,
    `opened_at` is when it opened, and `fresh_since` the instant since which nine in ten of the
    nodes that were ever known are known again.

    `closed_at` is when it last closed, with the reason and the person; `closed_by` is empty if it
    closed by itself. All three are kept until it opens again. `seen` are the nodes that were lost
    when a person closed it: their loss does not count until they are known again.
    """

    lost: tuple[tuple[str, int], ...] = ()
    opened_at: int | None = None
    reason: str = ""
    fresh_since: int | None = None
    closed_at: int | None = None
    closed_by: str = ""
    closed_reason: str = ""
    seen: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether no node may be ended."""
        return self.opened_at is not None

    @property
    def closes_at(self) -> int | None:
        """When the breaker closes if no further node is lost; None while too many are unknown."""
        return None if self.fresh_since is None else self.fresh_since + CLOSING_SECONDS

    def close_by_hand(self, now: int, actor: str, reason: str) -> Breaker:
        """Return the closed breaker. A person has seen the lost nodes: only further losses open the
        breaker again."""
        seen = tuple(sorted({*self.seen, *(node for node, _ in self.lost)}))
        return Breaker(closed_at=now, closed_by=actor, closed_reason=reason, seen=seen)


def update_breaker(
    breaker: Breaker, before: Mapping[str, NodeSight], after: Mapping[str, NodeSight], now: int
) -> Breaker:
    """Return the breaker, which is a rail, after an assessment of all nodes of a project.

    It opens when more than three in ten of the known nodes became unknown within ten minutes, or
    went from work to rest at one instant: a sign of a monitoring outage. It closes after fifteen
    minutes in which nine in ten are known. Of fewer than ten nodes, one may be unknown, or a node
    with gaps would keep the breaker open for hours. Nodes that were never known do not count, or
    they would keep it open for ever. Neither do nodes whose loss a person has seen.
    """
    known = [node for node, sight in before.items() if sight.is_known and node in after]
    seen = {node for node in breaker.seen if node in after and not after[node].is_known}
    lost = {node: at for node, at in breaker.lost if node in after}
    for node in known:
        if not after[node].is_known and node not in seen:
            lost.setdefault(node, now)
    lost = {node: at for node, at in lost.items() if not after[node].is_known}
    recent = {node: at for node, at in lost.items() if now - at < BREAKER_SECONDS}
    kept = lost if breaker.is_open else recent
    breaker = replace(breaker, lost=tuple(sorted(kept.items())), seen=tuple(sorted(seen)))
    reason = _find_reason_to_open(known, recent, before, after)
    if reason:
        opened_at = breaker.opened_at if breaker.opened_at is not None else now
        return Breaker(breaker.lost, opened_at, reason, seen=breaker.seen)
    if not breaker.is_open:
        return breaker
    # Nodes that are lost for hours do not count, unless they are enough to open a breaker.
    known_now = sum(sight.is_known for sight in after.values())
    lost_lately = sum(now - at < LOST_SECONDS for at in lost.values())
    share = CLOSING_PERCENT * (known_now + lost_lately)
    is_enough = lost_lately <= 1 or 100 * known_now >= share
    is_fresh = is_enough and 100 * len(lost) <= BREAKER_PERCENT * (known_now + len(lost))
    since = (breaker.fresh_since if breaker.fresh_since is not None else now) if is_fresh else None
    if since is None or now - since < CLOSING_SECONDS:
        return replace(breaker, fresh_since=since)
    still = tuple(sorted(recent.items()))
    return Breaker(still, closed_at=now, closed_reason=CLOSED_BY_ITSELF, seen=breaker.seen)


def _find_reason_to_open(
    known: Sequence[str],
    recent: Mapping[str, int],
    before: Mapping[str, NodeSight],
    after: Mapping[str, NodeSight],
) -> str:
    """Why the breaker opens now, empty if it does not. `known` are the nodes that were known before
    this assessment, `recent` the nodes that were lost within ten minutes."""
    enough = sum(sight.is_known for sight in after.values()) + len(recent)
    reason = ""
    if enough >= BREAKER_NODES and 100 * len(recent) > BREAKER_PERCENT * enough:
        minutes = BREAKER_SECONDS // 60
        reason = f"{len(recent)} of {enough} nodes became unknown within {minutes} min"
    rested_at = Counter(  # nodes by the instant of telemetry at which they went from work to rest
        sight.active_until
        for node, sight in after.items()
        if sight.is_quiet
        and sight.active_until is not None
        and (was := before.get(node)) is not None
        and was.is_known
        and not was.is_quiet
    )
    fell = max(rested_at.values(), default=0)
    if len(known) >= BREAKER_NODES and 100 * fell > BREAKER_PERCENT * len(known):
        reason = f"{fell} of {len(known)} nodes became idle in the same second"
    return reason
