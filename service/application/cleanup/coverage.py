"""What can be seen of the nodes: which metrics have data, and which nodes nobody sees. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.idle.assess import IdleSubject, IdleTimes, report_age
from service.domain.idle.cleanup import REFRESH_SECONDS
from service.domain.idle.proof import STALE_SECONDS, MetricFamily
from service.domain.idle.readings import FamilyRead, family_of, patience_of
from service.domain.idle.signal import MONITORED, Kind, Level
from service.domain.idle.workers import is_covered
from service.store.idle_fleet import IdleFleet

FRESH = 900
"""A metric has a node when its newest point ended within so many seconds."""


@dataclass(frozen=True, slots=True)
class FamilyCoverage:
    """A metric of a project, what was read of it, and of how many READY nodes it has a point of
    the last quarter of an hour."""

    kind: Kind
    family: MetricFamily
    read: FamilyRead
    nodes: int


@dataclass(frozen=True, slots=True)
class ReportCoverage:
    """What workers report: how many nodes have a supervisor, how many of these have reported with
    all workers, how many Monitoring does not cover, how many of those are silent, and the end of
    the newest report of any node."""

    nodes: int
    reported: int
    needed: int
    silent: int
    newest_at: int | None


@dataclass(frozen=True, slots=True)
class ProjectCoverage:
    """How many READY nodes there are, of how many it is known whether they are at work, and which
    nobody can see: without a supervisor and without metrics. `unseen_hourly` is in nano-dollars,
    of those with a known price."""

    project: str
    nodes: int
    known: int
    unseen: int
    unseen_hourly: int
    reports: ReportCoverage
    families: tuple[FamilyCoverage, ...]


def coverage_of(fleet: IdleFleet, now: int, times: IdleTimes) -> ProjectCoverage:
    """The coverage of one project."""
    since = now - times.telemetry - STALE_SECONDS - REFRESH_SECONDS  # rows are as old as that
    dark = [one for one in fleet.subjects if not is_covered(one, since)]
    unseen = [one for one in dark if not one.node.spec.supervisor]
    patience = patience_of(times.telemetry, times.period)
    read = fleet.cleanup.families
    return ProjectCoverage(
        project=fleet.cleanup.project,
        nodes=len(fleet.subjects),
        known=_count(fleet.subjects),
        unseen=len(unseen),
        unseen_hourly=sum(one.hourly or 0 for one in unseen),
        reports=_reports(fleet.subjects, dark, now - report_age(times) - REFRESH_SECONDS),
        families=tuple(
            FamilyCoverage(
                kind, family_of(found, now, patience), found, _nodes_with(fleet, kind, now - FRESH)
            )
            for kind in MONITORED
            for found in [read.get(kind, FamilyRead())]
        ),
    )


def _nodes_with(fleet: IdleFleet, kind: Kind, since: int) -> int:
    """How many nodes a metric has shown since then."""
    return sum(
        any(
            track.end >= since
            for (_, known), track in subject.signals.tracks.items()
            if known is kind
        )
        for subject in fleet.subjects
    )


def _reports(
    subjects: Sequence[IdleSubject], dark: Sequence[IdleSubject], oldest: int
) -> ReportCoverage:
    mine = [one for one in subjects if one.node.spec.supervisor]
    needed = [one for one in dark if one.node.spec.supervisor]
    ends = [host.at for one in mine for host in one.signals.hosts.values()]
    return ReportCoverage(
        nodes=len(mine),
        reported=sum(len(one.signals.hosts) >= one.node.spec.hosts for one in mine),
        needed=len(needed),
        silent=sum(not _reports_since(one, oldest) for one in needed),
        newest_at=max(ends, default=None),
    )


def _reports_since(subject: IdleSubject, oldest: int) -> bool:
    """Whether every worker has reported since then."""
    hosts = subject.signals.hosts
    is_complete = len(hosts) >= subject.node.spec.hosts
    return is_complete and all(host.at >= oldest for host in hosts.values())


def _is_known(subject: IdleSubject) -> bool:
    watched = subject.watched
    verdict = None if watched is None else watched.verdict
    return verdict is not None and verdict.level is not Level.UNKNOWN


def _count(subjects: Sequence[IdleSubject]) -> int:
    return sum(map(_is_known, subjects))
