"""What can be seen of the nodes: which metrics have data, and which nodes nobody sees. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.idle.assess import Subject, Times
from service.domain.idle.proof import Family
from service.domain.idle.readings import FamilyRead, family_of, patience_of
from service.domain.idle.signal import MONITORED, Kind, Level
from service.store.idle_fleet import Fleet


@dataclass(frozen=True, slots=True)
class FamilyCoverage:
    """A metric of a project, and what was read of it."""

    kind: Kind
    family: Family
    read: FamilyRead


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
    families: tuple[FamilyCoverage, ...]


def coverage_of(fleet: Fleet, now: int, times: Times) -> ProjectCoverage:
    """The coverage of one project."""
    unseen = [one for one in fleet.subjects if not one.node.spec.supervisor and not _is_known(one)]
    patience = patience_of(times.telemetry, times.period)
    read = fleet.cleanup.families
    return ProjectCoverage(
        project=fleet.cleanup.project,
        nodes=len(fleet.subjects),
        known=_count(fleet.subjects),
        unseen=len(unseen),
        unseen_hourly=sum(one.hourly or 0 for one in unseen),
        families=tuple(
            FamilyCoverage(kind, family_of(found, now, patience), found)
            for kind in MONITORED
            for found in [read.get(kind, FamilyRead())]
        ),
    )


def _is_known(subject: Subject) -> bool:
    watched = subject.watched
    verdict = None if watched is None else watched.verdict
    return verdict is not None and verdict.level is not Level.UNKNOWN


def _count(subjects: Sequence[Subject]) -> int:
    return sum(map(_is_known, subjects))
