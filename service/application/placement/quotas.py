"""What the projects have, and what Google said that they may: to see, to heed, to forget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.application.projects import every
from service.domain.catalog import catalog
from service.domain.catalog.zones import region_of
from service.domain.clock import Clock
from service.domain.nodes.node import NodeSpec
from service.domain.placement.quota import MEMORY_SECONDS, Limit, QuotaStock, QuotaTally
from service.domain.placement.quota_admission import admitted, claims, concerned
from service.store.unit import Unit, Units


@dataclass(frozen=True, slots=True)
class QuotaQuery:
    """Which limits to tell of; fields that are empty mean any. A region means its zones too."""

    project: str = ""
    region: str = ""
    generation: str = ""


class QuotaService:
    """Reads what refusals taught; it asks no cloud."""

    def __init__(self, units: Units, clock: Clock, projects: Sequence[str]) -> None:
        self._units = units
        self._clock = clock
        self._projects = tuple(projects)

    def report(self, query: QuotaQuery) -> Sequence[QuotaTally | QuotaStock]:
        """By project and place: each limit with what counts against it, and what else there is,
        whose limit nobody knows. Raises Rejected for a project or a generation that there is not.
        """
        now, projects = self._clock(), every(query.project, self._projects)
        if query.generation:
            catalog.load().generation(query.generation)
        with self._units.reading() as unit:
            known = unit.quotas.all(projects)
            return [
                one
                for project in sorted(projects)
                for one in _of_project(unit, project, known, query, now)
            ]

    def forget(self, quota_id: str) -> QuotaTally:
        """Believe a limit no more: it was raised, or never meant what it said. Answers it as it
        was; raises NotFound."""
        with self._units() as unit:
            limit = unit.quotas.forget(quota_id, self._projects)
            return unit.quotas.tallies(limit.project, [limit], self._clock())[0]


def warnings(unit: Unit, spec: NodeSpec, now: int) -> tuple[str, ...]:
    """What to know of quota before such a node is asked for; the cloud is not asked.

    Raises QuotaTooSmall where Google said lately that the project can have it nowhere.
    """
    known = unit.quotas.all([spec.project], now - MEMORY_SECONDS)
    if not known:
        return ()
    limits = concerned(known, claims(spec).values())
    return admitted(spec, unit.quotas.tallies(spec.project, limits, now), known)


def _of_project(
    unit: Unit, project: str, known: Iterable[Limit], query: QuotaQuery, now: int
) -> Sequence[QuotaTally | QuotaStock]:
    limits = [one for one in known if one.project == project]
    meant = [one for one in limits if _is_asked_for(one.place, one.generation, query)]
    found: list[QuotaTally | QuotaStock] = [*unit.quotas.tallies(project, meant, now)]
    found += [
        one
        for one in unit.quotas.stocks(project, limits)
        if _is_asked_for(one.place, one.generation, query)
    ]
    return sorted(found, key=_rank)


def _rank(one: QuotaTally | QuotaStock) -> tuple[str, str, str]:
    what = one if isinstance(one, QuotaStock) else one.limit
    return what.place, what.generation, what.tier


def _is_asked_for(place: str, generation: str, query: QuotaQuery) -> bool:
    in_region = query.region in ("", place, region_of(place))
    return in_region and query.generation in ("", generation)
