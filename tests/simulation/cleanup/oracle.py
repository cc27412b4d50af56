"""The judge of the cleanup: it knows what every node truly does, and asks the service nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.event import Event
from service.domain.idle.assess import IdleTimes
from service.domain.idle.cleanup import DAEMON, REFRESH_SECONDS, Cleanup
from service.domain.idle.plan import PlanEntry
from service.domain.idle.policy import Action
from service.domain.idle.rails import share_of
from service.domain.lease import Lease
from service.domain.nodes.node import Asked, IdlePolicy, Node
from service.store.unit import Units
from tests.simulation.cleanup.faults import ReadFaults
from tests.simulation.cleanup.rails import TICK_SECONDS, RailJudge
from tests.simulation.cleanup.workloads import RESTS, WASTE, Fleet, Life
from tests.simulation.clock import Agenda
from tests.simulation.invariants import Violation

ALIGNED_SECONDS = 60
"""Points are of whole minutes."""
TOLD_SECONDS = 45
"""So long a message waits until it is sent."""
LATE_SECONDS = 900
"""So long the end of a node may take for which nothing but the daemon is waited for."""
HELD_SECONDS = 180
"""So long after a time to live is over, or a pause, the daemon has looked at the node again."""
TTL_REASON, BUDGET_REASON = "its time to live", "the budget"
ANNOUNCED = "it will be"
UNSAID = "it is unknown"
"""The begin of a message that announces no end."""


@dataclass(frozen=True, slots=True)
class End:
    """What the daemon began to end: `live` nodes were there then, `ready` of them READY."""

    at: int
    node: Node
    live: int
    ready: int


class Why(StrEnum):
    """What says that a node is at work, though its device may be at rest."""

    BEAT = "a heartbeat"
    JOB = "a job"
    QUEUED = "a queued job"


@dataclass(slots=True)
class Claim:
    """A claim that a node is needed, from `start` to `until`; a heartbeat is of one incarnation."""

    why: Why
    start: int
    until: float
    incarnation: int | None = None

    def is_of(self, node: Node) -> bool:
        return self.incarnation in (None, node.attempt)


@dataclass(slots=True)
class KeepSpan:
    """A keep as it truly held: a person's stop may have ended it early."""

    start: int
    until: int


@dataclass(frozen=True, slots=True)
class OwnersBudget:
    """A budget that deletes what an owner has, and when it was set."""

    owner: str
    set_at: int
    grace: int


