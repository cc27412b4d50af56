"""Follows READY nodes on their courses, and begins to end nodes that are proved to be idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from service.cloud.ports import Sample
from service.controllers.idle.memory import Collector, IdleMemory
from service.controllers.idle.readings import FamilySamples, TelemetryReader
from service.controllers.idle.report_reads import ReportReader
from service.controllers.idle.rollup import Rollups
from service.domain.clock import HOUR, Clock
from service.domain.errors import Conflict, LeaseLost, StaleVersion, StewardError, StoreUnavailable
from service.domain.idle.assess import (
    AssessedNode,
    IdleSubject,
    IdleTimes,
    assess_node,
    keep_last_verdict,
)
from service.domain.idle.cleanup import REFRESH_SECONDS, Cleanup, RailHold, new_alarms
from service.domain.idle.policy import Action
from service.domain.idle.readings import (
    FamilyRead,
    families_of,
    is_read_since,
    newest_end,
    with_samples,
)
from service.domain.idle.rollup import UnwrittenUse
from service.domain.idle.round import RoundFacts, decide_round
from service.domain.idle.signals.signal import Kind, Level
from service.domain.idle.workers import workers_of
from service.domain.lease import Lease
from service.domain.nodes.keep import Keep
from service.store.idle_fleet import IdleFleet, read_fleet
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

log = structlog.get_logger()

UNREAD_PERIODS = 3
"""Periods that a daemon has for its first read of every metric. A node that is still unknown after
them has lost its signals."""

CHUNK = 500
"""Courses written in one transaction."""


class IdleActs(Protocol):
    """Consequences of a round, within the given unit of work; see
    `service.application.cleanup.daemon`."""

    def notify_node(self, unit: Unit, assessed: AssessedNode, now: int) -> None:
        """Put the notifications about a node into the outbox, one for each recipient and
        channel."""
        ...

    def warn_of_keep(self, unit: Unit, subject: IdleSubject, keep: Keep, now: int) -> None:
        """Warn once that the end of a node's keep is unreadable; the node stays protected."""
        ...

    def notify_rail_hold(
        self, unit: Unit, cleanup: Cleanup, held: RailHold, rates: Sequence[int | None], now: int
    ) -> None:
        """Put into the outbox that a rail began to hold. `rates` has the nano-dollars an hour of
        each waiting node; None where the price is unknown."""
        ...

    def request_end(self, unit: Unit, assessed: AssessedNode, cleanup: Cleanup, now: int) -> None:
        """Request the stop or deletion of a node. Raises Conflict if something has changed."""
        ...


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """Settings of the controller, its monotonic clock in seconds, and the reader of worker reports
    (None: reports are not read). `is_shrunk` says whether half of a project's nodes went missing
    lately; it is the collector of orphans that polls them."""

    times: IdleTimes = field(default_factory=IdleTimes)
    ceiling: Action = Action.OBSERVE
    monotonic: Callable[[], float] = time.monotonic
    reports: ReportReader | None = None
    is_shrunk: Callable[[Lease], bool] = lambda _lease: False


