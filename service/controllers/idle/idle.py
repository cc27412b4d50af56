"""Follows READY nodes on their courses, and begins to end those that are proved to be idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from service.cloud.ports import Sample
from service.controllers.idle.memory import Collector, IdleMemory
from service.controllers.idle.reports import ReportReader
from service.controllers.idle.rollups import Rollups
from service.controllers.idle.telemetry import FamilySamples, TelemetryReader
from service.domain.clock import HOUR, Clock
from service.domain.errors import Conflict, LeaseLost, StaleVersion, StewardError, StoreUnavailable
from service.domain.idle.assess import AssessedNode, IdleSubject, IdleTimes, assess
from service.domain.idle.cleanup import REFRESH_SECONDS, Cleanup, RailHold, new_alarms
from service.domain.idle.policy import Action
from service.domain.idle.readings import (
    FamilyRead,
    families_of,
    is_read_since,
    newest,
    with_samples,
)
from service.domain.idle.rollup import UnwrittenUse
from service.domain.idle.round import RoundFacts, decide
from service.domain.idle.signal import Kind, Level
from service.domain.idle.workers import workers_of
from service.domain.lease import Lease
from service.domain.nodes.keep import Keep
from service.store.idle_fleet import IdleFleet, read_fleet
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

log = structlog.get_logger()

CHUNK = 500
"""Courses that are written in one transaction."""


class IdleActs(Protocol):
    """What comes of a look, within the unit that it is given; see
    `service.application.cleanup.daemon`."""

    def tell(self, unit: Unit, assessed: AssessedNode, now: int) -> None:
        """Put what has to be told of a node into the outbox, for everybody who is to be told."""
        ...

    def warn_of_keep(self, unit: Unit, subject: IdleSubject, keep: Keep, now: int) -> None:
        """Say once that nobody can read until when a node is kept, which protects it."""
        ...

    def alarm(
        self, unit: Unit, cleanup: Cleanup, held: RailHold, rates: Sequence[int | None], now: int
    ) -> None:
        """Put into the outbox that a rail began to hold. `rates` has the nano-dollars an hour of
        each node that waits; None where no price is known."""
        ...

    def end(self, unit: Unit, assessed: AssessedNode, cleanup: Cleanup, now: int) -> None:
        """Ask for the stop or deletion of a node. Raises Conflict where something changed since."""
        ...


@dataclass(frozen=True, slots=True)
class IdleManners:
    """How it goes about it: the settings, a clock in seconds that nobody can set, and the reader of
    what workers report; None where nobody reads it."""

    times: IdleTimes = field(default_factory=IdleTimes)
    ceiling: Action = Action.OBSERVE
    monotonic: Callable[[], float] = time.monotonic
    reports: ReportReader | None = None


class IdleController:
    """One round over a project in each tick. Running twice ends nothing twice: every write is
    guarded by the versions that it was decided from, and by the lease."""

    name = "idle"

    def __init__(
        self,
        units: Units,
        prices: PriceShelf,
        clock: Clock,
        telemetry: TelemetryReader,
        acts: IdleActs,
        manners: IdleManners,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._telemetry = telemetry
        self._acts = acts
        self._times = manners.times
        self._ceiling = manners.ceiling
        self._monotonic = manners.monotonic
        self._reports = manners.reports
        self._ticked: dict[str, tuple[int, float]] = {}
        self._memories: dict[str, IdleMemory] = {}
        self._rollups = Rollups(units, manners.times.telemetry)
        self._collector = Collector(manners.monotonic)

    def tick(self, lease: Lease) -> None:
        """Read what is new, judge every node, write, and begin what may be ended now."""
        memory = self._memories.pop(lease.project, None)
        is_fresh = memory is None or memory.epoch != lease.epoch
        if memory is None or is_fresh:
            memory = IdleMemory(lease.epoch)
        with self._collector.away():
            self._look(memory, lease, self._clock(), is_fresh=is_fresh)
        self._memories[lease.project] = memory  # none where the look failed: the next begins anew

    def _look(self, memory: IdleMemory, lease: Lease, now: int, *, is_fresh: bool) -> None:
        mark = self._monotonic()
        with self._units.reading() as unit:
            fleet = read_fleet(unit, lease.project, self._prices, self._ceiling, now, memory.known)
        read = self._telemetry.take(
            lease.project, fleet.cleanup.families, deeper=2 * REFRESH_SECONDS if is_fresh else 0
        )
        families, measured = _measure(fleet, read, memory, now, self._times)
        subjects = self._add_reports(measured, memory, lease.project, now)
        known = families_of(families, now, self._times.telemetry, self._times.period)
        looks = [assess(subject, known, now, self._times) for subject in subjects]
        for one in looks:
            if one.verdict.level is Level.ACTIVE:
                lately = memory.lately.setdefault(one.subject.node.id, UnwrittenUse())
                lately.add_work(now - self._times.period, now)
        facts = RoundFacts(
            now,
            fleet.held_since,
            len(fleet.subjects),
            fleet.census,
            self._drift(lease.project, now, mark),
            fleet.begun,
            memory.has_read,
            is_read_since(families, known, now - self._times.fresh),
        )
        before = replace(fleet.cleanup, families=families)
        decided = decide(before, looks, fleet.courses, facts, self._times)
        alarms = new_alarms(fleet.cleanup, decided.cleanup)
        with self._units(lease) as unit:
            cleanup = unit.cleanups.save(decided.cleanup)
            for held in alarms:
                self._acts.alarm(unit, cleanup, held, _rates_of_waiting(cleanup, looks), now)
        self._ticked[lease.project] = now, mark
        for held in alarms:
            log.error("cleanup.held", project=lease.project, rail=held.rail, reason=held.reason)
        # after the rails: what a tick that fails has not written is seen to change by the next
        saved = {one.subject.node.id: one for one in self._save(looks, memory, lease, now)}
        for one in decided.goes:
            if one.subject.node.id in saved:
                self._end(saved[one.subject.node.id], cleanup, lease)

    def _add_reports(
        self, subjects: Sequence[IdleSubject], memory: IdleMemory, project: str, now: int
    ) -> Sequence[IdleSubject]:
        """The nodes with what their workers report as well."""
        if self._reports is None:
            return subjects
        found = self._reports.take(project, subjects, now)
        memory.add_readings(found.readings)
        return found.subjects

    def _drift(self, project: str, now: int, mark: float) -> float:
        """By how many seconds the agreed clock left the monotonic one since the tick before that
        was written: a jump in one that failed is not forgotten."""
        before_now, before_mark = self._ticked.get(project, (now, mark))
        return (now - before_now) - (mark - before_mark)

    def _save(
        self, looks: Sequence[AssessedNode], memory: IdleMemory, lease: Lease, now: int
    ) -> Sequence[AssessedNode]:
        """Write what was decided with what has to be told, and, in turns, what was measured. What
        somebody else changed meanwhile is left out, and looked at again at the next tick."""
        turn = {one.subject.node.id for one in looks if memory.is_due(one.subject.node.id, now)}
        news = [one for one in looks if one.is_news or one.subject.node.id in turn]
        written = {one.subject.node.id: one for one in self._write(news, lease, now)}
        overtaken = {one.subject.node.id for one in news} - set(written)
        ready = {one.subject.node.id: one.subject.node for one in looks}
        gone = [node_id for node_id in memory.nodes if node_id not in ready]
        self._roll_up([*turn, *gone], memory, looks, lease, now)
        memory.forget(gone)
        memory.nodes = ready
        saved = [written.get(one.subject.node.id, one) for one in looks]
        memory.courses = {one.subject.node.id: one.watched for one in saved}
        memory.written.update(dict.fromkeys(turn - overtaken, now))
        return [one for one in saved if one.subject.node.id not in overtaken]

    def _write(
        self, looks: Sequence[AssessedNode], lease: Lease, now: int
    ) -> Sequence[AssessedNode]:
        saved: list[AssessedNode] = []
        for first in range(0, len(looks), CHUNK):
            chunk = looks[first : first + CHUNK]
            try:
                saved += self._save_chunk(chunk, lease, now)
            except StaleVersion:
                for one in chunk:
                    try:
                        saved += self._save_chunk([one], lease, now)
                    except StaleVersion as error:
                        log.info("idle.overtaken", node_id=one.subject.node.id, reason=str(error))
        return saved

    def _save_chunk(
        self, chunk: Sequence[AssessedNode], lease: Lease, now: int
    ) -> Sequence[AssessedNode]:
        with self._units(lease) as unit:
            after = unit.idle_courses.save(one.watched for one in chunk)
            for one in chunk:
                if one.moved.tell is not None:
                    self._acts.tell(unit, one, now)
                if one.subject.keep is not None and one.subject.keep.is_unreadable:
                    self._acts.warn_of_keep(unit, one.subject, one.subject.keep, now)
        return [
            replace(one, watched=watched, moved=replace(one.moved, course=watched.course))
            for one, watched in zip(chunk, after, strict=True)
        ]

    def _roll_up(
        self,
        turn: Sequence[str],
        memory: IdleMemory,
        looks: Sequence[AssessedNode],
        lease: Lease,
        now: int,
    ) -> None:
        """Write the hours of some nodes; those that are not READY any more as they were known."""
        newest = {one.subject.node.id: one for one in looks}
        ones = []
        for node_id in turn:
            lately = memory.lately.pop(node_id, UnwrittenUse())
            if node_id in newest:
                ones.append((newest[node_id].subject.node, newest[node_id].watched, lately))
            else:
                ones.append((memory.nodes[node_id], memory.courses[node_id], lately))
        self._rollups.write(ones, lease, now)
        self._rollups.thin(lease, now)

    def _end(self, one: AssessedNode, cleanup: Cleanup, lease: Lease) -> None:
        node = one.subject.node
        try:
            with self._units(lease) as unit:
                self._acts.end(unit, one, cleanup, self._clock())
        except (LeaseLost, StoreUnavailable):
            raise
        except (Conflict, StewardError) as error:
            log.info("idle.not_ended", node_id=node.id, reason=str(error))
        else:
            action = one.subject.applied.action
            log.warning("idle.ends", node_id=node.id, name=node.name, action=action)


def _measure(
    fleet: IdleFleet, read: Sequence[FamilySamples], memory: IdleMemory, now: int, times: IdleTimes
) -> tuple[Mapping[Kind, FamilyRead], Sequence[IdleSubject]]:
    """What Monitoring has, and the nodes with what it has shown of them since the tick before."""
    families = dict(fleet.cleanup.families)
    new: list[tuple[Kind, Iterable[Sample]]] = []
    longest = max((one.applied.rule.idle_after_seconds for one in fleet.subjects), default=HOUR)
    oldest = now - longest - times.telemetry - HOUR
    for found in read:
        before = families.get(found.kind, FamilyRead())
        if found.error:
            families[found.kind] = replace(before, error=found.error)
            continue
        some = memory.take_new(found.kind, found.samples)
        new.append((found.kind, some))
        if found.is_deep:
            memory.deep.add(found.kind)
        seen = max(filter(None, (before.seen_at, newest(some))), default=None)
        families[found.kind] = FamilyRead(seen_at=seen, read_at=found.until)
    tracks = {one.node.id: one.signals.tracks for one in fleet.subjects}
    measured = with_samples(tracks, workers_of(fleet.subjects), new, oldest)
    for kind, strange in measured.strange.items():
        memory.offer_again(kind, strange)
    memory.add_readings(measured.readings)
    return families, [
        one if changed is None else one.measured(changed)
        for one in fleet.subjects
        for changed in (measured.tracks.get(one.node.id),)
    ]


def _rates_of_waiting(cleanup: Cleanup, looks: Sequence[AssessedNode]) -> Sequence[int | None]:
    """Nano-dollars an hour of each node that waits; None where no price is known."""
    rates = {one.subject.node.id: one.subject.hourly for one in looks}
    return [rates.get(one.node_id) for one in cleanup.waiting]