@dataclass
class CleanupOracle:
    """Looks at each end when it is asked for, and at what is left at the end of all."""

    agenda: Agenda
    units: Units
    fleet: Fleet
    times: IdleTimes
    ceiling: Action
    faults: ReadFaults
    is_clear: bool
    """Whether the signals of all nodes are there all the time."""
    is_hazy: bool
    """Whether single points get lost, or daemons die so often that nobody sees much."""
    sees_devices: bool
    has_metrics: bool
    ends: list[End] = field(default_factory=list)
    """For idleness."""
    others: list[End] = field(default_factory=list)
    """For their time to live, or for a budget."""
    paused: bool = False
    pauses: list[KeepSpan] = field(default_factory=list)
    unseen: set[str] = field(default_factory=set)
    """Ids of nodes that nothing ever shows."""
    policies: dict[str, IdlePolicy] = field(default_factory=dict)
    """What holds for each node, its own or inherited."""
    ttls: dict[str, int] = field(default_factory=dict)
    troubled: dict[str, int] = field(default_factory=dict)
    """When something happened to a node that may delay its end, by id."""
    lost: dict[str, int] = field(default_factory=dict)
    """When the cloud took a node, by id."""
    budget: OwnersBudget | None = None
    _asked: dict[str, Asked] = field(default_factory=dict)
    """What was last asked of a node, by anybody."""
    _by_people: dict[str, int] = field(default_factory=dict)
    """When a person deleted a node, by id."""
    _keeps: dict[str, list[KeepSpan]] = field(default_factory=dict)
    _claims: dict[str, list[Claim]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began_at = self.agenda.seconds()
        self.rails = RailJudge(self)

    def committed(
        self, nodes: Iterable[Node], lease: Lease | None, row: Cleanup | None = None
    ) -> None:
        """See what a daemon wrote; raises Violation for what must not be."""
        if lease is None:
            return
        if row is not None:
            self.rails.see(row)
        for node in nodes:
            if node.asked is Asked.PRESENT or self._asked.get(node.id) is node.asked:
                continue
            self._asked[node.id] = node.asked
            self._judge_end(node)

    def has_asked(self, node_id: str, asked: Asked) -> None:
        """A person has asked for that."""
        self._asked[node_id] = asked
        if asked is Asked.ABSENT:
            self._by_people.setdefault(node_id, self.agenda.seconds())
        if asked is not Asked.PRESENT:
            for keep in self._keeps.get(node_id, ()):
                keep.until = min(keep.until, self.agenda.seconds())

    def has_kept(self, node_id: str, seconds: int) -> None:
        """A person has kept a node for so many seconds."""
        now = self.agenda.seconds()
        self._keeps.setdefault(node_id, []).append(KeepSpan(now, now + seconds))

    def has_claimed(self, node_id: str, claim: Claim) -> None:
        """A program needs a node; the claim may be ended later."""
        self._claims.setdefault(node_id, []).append(claim)

    def has_applied(self, entries: Iterable[PlanEntry]) -> None:
        """A person has ended these; raises Violation where one was at work, or somebody kept it."""
        now = self.agenda.seconds()
        for entry in entries:
            node_id, node = entry.node_id, self._get(entry.node_id)
            life, after = self.fleet.lives[node_id], self.policies[node_id].after_seconds
            if self.kept_until(node_id) > now:
                raise Violation(f"{node_id} was kept, and a plan has ended it")
            self._check_claims(node, now)
            until = now - self.times.telemetry - 2 * ALIGNED_SECONDS - REFRESH_SECONDS
            if life.works_within(until - after + REFRESH_SECONDS, until):
                raise Violation(f"{node_id} is {life.workload}, and a plan has ended it")
            self.has_asked(node_id, node.asked)

    def kept_until(self, node_id: str) -> int:
        """Until when a node was kept at the longest; 0 if it never was."""
        return max((keep.until for keep in self._keeps.get(node_id, ())), default=0)

    def is_at_rest(self, node_id: str, now: float) -> bool:
        """Whether a node is there, at rest, and all is as it was since it was told of."""
        life = self.fleet.lives[node_id]
        is_quiet = life.workload in RESTS and not life.works_within(life.booted_at, now + 1)
        is_own = node_id not in self.troubled and node_id not in self._claims
        does_end = self.policies[node_id].action == "delete"
        return is_quiet and is_own and does_end and self._get(node_id).asked is Asked.PRESENT

    def find_told(self, node_id: str) -> int | None:
        """When the owner of a node was last told that it is idle."""
        return max(self._list_told(node_id), default=None)

    def share_of(self, node_id: str) -> str:
        """Whose turn the end of a node takes."""
        node = self._get(node_id)
        return share_of(node.id, node.owner, node.team)

    def count_troubled(self, since: float) -> int:
        """How many nodes something has happened to since then."""
        return sum(at > since for at in self.troubled.values())

    def count_lost(self, since: float) -> int:
        """How many nodes the cloud has taken since then."""
        return sum(at > since for at in self.lost.values())

    def at_rest(self) -> None:
        """Raises Violation for a node that is still there, long after all is calm."""
        now = self.agenda.seconds()
        for node, why in self._left(now):
            raise Violation(f"{node.name} {why}, and is still there at {now}: {self._why(node.id)}")
        for node_id in self.fleet.lives:
            self._check_announced(node_id)
        if self.ceiling is Action.OBSERVE:
            told = [life for life in self.fleet.lives if self._list_told(life)]
            if told:
                raise Violation(f"people were told of {told}, and the mode only observes")

    def is_left(self, at: int) -> bool:
        """Whether a node is still there that has to be gone at an instant to come."""
        return next(self._left(at), None) is not None

    def in_time(self, delay: int) -> None:
        """Raises Violation for an idle node that went too late, where its signals were there.

        It has the time of its course and two looks, and while a rail held it or no daemon looked,
        the time stood still. `delay` is how late points come.
        """
        for end in self.ends:
            life = self.fleet.lives[end.node.id]
            was_blind = any(spell.start < end.at for spell in self.faults.spells)
            if was_blind or end.node.id in self.troubled or life.workload not in RESTS:
                continue
            due = self._due_at(end.node, life, end.at, delay)
            held = self.rails.seconds_held(end.node.id, due - self.times.period, end.at)
            latest = due + held + self.rails.seconds_down(life.booted_at, end.at)
            if end.at > latest:
                late, rounds = end.at - latest, self.rails.rounds
                held_by = {rail for round_ in rounds if round_.at > due for rail in round_.holds}
                raise Violation(f"{end.node.name} was ended {late:.0f} s too late; {held_by} held")

    def _due_at(self, node: Node, life: Life, at: int, delay: int) -> float:
        """When a node has to be gone that no rail holds: `at` is when it went."""
        idle, period = self.policies[node.id], self.times.period
        claims = [claim for claim in self._list_claims(node) if claim.start <= at]
        beats = [claim.until for claim in claims if claim.why is Why.BEAT]
        since = max([life.rests_since(), life.booted_at + self.times.warmup, *beats])
        told = since + idle.after_seconds + self.times.telemetry + delay + period
        others = [claim.until for claim in claims if claim.why is not Why.BEAT]
        kept = [keep.until for keep in self._keeps.get(node.id, ()) if keep.start <= at]
        told = max([told, *(until + period for until in (*others, *kept))])
        return told + idle.grace_seconds + period

    def _judge_end(self, node: Node) -> None:
        now = self.agenda.seconds()
        does_stop = node.asked is Asked.STOPPED
        action = Action.STOP if does_stop else Action.DELETE
        with self.units.reading() as unit:
            records = unit.cleanups.list_by_node(node.id)
            live = sum(not unit.nodes.get(life).has_ended for life in self.fleet.lives)
        end = End(now, node, live, self._count_ready())
        mine = [record for record in records if (record.actor, record.action) == (DAEMON, action)]
        if any(
            claim.incarnation == node.attempt and now - claim.at <= TICK_SECONDS for claim in mine
        ):
            self.ends.append(end)
            self._check_action(end, action)
            self._check_node(end)
            self._check_pace(end)
            self.rails.check_end(end)
        elif node.delete_reason.startswith(TTL_REASON) and not does_stop:
            self.others.append(end)
            self._check_ttl(end)
        elif node.delete_reason.startswith(BUDGET_REASON) and not does_stop:
            self.others.append(end)
            self._check_budget(end)
        else:
            raise Violation(f"nothing ends {node.name}: {node.asked}, {node.delete_reason!r}")

    def _check_action(self, end: End, action: Action) -> None:
        """The weaker of the policy and the mode is done, and no stop that the cloud cannot do."""
        node, wanted = end.node, Action(self.policies[end.node.id].action)
        allowed = wanted.limited_to(self.ceiling)
        if action is not allowed:
            raise Violation(f"{node.name} was to be {allowed}, and {action} was done")
        if action is Action.STOP and not node.spec.stoppable:
            raise Violation(f"{node.name} is to be stopped, which the cloud cannot do")

    def _check_node(self, end: End) -> None:
        node, now = end.node, end.at
        life, idle = self.fleet.lives[node.id], self.policies[node.id]
        if self.paused:
            raise Violation(f"{node.name} was ended in a pause")
        if self.kept_until(node.id) > now:
            raise Violation(f"{node.name} was kept until {self.kept_until(node.id)}")
        if node.id in self.unseen:
            raise Violation(f"{node.name} was ended, and nothing has ever shown it")
        self._check_claims(node, now)
        booted_at = life.booted_at
        if blind := self.faults.find_blind(node, booted_at, now, has_metrics=self.has_metrics):
            raise Violation(f"{node.name} was ended though {blind}")
        self._check_rest(end, life, idle)

    def _check_claims(self, node: Node, now: int) -> None:
        for claim in self._list_claims(node):
            if claim.start <= now < claim.until:
                raise Violation(
                    f"{node.name} was ended, and {claim.why} holds it since {claim.start}"
                )

    def _check_rest(self, end: End, life: Life, idle: IdlePolicy) -> None:
        node, now = end.node, end.at
        if life.workload in WASTE and not self.sees_devices:
            return  # a machine at rest, for all that Monitoring has of it
        if life.workload not in RESTS:
            until = now - self.times.telemetry - ALIGNED_SECONDS
            if life.works_within(until - idle.after_seconds + 2 * ALIGNED_SECONDS, until):
                raise Violation(f"{node.name} is {life.workload}, and was ended at work")
            if not life.work:
                raise Violation(f"{node.name} is {life.workload}, which its policy does not end")
        # a host that fails and comes back before anybody has looked was READY all the time
        up = min(life.booted_at, max(node.state_since, node.up_since or 0))
        earliest = life.rests_since(up) if life.workload in RESTS else up
        beats = [claim.until for claim in self._list_claims(node) if claim.why is Why.BEAT]
        rested = max([earliest, up + self.times.warmup, *(at for at in beats if at <= now)])
        least = rested + idle.after_seconds + self.times.telemetry + idle.grace_seconds
        if now < least:
            raise Violation(f"{node.name} was ended {least - now:.0f} s early")
        self._check_notice(end, life, idle)

    def _check_notice(self, end: End, life: Life, idle: IdlePolicy) -> None:
        """After the last work, claim and keep, the owner has the whole grace."""
        node, now = end.node, end.at
        # a host that fails and comes back at once is the same node, at rest as before
        begun = [node.sent_at or 0, *(last for _, last in life.work)]
        begun += [claim.until for claim in self._list_claims(node)]
        begun += [keep.until for keep in self._keeps.get(node.id, ())]
        since = [at for at in self._list_told(node.id) if at >= max(begun)]
        if not since or now - max(since) < idle.grace_seconds:
            raise Violation(f"{node.name} had no whole grace: told at {since}, ended at {now}")

    def _check_pace(self, end: End) -> None:
        with_it = [other for other in self.ends if end.at - other.at <= TICK_SECONDS]
        if len(with_it) > min(3, max(1, end.live * 10 // 100)):
            raise Violation(f"{len(with_it)} of {end.live} nodes were ended in one look")
        shares = [share_of(claim.node.id, claim.node.owner, claim.node.team) for claim in with_it]
        if len(shares) != len(set(shares)):
            raise Violation(f"several nodes of one owner were ended in one look: {shares}")
        lately = [other for other in self.ends if end.at - other.at < 3_600]
        if len(lately) > max(3, (end.live + len(lately)) * 25 // 100):
            raise Violation(f"{len(lately)} of {end.live} nodes were ended within an hour")

    def _check_ttl(self, end: End) -> None:
        """Held by a keep, then after a notice of the grace, and by a pause; by nothing else."""
        node, now = end.node, end.at
        if node.id not in self.ttls:
            raise Violation(f"{node.name} was ended, and has no time to live")
        if self.paused:
            raise Violation(f"the time to live of {node.name} has ended it in a pause")
        least = self._ttl_over_at(node)
        if now < least - 1:
            raise Violation(f"the time to live has ended {node.name} {least - now:.0f} s early")
        held = [
            least,
            *(pause.until for pause in self.pauses if least - HELD_SECONDS < pause.until),
        ]
        grace = self.policies[node.id].grace_seconds if len(held) > 1 else 0
        latest = max(held) + grace + HELD_SECONDS + self._seconds_dead(self.began_at, now)
        if now > latest:
            raise Violation(f"the time to live has ended {node.name} {now - latest:.0f} s late")

    def _ttl_over_at(self, node: Node) -> float:
        """The earliest end by the time to live, and after keeps that have held it back."""
        over = self.fleet.lives[node.id].first_booted_at + self.ttls[node.id]
        grace = self.policies[node.id].grace_seconds
        keeps = [keep.until for keep in self._keeps.get(node.id, ())]
        return max([over, *(until + grace for until in keeps if until > over)])

    def _seconds_dead(self, start: float, end: float) -> float:
        """For how many seconds of [start, end) no daemon may have been there."""
        return self.agenda.fog.within(start, end)

    def _check_budget(self, end: End) -> None:
        node, budget = end.node, self.budget
        if budget is None or node.owner != budget.owner:
            raise Violation(f"a budget has ended {node.name}, for which it does not pay")
        with self.units.reading() as unit:
            told = [event.at for event in unit.events.list_by_kind(node.id, "budget", 0)]
        if not told or end.at - min(told) < budget.grace:
            raise Violation(f"a budget has ended {node.name} without its grace: {told}, {end.at}")

    def _left(self, at: int) -> Iterator[tuple[Node, str]]:
        """The nodes that should be gone at an instant, each with the reason."""
        for node_id, life in self.fleet.lives.items():
            node = self._get(node_id)
            if node.asked is not Asked.ABSENT:
                yield from ((node, why) for why in self._list_overdue(node, life, at))
            elif self._by_people.get(node_id, at) < at - LATE_SECONDS and not node.has_ended:
                yield node, f"was deleted by a person at {self._by_people[node_id]}"

    def _list_overdue(self, node: Node, life: Life, at: int) -> Iterator[str]:
        needed = [self.kept_until(node.id), *(claim.until for claim in self._list_claims(node))]
        action = Action(self.policies[node.id].action).limited_to(self.ceiling)
        does_end = action is Action.DELETE or (action is Action.STOP and node.spec.stoppable)
        is_free = max(needed) <= at - 3_600 and node.id not in self.unseen
        if life.workload in RESTS and is_free and does_end and node.asked is Asked.PRESENT:
            yield f"is {life.workload} since {life.rests_since():.0f}"
        if node.id in self.ttls and life.first_booted_at and not self.paused:
            over = max([self._ttl_over_at(node), *(pause.until for pause in self.pauses)])
            if over + LATE_SECONDS < at:
                yield f"has outlived its {self.ttls[node.id]} s"
        budget, is_there = self.budget, life.first_booted_at and node.asked is Asked.PRESENT
        if budget is None or node.owner != budget.owner or not is_there:
            return  # a stopped node costs nothing
        if budget.set_at + budget.grace + 2 * LATE_SECONDS < at:
            yield f"has no money since {budget.set_at}"

    def _check_announced(self, node_id: str) -> None:
        """Raises Violation for an end that was announced while the node was needed, or while nobody
        could know that it was at rest."""
        node, life = self._get(node_id), self.fleet.lives[node_id]
        for event in self._list_notices(node_id):
            if ANNOUNCED not in event.message:
                continue
            for claim in self._list_claims(node):
                if claim.start + 2 * self.times.period <= event.at < claim.until:
                    raise Violation(
                        f"the end of {node.name} was announced, and {claim.why} holds it"
                    )
            why = self.faults.find_unread(life.booted_at, event.at, has_metrics=self.has_metrics)
            if why:
                raise Violation(f"the end of {node.name} was announced though {why}")

    def _list_notices(self, node_id: str) -> list[Event]:
        with self.units.reading() as unit:
            told = unit.events.list_by_kind(node_id, "idle", 0)
        return [claim for claim in told if not claim.message.startswith(UNSAID)]

    def _list_told(self, node_id: str) -> list[int]:
        return [notice.at for notice in self._list_notices(node_id)]

    def _list_claims(self, node: Node) -> list[Claim]:
        return [claim for claim in self._claims.get(node.id, ()) if claim.is_of(node)]

    def _count_ready(self) -> int:
        return sum(1 for _ in self.fleet.records())

    def _get(self, node_id: str) -> Node:
        with self.units.reading() as unit:
            return unit.nodes.get(node_id)

    def _why(self, node_id: str) -> str:
        with self.units.reading() as unit:
            watched, cleanup = unit.idle_courses.find_by_node(node_id), unit.cleanups.get("lab")
        state = "not looked at" if watched is None else f"{watched.course.state}, {watched.verdict}"
        return f"{state}; {cleanup.holds}"
