"""The judge of the rails: each holds when its stated rule says so, and for as long as that.

It sees the row that each round of a daemon has written, and computes the rule from what the nodes
truly do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from service.domain.idle.cleanup import Cleanup
from service.domain.idle.policy import Action
from service.domain.idle.rails import MASS_SECONDS, Rail, share_of
from service.domain.lease import Lease
from service.domain.nodes.node import Node
from service.store.unit import Unit
from tests.simulation.cleanup.workloads import WASTE
from tests.simulation.crash_points import CrashPoints, SeamedUnits
from tests.simulation.fog import LASTING
from tests.simulation.invariants import Violation

if TYPE_CHECKING:
    from tests.simulation.cleanup.oracle import CleanupOracle, End

TICK_SECONDS = 45
"""Two ends so close are of one look."""
TAKEOVER_SECONDS = 120
"""So long a daemon may take until it holds the lease, and has read all metrics."""
GAP_SECONDS = 75
"""Without a daemon for so long, the lease was held by nobody for more than a minute."""
ROUNDING = 2
"""Two clocks of whole seconds may differ by one second at each of two instants."""
LATELY = 900
"""A cause so long ago may have opened the breaker."""
UNSURE_NODES = 2
"""So many nodes the daemon may see READY later or longer than they are."""
Written = Callable[[Sequence[Node], Lease | None, Cleanup | None], None]


class RoundUnits(SeamedUnits):
    """Units of work of a daemon, of which the row of the cleanup that they write is known."""

    def __init__(self, engine: Engine, seams: CrashPoints, saved: Written) -> None:
        super().__init__(engine, seams, lambda nodes, lease: saved(nodes, lease, self._row))
        self._row: Cleanup | None = None

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        self._row = None
        with super().__call__(lease) as unit:
            save = unit.cleanups.save

            def noting(cleanup: Cleanup) -> Cleanup:
                self._row = save(cleanup)
                return self._row

            unit.cleanups.save = noting  # type: ignore[method-assign]
            yield unit


@dataclass(frozen=True, slots=True)
class Round:
    """What a round has decided: the rails that hold, and the rail that each node waits for."""

    at: int
    holds: frozenset[Rail]
    waits: Mapping[str, Rail]
    ready: int
    """The nodes that were truly READY."""
    may_be_mass: bool
    """Whether more than half of them may be taken for candidates."""


def measure_mass(rounds: Sequence[Round]) -> int:
    """For how many seconds the rounds have held the mass that there still is; 0 for none."""
    first = upto = rounds[-1].at
    is_held = False
    for round_ in reversed(rounds):
        if Rail.MASS in round_.holds:
            first, is_held = round_.at, True
        elif is_held or not round_.may_be_mass:
            break
        else:
            first = upto = round_.at
    return upto - first


@dataclass
class RailJudge:
    """Looks at every round, and knows afterwards for how long a node was held."""

    truth: CleanupOracle
    rounds: list[Round] = field(default_factory=list)
    _mass_since: int | None = None
    _unlawful: set[tuple[str, Rail]] = field(default_factory=set)
    """Waits of the round before for which there was no reason; another writer may have come in
    between once."""

    def see(self, row: Cleanup) -> None:
        """Judge the row that a round has written. Raises Violation."""
        now = self.truth.agenda.seconds()
        self._check_waits(now)
        holds = frozenset(held.rail for held in row.holds)
        if (Rail.PAUSE in holds) != self.truth.paused:
            raise Violation(f"paused is {self.truth.paused}, and {sorted(holds)} hold")
        opened = {held.rail for held in row.holds if held.since == now}
        for rail in holds:
            if not self._may_hold(rail, now, is_new=rail in opened):
                raise Violation(f"{rail} holds at {now}, and its rule does not say so")
        self._check_mass_length(now, is_held=Rail.MASS in holds)
        waits = {waiting.node_id: waiting.rail for waiting in row.waiting}
        may_be_mass = self._is_mass(now)
        self.rounds.append(Round(now, holds, waits, self._count_ready(), may_be_mass))

    def check_end(self, end: End) -> None:
        """Raises Violation for an end that a rail had to hold back."""
        starts = [
            upto
            for since, upto in self._list_deaths()
            # a daemon knows whole seconds only, also of its own start
            if upto - since > GAP_SECONDS and upto <= end.at < int(upto) + self.truth.times.start
        ]
        if starts:
            raise Violation(f"{end.node.name} was ended {end.at - starts[0]:.0f} s after a start")
        told = self._list_told(end)
        enough = max(6, end.ready // 2 + 1)
        is_new = len(told) >= enough and end.at - told[enough - 1] < MASS_SECONDS
        # others that are not surely at rest may have been candidates for longer
        if is_new and measure_mass(self.rounds) < MASS_SECONDS - ROUNDING:
            raise Violation(f"{end.node.name} was ended while {len(told)} of {end.ready} were idle")

    def seconds_held(self, node_id: str, start: float, end: float) -> float:
        """For how many seconds of [start, end) a rail held the node, or let others go first."""
        held = 0.0
        for one, upto in self._iter_spans(end):
            if one.holds or node_id in one.waits:
                held += max(0.0, min(upto, end) - max(one.at, start))
        return held

    def seconds_down(self, start: float, end: float) -> float:
        """For how many seconds of [start, end) no daemon looked, though it was time."""
        period = self.truth.times.period
        return sum(
            max(0.0, min(upto, end) - max(one.at + period, start))
            for one, upto in self._iter_spans(end)
        )

    def _iter_spans(self, end: float) -> Iterator[tuple[Round, float]]:
        following = [round_.at for round_ in self.rounds[1:]]
        return zip(self.rounds, [*following, max(end, self.rounds[-1].at)], strict=True)

    def _may_hold(self, rail: Rail, now: int, *, is_new: bool) -> bool:
        """Whether the rule of a rail says so, as far as the truth shows."""
        rules: Mapping[Rail, Callable[[], bool]] = {
            Rail.PAUSE: lambda: self.truth.paused,
            Rail.START: lambda: self._may_start(now),
            Rail.INVENTORY: lambda: self.truth.count_lost(now - LATELY) >= 3,
            Rail.BREAKER: lambda: not is_new or self._may_break(now),
            Rail.MASS: lambda: self._is_mass(now),
        }
        # no clock jumps here, and the pace lets nodes wait one by one
        return rail in rules and rules[rail]()

    def _may_start(self, now: int) -> bool:
        begun = max([self.truth.began_at, *(upto for _, upto in self._list_deaths())])
        is_unread = bool(self.truth.faults.find_recent(now - TAKEOVER_SECONDS))
        return is_unread or now <= begun + TAKEOVER_SECONDS + self.truth.times.start

    def _may_break(self, now: int) -> bool:
        """Whether many nodes may have been lost from sight, or came to rest at once."""
        since = now - LATELY
        deaths = [upto for _, upto in self._list_deaths() if upto > since]
        if self.truth.is_hazy or deaths or self.truth.count_troubled(since):
            return True
        if self.truth.faults.find_recent(since):
            return True
        lives = self.truth.fleet.lives.values()
        rests = sorted(last for life in lives for _, last in life.work if since < last <= now)
        return any(later - first < 120 for first, later in pairwise(rests))

    def _is_mass(self, now: int) -> bool:
        """Whether more than half of the nodes, and more than five, may be taken for candidates."""
        truth, until = self.truth, now - self.truth.times.telemetry - 60
        found = 0
        for node_id, life in truth.fleet.lives.items():
            action = Action(truth.policies[node_id].action).limited_to(truth.ceiling)
            is_waste = life.workload in WASTE and truth.sees_devices
            since = until - life.idle_after + 120
            if action.rank >= Action.STOP.rank and not is_waste:
                found += not life.works_within(since, until)
        return found > 5 and 2 * found > self._count_ready() - UNSURE_NODES

    def _check_mass_length(self, now: int, *, is_held: bool) -> None:
        if not is_held:
            self._mass_since = None
            return
        self._mass_since = now if self._mass_since is None else self._mass_since
        longest = MASS_SECONDS + 2 * self.truth.times.period
        if self.truth.is_clear and now - self._mass_since > longest:
            raise Violation(f"more than half are idle since {self._mass_since}, and nothing goes")

    def _check_waits(self, now: int) -> None:
        """Raises Violation for a node that waited for its turn in the last round and the one
        before, and had it."""
        if not self.rounds:
            return
        last, before = self.rounds[-1], self._unlawful
        if any(since < now and upto > last.at for since, upto in self._list_deaths()):
            self._unlawful = set()
            return
        waits = {} if last.holds else last.waits
        self._unlawful = {
            (node_id, rail)
            for node_id, rail in waits.items()
            if not self._may_wait(node_id, rail, last, now)
        }
        twice = sorted(self._unlawful & before)
        if twice:
            raise Violation(f"{twice[0][0]} waits for {twice[0][1]} at {last.at}, and has its turn")

    def _may_wait(self, node_id: str, rail: Rail, last: Round, now: int) -> bool:
        ends, ready = self.truth.ends, max(0, last.ready - UNSURE_NODES)
        tick = [end for end in ends if last.at - TICK_SECONDS - 5 <= end.at < now]
        if rail is Rail.HOUR:
            hour = [end for end in ends if last.at - 3_605 <= end.at < now]
            return len(hour) >= max(3, ready * 25 // 100)
        if rail is Rail.TICK:
            return len(tick) >= min(3, max(1, ready * 10 // 100))
        mine = self.truth.share_of(node_id)
        shares = [share_of(end.node.id, end.node.owner, end.node.team) for end in tick]
        return rail is Rail.OWNER and mine in shares

    def _list_told(self, end: End) -> Sequence[int]:
        """When the owners were told of the nodes that surely are candidates, in order."""
        truth = self.truth
        if not truth.is_clear or truth.ceiling is not Action.DELETE:
            return []
        found = [
            at
            for node_id in truth.fleet.lives
            if truth.is_at_rest(node_id, end.at) and (at := truth.find_told(node_id)) is not None
        ]
        return sorted([*found, *filter(None, [truth.find_told(end.node.id)])])

    def _list_deaths(self) -> list[tuple[float, float]]:
        """When daemons died, and when the next began."""
        now = self.truth.agenda.now
        spans = self.truth.agenda.fog.spans
        return [(since, upto - LASTING) for since, upto in spans if since <= now]

    def _count_ready(self) -> int:
        return sum(1 for _ in self.truth.fleet.records())
