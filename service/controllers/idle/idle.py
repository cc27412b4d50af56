"""Follows READY nodes on their courses, and begins to end those that are proved to be idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from service.controllers.idle.telemetry import FamilySamples, TelemetryReader
from service.domain.clock import HOUR, Clock
from service.domain.errors import Conflict, LeaseLost, StaleVersion, StewardError, StoreUnavailable
from service.domain.idle.assess import Assessed, Subject, Times, assess
from service.domain.idle.cleanup import Cleanup
from service.domain.idle.policy import Action
from service.domain.idle.proof import Family
from service.domain.idle.readings import (
    FamilyRead,
    Tracks,
    family_of,
    newest,
    patience_of,
    with_samples,
)
from service.domain.idle.rollup import Hour, with_readings, with_rest, with_work
from service.domain.idle.round import Facts, decide
from service.domain.idle.signal import MONITORED, Kind, Level, Reading
from service.domain.idle.workers import workers_of
from service.domain.lease import Lease
from service.store.idle_fleet import Fleet, read_fleet
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

log = structlog.get_logger()

CHUNK = 500
"""Courses that are written in one transaction."""

THIN_SECONDS = 6 * HOUR


class IdleActs(Protocol):
    """What comes of a look, within the unit that it is given; see
    `service.application.cleanup.daemon`."""

    def tell(self, unit: Unit, assessed: Assessed, now: int) -> None:
        """Put what has to be told of a node into the outbox, for everybody who is to be told."""
        ...

    def end(self, unit: Unit, assessed: Assessed, cleanup: Cleanup, now: int) -> None:
        """Ask for the stop or deletion of a node. Raises Conflict where something changed since."""
        ...


@dataclass(frozen=True, slots=True)
class IdleManners:
    """How it goes about it: the settings, and a clock in seconds that nobody can set."""

    times: Times = field(default_factory=Times)
    ceiling: Action = Action.OBSERVE
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class _Measured:
    """The subjects with newer signals, what Monitoring has, and the readings by node."""

    subjects: Sequence[Subject]
    families: Mapping[Kind, FamilyRead]
    readings: Mapping[str, Sequence[Reading]] = field(default_factory=dict)


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
        self._ticked: dict[str, tuple[int, float]] = {}
        self._thinned_at = 0

    def tick(self, lease: Lease) -> None:
        """Read what is new, judge every node, write, and begin what may be ended now."""
        now = self._clock()
        with self._units.reading() as unit:
            fleet = read_fleet(unit, lease.project, self._prices, self._ceiling, now)
        read = self._telemetry.take(lease.project, fleet.cleanup.families)
        measured = _measure(fleet, read, now, self._times)
        families = _families(measured.families, now, self._times)
        looks = [assess(subject, families, now, self._times) for subject in measured.subjects]
        saved = self._save(looks, lease, now)
        self._roll_up(saved, measured.readings, lease, now)
        facts = Facts(
            now,
            fleet.held_since,
            len(fleet.subjects),
            fleet.census,
            self._drift(lease.project, now),
            fleet.begun,
        )
        before = replace(fleet.cleanup, families=measured.families)
        decided = decide(before, saved, fleet.courses, facts, self._times)
        with self._units(lease) as unit:
            cleanup = unit.cleanups.save(decided.cleanup)
        for one in decided.goes:
            self._end(one, cleanup, lease)

    def _drift(self, project: str, now: int) -> float:
        """By how many seconds the agreed clock left the monotonic one since the tick before."""
        mark = self._monotonic()
        before_now, before_mark = self._ticked.get(project, (now, mark))
        self._ticked[project] = (now, mark)
        return (now - before_now) - (mark - before_mark)

    def _save(self, looks: Sequence[Assessed], lease: Lease, now: int) -> Sequence[Assessed]:
        """Write the courses with what has to be told; what somebody else changed meanwhile is left
        out, and looked at again at the next tick."""
        saved: list[Assessed] = []
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

    def _save_chunk(self, chunk: Sequence[Assessed], lease: Lease, now: int) -> Sequence[Assessed]:
        with self._units(lease) as unit:
            after = unit.idle_courses.save(one.watched for one in chunk)
            for one in chunk:
                if one.moved.tell is not None:
                    self._acts.tell(unit, one, now)
        return [
            replace(one, watched=watched, moved=replace(one.moved, course=watched.course))
            for one, watched in zip(chunk, after, strict=True)
        ]

    def _roll_up(
        self,
        looks: Sequence[Assessed],
        readings: Mapping[str, Sequence[Reading]],
        lease: Lease,
        now: int,
    ) -> None:
        """Keep our own record of every signal, five minutes by five minutes."""
        hour = now - now % HOUR
        ids = [one.subject.node.id for one in looks]
        with self._units.reading() as unit:
            known = unit.idle_rollups.of(ids, hour - HOUR, now + 1)
        hours = [
            after
            for one in looks
            for after in _hours(one, known.get(one.subject.node.id, ()), readings, now, self._times)
        ]
        for first in range(0, len(hours), CHUNK):
            with self._units(lease) as unit:
                unit.idle_rollups.save(hours[first : first + CHUNK])
        if now - self._thinned_at >= THIN_SECONDS:
            with self._units(lease) as unit:
                unit.idle_rollups.thin(now)
            self._thinned_at = now

    def _end(self, one: Assessed, cleanup: Cleanup, lease: Lease) -> None:
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


def _measure(fleet: Fleet, read: Sequence[FamilySamples], now: int, times: Times) -> _Measured:
    """The nodes with what Monitoring has shown of them since the tick before."""
    workers = workers_of(fleet.subjects)
    families = dict(fleet.cleanup.families)
    tracks: dict[str, Tracks] = {one.node.id: one.signals.tracks for one in fleet.subjects}
    readings: dict[str, list[Reading]] = {}
    longest = max((one.applied.rule.idle_after_seconds for one in fleet.subjects), default=HOUR)
    oldest = now - longest - times.telemetry - HOUR
    for found in read:
        before = families.get(found.kind, FamilyRead())
        if found.error:
            families[found.kind] = replace(before, error=found.error)
            continue
        measured = with_samples(tracks, workers, found.kind, found.samples, oldest)
        families[found.kind] = FamilyRead(
            seen_at=max(filter(None, (before.seen_at, newest(found.samples))), default=None),
            read_at=found.until,
            nodes=measured.nodes,
        )
        tracks.update(measured.tracks)
        for node_id, new in measured.readings.items():
            readings.setdefault(node_id, []).extend(new)
    subjects = [
        replace(one, signals=replace(one.signals, tracks=tracks[one.node.id]))
        for one in fleet.subjects
    ]
    return _Measured(subjects, families, readings)


def _families(known: Mapping[Kind, FamilyRead], now: int, times: Times) -> Mapping[Kind, Family]:
    """What the project has of each metric."""
    patience = patience_of(times.telemetry, times.period)
    return {kind: family_of(known.get(kind, FamilyRead()), now, patience) for kind in MONITORED}


def _hours(
    one: Assessed,
    known: Sequence[Hour],
    readings: Mapping[str, Sequence[Reading]],
    now: int,
    times: Times,
) -> Iterable[Hour]:
    """The hours of a node that a look has changed: the present one, and the one before as long as
    points of it may be late."""
    node, tracks = one.subject.node, one.watched.signals.tracks
    stored = {hour.start: hour for hour in known if hour.incarnation == node.attempt}
    present, new = now - now % HOUR, readings.get(node.id, ())
    for start in (present - HOUR, present):
        if start + HOUR < now - 2 * times.telemetry and all(one.end <= start for one in new):
            continue  # that hour is over, and no point of it is late any more
        before = stored.get(start, Hour(node.id, node.attempt, start))
        after = with_readings(before, new)
        if one.verdict.level is Level.ACTIVE:
            after = with_work(after, now - times.period, now)
        after = with_rest(after, tracks, node.spec.hosts, now - times.telemetry)
        if after != before:
            yield after