class IdleController:
    """Runs one round over a project in each tick. Running twice ends nothing twice: every write is
    guarded by the lease and by the versions that the decision was based on."""

    name = "idle"

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        telemetry: TelemetryReader,
        acts: IdleActs,
        settings: IdleSettings,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._telemetry = telemetry
        self._acts = acts
        self._times = settings.times
        self._ceiling = settings.ceiling
        self._monotonic = settings.monotonic
        self._reports = settings.reports
        self._is_shrunk = settings.is_shrunk
        self._ticked: dict[str, tuple[int, float]] = {}
        self._memories: dict[str, IdleMemory] = {}
        self._rollups = Rollups(units, settings.times.telemetry)
        self._collector = Collector(settings.monotonic)

    def tick(self, lease: Lease) -> None:
        """Read new samples, assess every node, save, and begin to end the nodes that may go."""
        memory = self._memories.pop(lease.project, None)
        is_fresh = memory is None or memory.epoch != lease.epoch
        if memory is None or is_fresh:
            memory = IdleMemory(lease.epoch, self._monotonic())
        with self._collector.pause_gc():
            self._run_round(memory, lease, self._clock(), is_fresh=is_fresh)
        self._memories[lease.project] = memory  # a failed round keeps none: the next starts fresh

    def _run_round(self, memory: IdleMemory, lease: Lease, now: int, *, is_fresh: bool) -> None:
        mark = self._monotonic()
        with self._units.reading() as unit:
            fleet = read_fleet(
                unit, lease.project, self._prices, self._ceiling, now, memory.known_fleet
            )
        read = self._telemetry.take_results(
            lease.project, fleet.cleanup.families, deeper=2 * REFRESH_SECONDS if is_fresh else 0
        )
        families, measured = _add_samples(fleet, read, memory, now, self._times)
        subjects = self._add_reports(measured, memory, lease.project, now)
        known = families_of(families, now, self._times.telemetry, self._times.period)
        looks = [assess_node(subject, known, now, self._times) for subject in subjects]
        if not memory.has_read and mark - memory.began_at < UNREAD_PERIODS * self._times.period:
            looks = [keep_last_verdict(look) for look in looks]
        for assessed in looks:
            if assessed.verdict.level is Level.ACTIVE and assessed.watched.judged_at == now:
                lately = memory.lately.setdefault(assessed.subject.node.id, UnwrittenUse())
                lately.add_work(now - self._times.period, now)
        # Seconds by which the agreed clock moved away from the monotonic clock since the last tick
        # that was saved. A jump during a failed tick still counts.
        before_now, before_mark = self._ticked.get(lease.project, (now, mark))
        drift = (now - before_now) - (mark - before_mark)
        facts = RoundFacts(
            now,
            fleet.held_since,
            len(fleet.subjects),
            fleet.census,
            drift,
            fleet.begun,
            memory.has_read,
            is_read_since(families, known, now - self._times.max_read_age),
            self._is_shrunk(lease),
        )
        before = replace(fleet.cleanup, families=families)
        decided = decide_round(before, looks, fleet.courses, facts, self._times)
        alarms = new_alarms(fleet.cleanup, decided.cleanup)
        hourly = {look.subject.node.id: look.subject.hourly for look in looks}
        with self._units(lease) as unit:
            cleanup = unit.cleanups.save(decided.cleanup)
            rates = [hourly.get(waiting.node_id) for waiting in cleanup.waiting]
            for held in alarms:
                self._acts.notify_rail_hold(unit, cleanup, held, rates, now)
        self._ticked[lease.project] = now, mark
        for held in alarms:
            log.error("cleanup.held", project=lease.project, rail=held.rail, reason=held.reason)
        # After the rails: the next tick finds again whatever a failed tick has not written.
        saved = {look.subject.node.id: look for look in self._save_looks(looks, memory, lease, now)}
        for assessed in decided.goes:
            if assessed.subject.node.id in saved:
                self._end_node(saved[assessed.subject.node.id], cleanup, lease)

    def _add_reports(
        self, subjects: Sequence[IdleSubject], memory: IdleMemory, project: str, now: int
    ) -> Sequence[IdleSubject]:
        """The nodes with the reports of their workers added."""
        if self._reports is None:
            return subjects
        found = self._reports.take_reports(project, subjects, now)
        memory.add_readings(found.readings)
        return found.subjects

    def _save_looks(
        self, looks: Sequence[AssessedNode], memory: IdleMemory, lease: Lease, now: int
    ) -> Sequence[AssessedNode]:
        """Save decisions with their notifications, and the measurements of nodes whose turn it is.

        Nodes that another writer changed meanwhile are left out; the next tick assesses them again.
        """
        turn = {look.subject.node.id for look in looks if memory.is_due(look.subject.node.id, now)}
        news = [look for look in looks if look.is_news or look.subject.node.id in turn]
        written = {look.subject.node.id: look for look in self._save_courses(news, lease, now)}
        overtaken = {look.subject.node.id for look in news} - set(written)
        ready = {look.subject.node.id: look.subject.node for look in looks}
        gone = [node_id for node_id in memory.nodes if node_id not in ready]
        newest = {look.subject.node.id: look for look in looks}
        hours = []
        for node_id in (*turn, *gone):
            lately = memory.lately.pop(node_id, UnwrittenUse())
            if node_id in newest:
                hours.append((newest[node_id].subject.node, newest[node_id].watched, lately))
            else:  # no longer READY: the hours are written from memory
                hours.append((memory.nodes[node_id], memory.courses[node_id], lately))
        self._rollups.write_hours(hours, lease, now)
        self._rollups.delete_old(lease, now)
        memory.forget_nodes(gone)
        memory.nodes = ready
        saved = [written.get(look.subject.node.id, look) for look in looks]
        memory.courses = {look.subject.node.id: look.watched for look in saved}
        memory.written.update(dict.fromkeys(turn - overtaken, now))
        return [look for look in saved if look.subject.node.id not in overtaken]

    def _save_courses(
        self, looks: Sequence[AssessedNode], lease: Lease, now: int
    ) -> Sequence[AssessedNode]:
        """Save in chunks. A chunk with a stale course is saved one course at a time."""
        saved: list[AssessedNode] = []
        for first in range(0, len(looks), CHUNK):
            chunk = looks[first : first + CHUNK]
            try:
                saved += self._save_chunk(chunk, lease, now)
            except StaleVersion:
                for look in chunk:
                    try:
                        saved += self._save_chunk([look], lease, now)
                    except StaleVersion as error:
                        log.info("idle.overtaken", node_id=look.subject.node.id, reason=str(error))
        return saved

    def _save_chunk(
        self, chunk: Sequence[AssessedNode], lease: Lease, now: int
    ) -> Sequence[AssessedNode]:
        with self._units(lease) as unit:
            after = unit.idle_courses.save(look.watched for look in chunk)
            for look in chunk:
                if look.moved.tell is not None:
                    self._acts.notify_node(unit, look, now)
                if look.subject.keep is not None and look.subject.keep.is_unreadable:
                    self._acts.warn_of_keep(unit, look.subject, look.subject.keep, now)
        return [
            replace(look, watched=watched, moved=replace(look.moved, course=watched.course))
            for look, watched in zip(chunk, after, strict=True)
        ]

    def _end_node(self, assessed: AssessedNode, cleanup: Cleanup, lease: Lease) -> None:
        node = assessed.subject.node
        try:
            with self._units(lease) as unit:
                self._acts.request_end(unit, assessed, cleanup, self._clock())
        except (LeaseLost, StoreUnavailable):
            raise
        except (Conflict, StewardError) as error:
            log.info("idle.not_ended", node_id=node.id, reason=str(error))
        else:
            action = assessed.subject.applied.action
            log.warning("idle.ends", node_id=node.id, name=node.name, action=action)


