"""How well nodes are observed: which metrics have data, and which nodes no source covers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.idle.assess import IdleTimes, max_report_age
from service.domain.idle.cleanup import REFRESH_SECONDS
from service.domain.idle.proof import STALE_SECONDS, MetricFamily
from service.domain.idle.readings import FamilyRead, family_of, patience_of
from service.domain.idle.signals.signal import MONITORED, Kind, Level
from service.domain.idle.workers import is_covered
from service.store.idle_fleet import IdleFleet

FRESH = 900
"""Seconds. A metric covers a node if its newest point ended within this time."""


@dataclass(frozen=True, slots=True)
class FamilyCoverage:
    """A metric of a project, what was read of it, and the number of READY nodes with a point in the
    last 15 minutes."""

    kind: Kind
    family: MetricFamily
    read: FamilyRead
    nodes: int


@dataclass(frozen=True, slots=True)
class ReportCoverage:
    """What workers report. `nodes` have a supervisor; `reported` have reported with all workers;
    `needed` are not covered by Monitoring, and `silent` of these have not reported lately.
    `newest_at` is the end of the newest report of any node."""

    nodes: int
    reported: int
    needed: int
    silent: int
    newest_at: int | None


@dataclass(frozen=True, slots=True)
class ProjectCoverage:
    """The number of READY nodes. `known` counts those whose activity is known, `unseen` those
    without a supervisor and without metrics. `unseen_hourly` is in nano-dollars, for the unseen
    nodes with a known price."""

    project: str
    nodes: int
    known: int
    unseen: int
    unseen_hourly: int
    reports: ReportCoverage
    families: tuple[FamilyCoverage, ...]


def coverage_of(fleet: IdleFleet, now: int, times: IdleTimes) -> ProjectCoverage:
    """The coverage of one project."""
    since = now - times.telemetry - STALE_SECONDS - REFRESH_SECONDS  # rows may be this old
    dark = [subject for subject in fleet.subjects if not is_covered(subject, since)]
    unseen = [subject for subject in dark if not subject.node.spec.supervisor]
    patience = patience_of(times.telemetry, times.period)
    read = fleet.cleanup.families
    verdicts = [
        subject.watched.verdict for subject in fleet.subjects if subject.watched is not None
    ]
    families = []
    for kind in MONITORED:
        found = read.get(kind, FamilyRead())
        shown = sum(
            any(
                track.end >= now - FRESH
                for (_, known), track in subject.signals.tracks.items()
                if known is kind
            )
            for subject in fleet.subjects
        )
        families.append(FamilyCoverage(kind, family_of(found, now, patience), found, shown))
    mine = [subject for subject in fleet.subjects if subject.node.spec.supervisor]
    needed = [subject for subject in dark if subject.node.spec.supervisor]
    ends = [host.at for subject in mine for host in subject.signals.hosts.values()]
    oldest = now - max_report_age(times) - REFRESH_SECONDS
    reports = ReportCoverage(
        nodes=len(mine),
        reported=sum(len(subject.signals.hosts) >= subject.node.spec.hosts for subject in mine),
        needed=len(needed),
        silent=sum(
            len(hosts) < subject.node.spec.hosts or any(host.at < oldest for host in hosts.values())
            for subject in needed
            for hosts in [subject.signals.hosts]
        ),
        newest_at=max(ends, default=None),
    )
    return ProjectCoverage(
        project=fleet.cleanup.project,
        nodes=len(fleet.subjects),
        known=sum(
            verdict is not None and verdict.level is not Level.UNKNOWN for verdict in verdicts
        ),
        unseen=len(unseen),
        unseen_hourly=sum(subject.hourly or 0 for subject in unseen),
        reports=reports,
        families=tuple(families),
    )
