"""Which hardware to leave alone for a while, by what became of the last attempts to get it. Pure.

The attempts are the stored ones of one project, so that replicas agree and a restart forgets
nothing. The delays are those of reference/faults.md row 14; the windows and the block for quota
follow the one peer that learns (reference/peers.md section 2.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.domain.catalog.zones import region_of
from service.domain.clock import HOUR
from service.domain.nodes.placement import Key, Outcome, Placement

WINDOW_SECONDS = 6 * HOUR
"""How far back an attempt says anything about the next one."""

DEATH_WINDOW_SECONDS = 1_800
SHORT_LIFE_SECONDS = 300
"""A node that is taken away sooner after it came up was never really to be had."""

SHORTAGE_DELAYS = (60, 120, 300, 600, 1_800)
"""Seconds to leave hardware alone that ran out, by how often it did so in a row."""

TROUBLE_DELAYS = (30, 60, 120, 300)
"""The same after errors that say nothing about the hardware."""

QUOTA_SECONDS = 300
DENIED_SECONDS = 900

PROBE_SECONDS = 60
"""How long all others wait for the one that asks first once hardware was left alone: a stock-out
shows within that time, as a rule."""

_TROUBLES = frozenset({Outcome.FAILED, Outcome.NAME_TAKEN})


@dataclass(frozen=True, slots=True)
class Rest:
    """Why hardware is left alone, and until when.

    `place` is the zone or region that the reason holds for, `since` when the last attempt failed.
    `probing` says that the time is over and another node is trying right now. `said` is why in more
    words than the outcome has, as what is said of a place.
    """

    until: int
    since: int
    place: str
    outcome: Outcome
    probing: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    """Failures that say the same, the attempts they speak of, and how long to wait after them.

    `counted` are those that make the wait longer, the failures where it is None. All wait for
    `delays`, unless one may probe `at_once`; and then for the one that probes first, unless each
    goes by itself, without a `probe`.
    """

    place: str
    failures: Sequence[Placement]
    attempts: Sequence[Placement]
    delays: Sequence[int]
    counted: Sequence[Placement] | None = None
    at_once: bool = False
    probe: bool = True

    def rest(self, now: int) -> Rest | None:
        """None when there is no reason to wait."""
        if not self.failures:
            return None
        last = max(self.failures, key=lambda one: (_ended(one, now), one.outcome))
        since = _ended(last, now)
        steps = _in_a_row(self.failures if self.counted is None else self.counted, now)
        until = since + self.delays[min(steps, len(self.delays)) - 1]
        if now < until and not self.at_once:
            return Rest(until, since, self.place, last.outcome)
        if not self.probe or (self.at_once and now >= until):
            return None
        probes = [one.started_at for one in self.attempts if _is_probe(one, since, now)]
        if not probes:
            return None
        end = min(max(probes), now) + PROBE_SECONDS
        end = min(end, until) if self.at_once else end
        return Rest(end, since, self.place, last.outcome, probing=True)


def rests(
    keys: Iterable[Key], history: Iterable[Placement], now: int, node_id: str = ""
) -> Mapping[Key, Rest]:
    """What that node is to leave alone of these keys; of no node in particular, what one leaves
    alone that was never tried. The order of the history does not matter."""
    of_key: defaultdict[Key, list[Placement]] = defaultdict(list)
    of_place: defaultdict[tuple[str, str, str], list[Placement]] = defaultdict(list)
    of_zone: defaultdict[tuple[str, str], list[Placement]] = defaultdict(list)
    for one in history:
        of_key[one.key].append(one)
        of_zone[one.zone, one.model].append(one)
        for place in (one.zone, region_of(one.zone)):
            of_place[place, one.generation, one.model].append(one)
    found: dict[Key, Rest] = {}
    for key in dict.fromkeys(keys):
        places = (key.zone, region_of(key.zone))
        blocks = (
            *_of_hardware(key, of_key[key], now, node_id),
            *(_of_quota(at, of_place[at, key.generation, key.model], now) for at in places),
            _of_rights(key.zone, of_zone[key.zone, key.model], now),
        )
        waiting = [rest for block in blocks if (rest := block.rest(now)) is not None]
        if waiting:
            found[key] = max(waiting, key=lambda rest: (rest.until, rest.since, rest.place))
    return found


def _of_hardware(
    key: Key, attempts: Sequence[Placement], now: int, node_id: str
) -> tuple[_Block, ...]:
    """Failures that no longer count once a node came up there: the hardware ran out, it was taken
    back at once, or the reason is unknown.

    A node whose hardware was taken back at once leaves it alone for a while, and then tries it by
    itself. Meanwhile one other node may try it, and the rest wait for that one. So ten nodes that
    were taken back together do not block each other.
    """
    lived = [one.ready_at for one in attempts if one.ready_at is not None and not died_young(one)]
    came_up = max(lived, default=-1)
    failed = [one for one in attempts if _ended(one, now) > came_up and one.ended_at is not None]
    recent = [one for one in failed if _is_recent(one, now)]
    short = [one for one in recent if _is_shortage(one)]
    stock_outs = [one for one in short if not died_young(one)]
    own = [one for one in short if died_young(one) and one.node_id == node_id]
    others = [one for one in short if died_young(one) and one.node_id != node_id]
    unknown = [one for one in recent if one.outcome in _TROUBLES]
    return (
        _Block(key.zone, stock_outs, attempts, SHORTAGE_DELAYS, short),
        _Block(key.zone, own, attempts, SHORTAGE_DELAYS, short, probe=False),
        _Block(key.zone, others, attempts, SHORTAGE_DELAYS, short, at_once=True),
        _Block(key.zone, unknown, attempts, TROUBLE_DELAYS),
    )


def _of_quota(place: str, attempts: Sequence[Placement], now: int) -> _Block:
    """A quota is one of a generation and model, in a zone or in its whole region."""
    refused = [one for one in attempts if one.outcome is Outcome.QUOTA]
    meant = [one for one in refused if (one.scope or one.zone) == place]
    return _Block(place, _standing(meant, attempts, now), attempts, (QUOTA_SECONDS,))


def _of_rights(zone: str, attempts: Sequence[Placement], now: int) -> _Block:
    denied = [one for one in attempts if one.outcome is Outcome.DENIED]
    return _Block(zone, _standing(denied, attempts, now), attempts, (DENIED_SECONDS,))


def _standing(
    refusals: Sequence[Placement], attempts: Sequence[Placement], now: int
) -> Sequence[Placement]:
    """The refusals that still say something: no attempt that began after them has come up."""
    if not refusals:
        return ()
    granted = max((one.started_at for one in attempts if one.ready_at is not None), default=-1)
    return [one for one in refusals if _is_recent(one, now) and _ended(one, now) >= granted]


def _in_a_row(failures: Sequence[Placement], now: int) -> int:
    """How often it failed; attempts that were under way at the same time say it only once."""
    count, first_end = 0, -1
    for began, ended in sorted((one.started_at, _ended(one, now)) for one in failures):
        if began > first_end:
            count, first_end = count + 1, ended
        else:
            first_end = min(first_end, ended)
    return count


def _is_shortage(one: Placement) -> bool:
    return one.outcome is Outcome.STOCK_OUT or died_young(one)


def died_young(one: Placement) -> bool:
    """Whether it was taken away before it was of any use."""
    if one.outcome is not Outcome.PREEMPTED or one.ended_at is None:
        return False
    return one.ready_at is None or one.ended_at - one.ready_at < SHORT_LIFE_SECONDS


def _is_recent(one: Placement, now: int) -> bool:
    window = DEATH_WINDOW_SECONDS if one.outcome is Outcome.PREEMPTED else WINDOW_SECONDS
    return one.ended_at is not None and one.ended_at > now - window


def _is_probe(one: Placement, since: int, now: int) -> bool:
    undecided = one.outcome is Outcome.OPEN and one.ready_at is None
    return undecided and one.started_at >= since and now - one.started_at < PROBE_SECONDS


def _ended(one: Placement, now: int) -> int:
    """When it ended. Another replica's clock may be ahead: nothing ends later than now."""
    return now if one.ended_at is None else min(one.ended_at, now)
