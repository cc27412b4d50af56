"""The judge of the cleanup: it knows what every node truly does, and asks the service nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.domain.idle.assess import IdleTimes
from service.domain.idle.cleanup import DAEMON, REFRESH_SECONDS
from service.domain.idle.rails import share_of
from service.domain.lease import Lease
from service.domain.nodes.node import Asked, IdlePolicy, Node
from service.store.unit import Units
from tests.simulation.cleanup.workloads import RESTS, WASTE, Fleet, Life
from tests.simulation.clock import Agenda
from tests.simulation.invariants import Violation

TICK_SECONDS = 45
"""Two ends so close are of one look."""
ALIGNED_SECONDS = 60
"""Points are of whole minutes."""


@dataclass(frozen=True, slots=True)
class End:
    """What the daemon began to end."""

    at: int
    node: Node
    live: int


class CleanupOracle:
    """Looks at each end when it is asked for, and at what is left at the end of all."""

    def __init__(self, agenda: Agenda, units: Units, fleet: Fleet, times: IdleTimes) -> None:
        self._agenda = agenda
        self._units = units
        self._fleet = fleet
        self._times = times
        self.ends: list[End] = []
        self.paused = False
        self.sees_devices = True
        self.unseen: set[str] = set()
        """Ids of nodes that nothing ever shows."""
        self.policies: dict[str, IdlePolicy] = {}
        """What holds for each node, its own or inherited."""
        self.troubled: set[str] = set()
        """Ids of nodes to which something happened that may delay their end."""
        self.keeps: dict[str, int] = {}
        """Until when people have kept a node."""
        self._known: set[tuple[str, int]] = set()

    def committed(self, nodes: list[Node], lease: Lease | None) -> None:
        """See what was written; raises Violation for an end that must not be."""
        for node in nodes:
            this = node.id, node.attempt
            if lease is None or node.asked is not Asked.ABSENT or this in self._known:
                continue
            with self._units.reading() as unit:
                ended = unit.cleanups.list_by_node(node.id)
                if not any((one.incarnation, one.actor) == (this[1], DAEMON) for one in ended):
                    continue
                self._known.add(this)
                live = sum(not unit.nodes.get(one).has_ended for one in self._fleet.lives)
            end = End(self._agenda.seconds(), node, live)
            self.ends.append(end)
            self._check_node(end)
            self._check_pace(end)

    def has_applied(self, node_ids: Iterable[str]) -> None:
        """A person has ended these; raises Violation where one was at work, or somebody kept it."""
        now = self._agenda.seconds()
        for node_id in node_ids:
            life, after = self._fleet.lives[node_id], self.policies[node_id].after_seconds
            if self.keeps.get(node_id, 0) > now:
                raise Violation(f"{node_id} was kept, and a plan has ended it")
            until = now - self._times.telemetry - 2 * ALIGNED_SECONDS - REFRESH_SECONDS
            if life.works_within(until - after + REFRESH_SECONDS, until):
                raise Violation(f"{node_id} is {life.workload}, and a plan has ended it")

    def _check_node(self, end: End) -> None:
        node, now = end.node, end.at
        life, idle = self._fleet.lives[node.id], self.policies[node.id]
        if idle.action != "delete":
            raise Violation(f"{node.name} has a policy that only says {idle.action}")
        if self.paused:
            raise Violation(f"{node.name} was ended in a pause")
        kept_until = self.keeps.get(node.id, 0)
        if kept_until > now:
            raise Violation(f"{node.name} was kept until {kept_until}")
        if node.id in self.unseen:
            raise Violation(f"{node.name} was ended, and nothing has ever shown it")
        self._check_rest(end, life, idle)

    def _check_rest(self, end: End, life: Life, idle: IdlePolicy) -> None:
        node, now = end.node, end.at
        if life.workload in WASTE and not self.sees_devices:
            return  # a machine at rest, for all that Monitoring has of it
        if life.workload not in RESTS:
            until = now - self._times.telemetry - ALIGNED_SECONDS
            if life.works_within(until - idle.after_seconds + 2 * ALIGNED_SECONDS, until):
                raise Violation(f"{node.name} is {life.workload}, and was ended at work")
            if not life.work:
                raise Violation(f"{node.name} is {life.workload}, which its policy does not end")
        # a host that fails and comes back before anybody has looked was READY all the time
        up = min(life.booted_at, max(node.state_since, node.up_since or 0))
        earliest = life.rests_since(up) if life.workload in RESTS else up
        rested = max(earliest, up + self._times.warmup) + idle.after_seconds
        least = rested + self._times.telemetry + idle.grace_seconds
        if now < least:
            raise Violation(f"{node.name} was ended {least - now:.0f} s early")
        self._check_notice(end, life, idle)

    def _check_notice(self, end: End, life: Life, idle: IdlePolicy) -> None:
        node, now = end.node, end.at
        with self._units.reading() as unit:
            told = [one.at for one in unit.events.list_by_kind(node.id, "idle", 0)]
        # a host that fails and comes back at once is the same node, at rest as before
        begun = max([node.sent_at or 0, *(last for _, last in life.work)])
        since = [at for at in told if at >= begun]
        if not since or now - max(since) < idle.grace_seconds:
            raise Violation(f"{node.name} had no whole grace: told at {since}, ended at {now}")

    def _check_pace(self, end: End) -> None:
        with_it = [one for one in self.ends if end.at - one.at <= TICK_SECONDS]
        if len(with_it) > min(3, max(1, end.live * 10 // 100)):
            raise Violation(f"{len(with_it)} of {end.live} nodes were ended in one look")
        shares = [share_of(one.node.id, one.node.owner, one.node.team) for one in with_it]
        if len(shares) != len(set(shares)):
            raise Violation(f"several nodes of one owner were ended in one look: {shares}")
        lately = [one for one in self.ends if end.at - one.at < 3_600]
        if len(lately) > max(3, (end.live + len(lately)) * 25 // 100):
            raise Violation(f"{len(lately)} of {end.live} nodes were ended within an hour")

    def at_rest(self) -> None:
        """Raises Violation for an idle node that is still there, long after all is calm."""
        now = self._agenda.seconds()
        for node, life in self._left(now):
            raise Violation(
                f"{node.name} is {life.workload} since {life.rests_since():.0f}, and is"
                f" still there at {now}: {self._why(node.id)}"
            )

    def is_left(self, at: int) -> bool:
        """Whether a node is still there that has to be gone at an instant to come."""
        return next(self._left(at), None) is not None

    def _left(self, at: int) -> Iterator[tuple[Node, Life]]:
        for node_id, life in self._fleet.lives.items():
            is_kept = self.keeps.get(node_id, 0) > at - 3_600
            if life.workload not in RESTS or node_id in self.unseen or is_kept:
                continue
            with self._units.reading() as unit:
                node = unit.nodes.get(node_id)
            if self.policies[node_id].action == "delete" and node.asked is Asked.PRESENT:
                yield node, life

    def in_time(self, delay: int) -> None:
        """Raises Violation for an idle node that went too late, where nothing has gone wrong that
        could explain it. The pace lets one go in each look; `delay` is how late points come."""
        calm = [one for one in self.ends if one.node.id not in self.troubled]
        for end in calm:
            life, idle = self._fleet.lives[end.node.id], self.policies[end.node.id]
            if life.workload not in RESTS:
                continue
            since = max(life.rests_since(), life.booted_at + self._times.warmup)
            latest = since + idle.after_seconds + idle.grace_seconds
            latest += self._times.telemetry + delay + (2 + len(self.ends)) * self._times.period
            if end.at > latest:
                raise Violation(f"{end.node.name} was ended {end.at - latest:.0f} s too late")

    def in_turn(self) -> None:
        """Raises Violation for a node that waited for others though the pace let it go: a look ends
        a tenth of the live nodes, and one of each owner, else team, else each by itself."""
        calm = [one for one in self.ends if one.node.id not in self.troubled]
        for place, end in enumerate(calm):
            node, idle = end.node, self.policies[end.node.id]
            with self._units.reading() as unit:
                told = [one.at for one in unit.events.list_by_kind(node.id, "idle", 0)]
            before = calm[:place]
            share = share_of(node.id, node.owner, node.team)
            same = sum(
                share == share_of(one.node.id, one.node.owner, one.node.team) for one in before
            )
            turns = max(same, len(before) // max(1, min(3, end.live // 10)))
            latest = (
                max(told) + idle.grace_seconds + (2 + turns) * self._times.period + TICK_SECONDS
            )
            if end.at > latest:
                raise Violation(f"{node.name} was ended {end.at - latest} s after its turn")

    def _why(self, node_id: str) -> str:
        with self._units.reading() as unit:
            watched, cleanup = unit.idle_courses.find_by_node(node_id), unit.cleanups.get("lab")
        state = "not looked at" if watched is None else f"{watched.course.state}, {watched.verdict}"
        return f"{state}; {cleanup.holds}"
