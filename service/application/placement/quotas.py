"""Quota of the projects: what counts against it, and the limits that Google named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.application.projects import choose_projects
from service.domain.catalog import catalog
from service.domain.catalog.zones import region_of
from service.domain.clock import Clock
from service.domain.nodes.node import NodeSpec
from service.domain.placement.quota import MEMORY_SECONDS, QuotaStock, QuotaTally
from service.domain.placement.quota_admission import check_admission, claims_by_key, filter_limits
from service.store.unit import Unit, Units


@dataclass(frozen=True, slots=True)
class QuotaQuery:
    """Which limits are listed; fields that are empty mean any. A region includes its zones."""

    project: str = ""
    region: str = ""
    generation: str = ""


class QuotaService:
    """Reads what quota refusals said, without a call to the cloud."""

    def __init__(self, units: Units, clock: Clock, projects: Sequence[str]) -> None:
        self._units = units
        self._clock = clock
        self._projects = tuple(projects)

    def report(self, query: QuotaQuery) -> Sequence[QuotaTally | QuotaStock]:
        """By project and place: each limit with what counts against it, and what else exists
        without a known limit. Raises Rejected for an unknown project or generation."""
        now, projects = self._clock(), choose_projects(query.project, self._projects)
        if query.generation:
            catalog.load_catalog().get_generation(query.generation)
        with self._units.reading() as unit:
            known = unit.quotas.list_all(projects)
            rows: list[QuotaTally | QuotaStock] = []
            for project in sorted(projects):
                limits = [limit for limit in known if limit.project == project]
                wanted = [
                    limit for limit in limits if _is_asked_for(limit.place, limit.generation, query)
                ]
                found: list[QuotaTally | QuotaStock]
                found = [*unit.quotas.tally_limits(project, wanted, now)]
                found += [
                    stock
                    for stock in unit.quotas.list_stocks(project, limits)
                    if _is_asked_for(stock.place, stock.generation, query)
                ]
                rows += sorted(found, key=_sort_key)
            return rows

    def delete(self, quota_id: str) -> QuotaTally:
        """Delete a limit that was raised or was wrong. Returns its last tally; raises NotFound."""
        with self._units() as unit:
            limit = unit.quotas.delete(quota_id, self._projects)
            return unit.quotas.tally_limits(limit.project, [limit], self._clock())[0]


def list_warnings(unit: Unit, spec: NodeSpec, now: int) -> tuple[str, ...]:
    """Warnings about quota for such a node, without a call to the cloud.

    Raises QuotaTooSmall if Google said lately that the project can have it nowhere.
    """
    known = unit.quotas.list_all([spec.project], now - MEMORY_SECONDS)
    if not known:
        return ()
    limits = filter_limits(known, claims_by_key(spec).values())
    return check_admission(spec, unit.quotas.tally_limits(spec.project, limits, now), known)


def _sort_key(quota: QuotaTally | QuotaStock) -> tuple[str, str, str]:
    what = quota if isinstance(quota, QuotaStock) else quota.limit
    return what.place, what.generation, what.tier


def _is_asked_for(place: str, generation: str, query: QuotaQuery) -> bool:
    in_region = query.region in ("", place, region_of(place))
    return in_region and query.generation in ("", generation)