def _add_samples(
    fleet: IdleFleet, read: Sequence[FamilySamples], memory: IdleMemory, now: int, times: IdleTimes
) -> tuple[Mapping[Kind, FamilyRead], Sequence[IdleSubject]]:
    """The state of each metric, and the nodes with the samples that came since the last tick."""
    families = dict(fleet.cleanup.families)
    new: list[tuple[Kind, Iterable[Sample]]] = []
    longest = max(
        (subject.applied.rule.idle_after_seconds for subject in fleet.subjects), default=HOUR
    )
    oldest = now - longest - times.telemetry - HOUR
    for found in read:
        before = families.get(found.kind, FamilyRead())
        if found.error:
            families[found.kind] = replace(before, error=found.error)
            continue
        new_samples = memory.take_new(found.kind, found.samples)
        new.append((found.kind, new_samples))
        if found.is_deep:
            memory.deep.add(found.kind)
        ends = before.seen_at, found.seen_at, newest_end(new_samples)
        seen = max(filter(None, ends), default=None)
        families[found.kind] = FamilyRead(seen_at=seen, read_at=found.until)
    tracks = {subject.node.id: subject.signals.tracks for subject in fleet.subjects}
    measured = with_samples(tracks, workers_of(fleet.subjects), new, oldest)
    for kind, strange in measured.strange.items():
        memory.offer_again(kind, strange)
    memory.add_readings(measured.readings)
    return families, [
        subject if changed is None else subject.with_tracks(changed)
        for subject in fleet.subjects
        for changed in (measured.tracks.get(subject.node.id),)
    ]
