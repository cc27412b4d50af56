"""Cooldowns of hardware after failed attempts to create a node with it. Pure.

The attempts are the stored ones of a project, so replicas agree and a restart forgets nothing. The
delays are those of reference/faults.md row 14; the windows and the block for quota
follow the one peer that learns (reference/peers.md section 2.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.domain.catalog.zones import region_of
from service.domain.clock import HOUR, MINUTE
from service.domain.nodes.placement import HardwareKey, Outcome, Placement

WINDOW_SECONDS = 6 * HOUR
"""Older attempts do not count."""

DEATH_WINDOW_SECONDS = 1_800
SHORT_LIFE_SECONDS = 300
"""A node that is preempted sooner after READY counts as a stockout."""

SHORTAGE_DELAYS = (60, 120, 300, 600, 1_800)
"""Cooldown in seconds after a stockout, by the number of stockouts in a row."""

TROUBLE_DELAYS = (30, 60, 120, 300)
"""Cooldown in seconds after errors that say nothing about the hardware."""

QUOTA_SECONDS = 300
DENIED_SECONDS = 900

PROBE_SECONDS = 60
"""After a cooldown one node probes, and all others wait for it so long. A stockout usually shows
within that time."""

_TROUBLES = frozenset({Outcome.FAILED, Outcome.NAME_TAKEN})


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Hardware is not tried until `until`; instants are whole UTC seconds.

    `place` is the zone or region that the reason holds for, `since` when the last attempt failed.
    `probing` says that the time is over and another node is probing. `said` is a longer reason than
    `outcome`, as the end of a clause about the place.
    """

    until: int
    since: int
    place: str
    outcome: Outcome
    probing: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    """Failures for one reason, all attempts on the same hardware, and the delays after failures.

    `counted` are the failures that lengthen the delay (None: `failures`). Nodes wait for the delay,
    or with `at_once` not at all; then they wait for the first that probes, unless `probe` is False.
    """

    place: str
    failures: Sequence[Placement]
    attempts: Sequence[Placement]
    delays: Sequence[int]
    counted: Sequence[Placement] | None = None
    at_once: bool = False
    probe: bool = True

    def find_cooldown(self, now: int) -> Cooldown | None:
        """The cooldown at `now`; None if there is none."""
        if not self.failures:
            return None
        last = max(self.failures, key=lambda attempt: (_end_of(attempt, now), attempt.outcome))
        since = _end_of(last, now)
        # Attempts that were under way at the same time count once.
        counted = self.failures if self.counted is None else self.counted
        steps, first_end = 0, -1
        for began, ended in sorted((each.started_at, _end_of(each, now)) for each in counted):
            if began > first_end:
                steps, first_end = steps + 1, ended
            else:
                first_end = min(first_end, ended)
        until = since + self.delays[min(steps, len(self.delays)) - 1]
        if now < until and not self.at_once:
            return Cooldown(until, since, self.place, last.outcome)
        if not self.probe or (self.at_once and now >= until):
            return None
        probes = [
            attempt.started_at
            for attempt in self.attempts
            if attempt.outcome is Outcome.OPEN
            and attempt.ready_at is None
            and attempt.started_at >= since
            and now - attempt.started_at < PROBE_SECONDS
        ]
        if not probes:
            return None
        end = min(max(probes), now) + PROBE_SECONDS
        end = min(end, until) if self.at_once else end
        return Cooldown(end, since, self.place, last.outcome, probing=True)


def find_cooldowns(
    keys: Iterable[HardwareKey], history: Iterable[Placement], now: int, node_id: str = ""
) -> Mapping[HardwareKey, Cooldown]:
    """The cooldowns of these keys for a node, or for a new node if `node_id` is empty.

    Keys without a cooldown are left out. The order of the history does not matter.
    """
    of_key: defaultdict[HardwareKey, list[Placement]] = defaultdict(list)
    of_place: defaultdict[tuple[str, str, str], list[Placement]] = defaultdict(list)
    of_zone: defaultdict[tuple[str, str], list[Placement]] = defaultdict(list)
    for attempt in history:
        of_key[attempt.key].append(attempt)
        of_zone[attempt.zone, attempt.model].append(attempt)
        for place in (attempt.zone, region_of(attempt.zone)):
            of_place[place, attempt.generation, attempt.model].append(attempt)
    found: dict[HardwareKey, Cooldown] = {}
    for key in dict.fromkeys(keys):
        in_zone = of_zone[key.zone, key.model]
        denied = [attempt for attempt in in_zone if attempt.outcome is Outcome.DENIED]
        standing = _find_standing(denied, in_zone, now)
        blocks = [*_hardware_blocks(key, of_key[key], now, node_id)]
        # A quota belongs to a generation and provisioning model, in a zone or in its whole region.
        for place in (key.zone, region_of(key.zone)):
            there = of_place[place, key.generation, key.model]
            refused = [attempt for attempt in there if attempt.outcome is Outcome.QUOTA]
            meant = [attempt for attempt in refused if (attempt.scope or attempt.zone) == place]
            held = _find_standing(meant, there, now)
            blocks.append(_Block(place, held, there, (QUOTA_SECONDS,)))
        blocks.append(_Block(key.zone, standing, in_zone, (DENIED_SECONDS,)))
        waiting = [rest for block in blocks if (rest := block.find_cooldown(now)) is not None]
        if waiting:
            found[key] = max(waiting, key=lambda rest: (rest.until, rest.since, rest.place))
    return found


