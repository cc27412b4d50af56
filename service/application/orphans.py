"""Orphans as callers list, adopt and delete them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.application.projects import choose_projects
from service.application.retries import run_with_retries
from service.domain.clock import Clock
from service.domain.errors import Conflict
from service.domain.event import Event
from service.domain.nodes.node import Node
from service.domain.orphans.adoption import Adopter, adopt_orphan
from service.domain.orphans.orphan import (
    ADOPTED,
    DELETE,
    Orphan,
    OrphanKind,
    hourly_cost,
    hourly_cost_to_come,
    is_billed,
)
from service.domain.orphans.verdict import names_of
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

__all__ = ["Adopter", "OrphanKind", "OrphanService", "OrphanSum", "SeenOrphan"]


@dataclass(frozen=True, slots=True)
class SeenOrphan:
    """An orphan, when it was last seen, and its cost in nano-dollars an hour.

    `hourly` is None if the orphan is not billed or its price is unknown; `billed` distinguishes
    these cases. `to_come` is the future hourly cost of a queued resource that waits; None for
    everything else.
    """

    orphan: Orphan
    last_seen: int
    hourly: int | None
    billed: bool
    to_come: int | None = None


@dataclass(frozen=True, slots=True)
class OrphanSum:
    """Several orphans: their number, their known cost an hour in nano-dollars, and how many of them
    are billed at an unknown price."""

    number: int = 0
    hourly: int = 0
    unpriced: int = 0

    def __add__(self, other: OrphanSum) -> OrphanSum:
        return OrphanSum(
            self.number + other.number,
            self.hourly + other.hourly,
            self.unpriced + other.unpriced,
        )


def sum_orphans(some: Sequence[SeenOrphan]) -> OrphanSum:
    """The orphans added up."""
    unpriced = sum(orphan.billed and orphan.hourly is None for orphan in some)
    return OrphanSum(len(some), sum(orphan.hourly or 0 for orphan in some), unpriced)


class OrphanService:
    """Reads and writes the store only: the daemon looks at the cloud, and deletes what was
    requested here."""

    def __init__(
        self, units: Units, prices: PriceBookCache, clock: Clock, projects: Sequence[str]
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = tuple(projects)

    def list_all(self, project: str = "", kind: OrphanKind | None = None) -> Sequence[SeenOrphan]:
        """The orphans that exist now, the most expensive first. Raises Rejected for a project that
        is not one of this service."""
        projects = choose_projects(project, self._projects)
        with self._units.reading() as unit:
            seen = self._with_prices(unit, unit.orphans.list_present(projects))
        wanted = [orphan for orphan in seen if kind in (None, orphan.orphan.kind)]
        return sorted(wanted, key=lambda found: (-(found.hourly or 0), found.orphan.shown.path))

    def get(self, orphan_id: str) -> SeenOrphan:
        """One orphan, also one that is gone. Raises NotFound."""
        with self._units.reading() as unit:
            return self._with_prices(unit, [unit.orphans.get(orphan_id, self._projects)])[0]

    def sum_by_kind(self) -> Mapping[OrphanKind, OrphanSum]:
        """The sums of each kind, for callers who ask again and again. Only the kind and the
        shown resource of each orphan are read; orphans that cost the same are priced once."""
        totals = dict.fromkeys(OrphanKind, OrphanSum())
        with self._units.reading() as unit:
            now, book = self._clock(), self._prices.get_book(unit)
            for some in unit.orphans.count_alike(self._projects):
                hourly = hourly_cost(some.shown, book, now)
                unpriced = some.number if hourly is None and is_billed(some.shown) else 0
                totals[some.kind] += OrphanSum(some.number, some.number * (hourly or 0), unpriced)
        return totals

    def delete(self, orphan_id: str, *, confirm: str = "", actor: str = "") -> SeenOrphan:
        """Request the deletion of an orphan; repeating the request changes nothing.

        Raises Conflict for an unmanaged resource, unless `confirm` repeats its full name.
        """

        def request_deletion(unit: Unit) -> SeenOrphan:
            orphan = unit.orphans.get(orphan_id, self._projects)
            self._check_unknown(unit, orphan)
            asked_already = orphan.to_be_deleted and not orphan.is_automatic
            if orphan.gone_at is None and not asked_already:
                path = orphan.shown.path
                if confirm and confirm != path:
                    raise Conflict(f"confirm has another name; this is {path}", confirm=path)
                if orphan.kind is OrphanKind.STRANGER and not confirm:
                    raise Conflict(
                        f"{path} is unmanaged; to delete it anyway, repeat its full name in"
                        " confirm",
                        confirm=path,
                    )
                changed = replace(orphan, wanted=DELETE, asked_by=actor or "caller", last_error="")
                confirmed = confirm == path
                now = self._clock()
                orphan = unit.orphans.save(
                    replace(changed, confirmed=confirmed, next_try_at=now, tries=0)
                )
            return self._with_prices(unit, [orphan])[0]

        return run_with_retries(self._units, request_deletion, "the orphan")

    def adopt(self, orphan_id: str, adopter: Adopter, *, actor: str = "") -> Node:
        """Create the record of a node for an orphan. The node is managed and charged like any other
        from now on. Raises Rejected if adoption is never possible, Conflict if it is not possible
        now."""

        def record_node(unit: Unit) -> Node:
            orphan = unit.orphans.get(orphan_id, self._projects)
            self._check_unknown(unit, orphan)
            shown, now = orphan.shown, self._clock()
            node, usage = adopt_orphan(orphan, adopter, now)
            unit.nodes.add(node)
            unit.usage.save(usage)
            message = (
                f"adopted {shown.path}, which was {orphan.kind.replace('_', ' ')} and"
                f" {shown.state}; it is charged from now on"
            )
            facts = {"name": shown.path, "uid": shown.uid, "cloud_labels": dict(shown.labels)}
            unit.events.add(Event(node.id, now, "adopted", message, actor or "caller", facts))
            unit.orphans.save(replace(orphan, wanted=ADOPTED, asked_by=actor, next_try_at=None))
            return node

        return run_with_retries(self._units, record_node, "the orphan")

    @staticmethod
    def _check_unknown(unit: Unit, orphan: Orphan) -> None:
        """Raise Conflict if a live record accounts for the orphan by now."""
        attempts = unit.orphans.list_attempts(orphan.project, names_of(orphan.shown.place))
        for attempt in attempts:
            if attempt.present and attempt.matches_name(orphan.shown) and orphan.gone_at is None:
                raise Conflict(
                    f"{orphan.shown.path} is node {attempt.node_id} already; see"
                    f" /v1/nodes/{attempt.node_id}",
                    node_id=attempt.node_id,
                )

    def _with_prices(self, unit: Unit, some: Sequence[Orphan]) -> list[SeenOrphan]:
        """The orphans with their prices. An orphan that the last full look did not miss was seen in
        it."""
        now, book = self._clock(), self._prices.get_book(unit)
        looked = {
            project: unit.leases.looked_at(project) for project in {each.project for each in some}
        }
        seen = []
        for orphan in some:
            is_waiting = orphan.next_try_at is not None and not orphan.to_be_deleted
            is_listed = orphan.gone_at is None and not is_waiting
            seen.append(
                SeenOrphan(
                    orphan,
                    max(orphan.last_seen, looked[orphan.project] if is_listed else 0),
                    hourly_cost(orphan.shown, book, now),
                    is_billed(orphan.shown),
                    hourly_cost_to_come(orphan.shown, book, now),
                )
            )
        return seen