def _hardware_blocks(
    key: HardwareKey, attempts: Sequence[Placement], now: int, node_id: str
) -> tuple[_Block, ...]:
    """Stockouts, short lives and unknown failures. None counts after a node was READY there.

    A node that was preempted at once waits for a cooldown and then tries again by itself. Meanwhile
    one other node may try, and the others wait for it. So ten nodes that were preempted together do
    not block each other.
    """
    lived = [
        attempt.ready_at
        for attempt in attempts
        if attempt.ready_at is not None and not was_short_lived(attempt)
    ]
    came_up = max(lived, default=-1)
    recent = [
        attempt
        for attempt in attempts
        if _end_of(attempt, now) > came_up and _is_recent(attempt, now)
    ]
    short_lived = [attempt for attempt in recent if was_short_lived(attempt)]
    stock_outs = [attempt for attempt in recent if attempt.outcome is Outcome.STOCK_OUT]
    short = [*stock_outs, *short_lived]
    own = [attempt for attempt in short_lived if attempt.node_id == node_id]
    others = [attempt for attempt in short_lived if attempt.node_id != node_id]
    unknown = [attempt for attempt in recent if attempt.outcome in _TROUBLES]
    return (
        _Block(key.zone, stock_outs, attempts, SHORTAGE_DELAYS, short),
        _Block(key.zone, own, attempts, SHORTAGE_DELAYS, short, probe=False),
        _Block(key.zone, others, attempts, SHORTAGE_DELAYS, short, at_once=True),
        _Block(key.zone, unknown, attempts, TROUBLE_DELAYS),
    )


def _find_standing(
    refusals: Sequence[Placement], attempts: Sequence[Placement], now: int
) -> Sequence[Placement]:
    """The recent refusals after which no attempt has succeeded."""
    if not refusals:
        return ()
    came_up = (attempt.started_at for attempt in attempts if attempt.ready_at is not None)
    granted = max(came_up, default=-1)
    return [
        refusal
        for refusal in refusals
        if _is_recent(refusal, now) and _end_of(refusal, now) >= granted
    ]


def was_short_lived(placement: Placement) -> bool:
    """Whether a preemption leads to a cooldown, as the node was short-lived. It was preempted
    before READY, or within SHORT_LIFE_SECONDS after it."""
    if placement.outcome is not Outcome.PREEMPTED or placement.ended_at is None:
        return False
    return (
        placement.ready_at is None or placement.ended_at - placement.ready_at < SHORT_LIFE_SECONDS
    )


def _is_recent(placement: Placement, now: int) -> bool:
    window = DEATH_WINDOW_SECONDS if placement.outcome is Outcome.PREEMPTED else WINDOW_SECONDS
    return placement.ended_at is not None and placement.ended_at > now - window


def _end_of(placement: Placement, now: int) -> int:
    """The end of an attempt, `now` at the latest: another replica's clock may be ahead."""
    return now if placement.ended_at is None else min(placement.ended_at, now)


NOT_BARRED: Mapping[HardwareKey, Cooldown] = {}


def cooldowns_with_quota(
    keys: Sequence[HardwareKey],
    history: Iterable[Placement],
    now: int,
    barred: Mapping[HardwareKey, Cooldown] = NOT_BARRED,
    *,
    node_id: str = "",
) -> dict[HardwareKey, Cooldown]:
    """The cooldowns of keys by earlier attempts or by a quota, whichever end later.

    Keys without a cooldown are left out.
    """
    cooldowns = dict(find_cooldowns(keys, history, now, node_id))
    for key, rest in barred.items():
        if key not in cooldowns or cooldowns[key].until < rest.until:
            cooldowns[key] = rest
    return cooldowns


def describe_cooldown(rest: Cooldown, key: HardwareKey, now: int) -> str:
    """The reason of a cooldown as the end of a clause about a place."""
    if rest.said:
        return rest.said
    whose = "" if rest.place == key.zone else f" in {rest.place}"
    seconds = now - rest.since
    age = f"{seconds} s" if seconds < 2 * MINUTE else f"{seconds // MINUTE} min"
    said = f"{_WORDS[rest.outcome]}{whose} {age} ago"
    return f"{said} and another node is trying it now" if rest.probing else said


_WORDS = {
    Outcome.STOCK_OUT: "was out of capacity",
    Outcome.QUOTA: "was refused for lack of quota",
    Outcome.DENIED: "denied the service's own credentials",
    Outcome.FAILED: "failed",
    Outcome.NAME_TAKEN: "failed",
    Outcome.PREEMPTED: "preempted a node at once",
}
