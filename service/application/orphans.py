"""What callers may ask of orphans: to see them, to adopt them, to have them deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from service.application.projects import every
from service.application.retries import retrying
from service.domain.clock import Clock
from service.domain.errors import Conflict
from service.domain.event import Event
from service.domain.nodes.node import Node
from service.domain.orphans.adoption import Adopter, adopted
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
from service.store.orphans import LikeOrphans
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

__all__ = ["Adopter", "OrphanKind", "OrphanService", "OrphanSum", "SeenOrphan"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenOrphan:
    """An orphan, when it was last seen, and its cost in nano-dollars an hour.

    `hourly` is None where the orphan is not billed, or its price is not known; `billed` tells these
    two apart. `to_come` is the future hourly cost of a queued resource that waits; None for all
    else.
    """

    orphan: Orphan
    last_seen: int
    hourly: int | None
    billed: bool
    to_come: int | None = None


@dataclass(frozen=True, slots=True)
class OrphanSum:
    """Several orphans: how many there are, what they cost an hour in nano-dollars where that is
    known, and how many are billed at a price that nobody knows."""

    number: int = 0
    hourly: int = 0
    unpriced: int = 0

    def __add__(self, other: OrphanSum) -> OrphanSum:
        return OrphanSum(
            self.number + other.number,
            self.hourly + other.hourly,
            self.unpriced + other.unpriced,
        )


def summed(some: Sequence[SeenOrphan]) -> OrphanSum:
    """What they are together."""
    unpriced = sum(one.billed and one.hourly is None for one in some)
    return OrphanSum(len(some), sum(one.hourly or 0 for one in some), unpriced)


class OrphanService:
    """None of it calls the cloud: the daemon looks, and it deletes what was asked for here."""

    def __init__(
        self, units: Units, prices: PriceShelf, clock: Clock, projects: Sequence[str]
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = tuple(projects)

    def all(self, project: str = "", kind: OrphanKind | None = None) -> Sequence[SeenOrphan]:
        """Those that are there, the dearest first. Raises Rejected for a project that is none of
        this service."""
        projects = every(project, self._projects)
        with self._units.reading() as unit:
            seen = self._look(unit, unit.orphans.present(projects))
        wanted = [one for one in seen if kind in (None, one.orphan.kind)]
        return sorted(wanted, key=lambda one: (-(one.hourly or 0), one.orphan.shown.path))

    def totals(self) -> Mapping[OrphanKind, OrphanSum]:
        """What there is of each kind, for whoever asks again and again: they are counted, and not
        read one by one."""
        totals = dict.fromkeys(OrphanKind, OrphanSum())
        with self._units.reading() as unit:
            now, book = self._clock(), self._prices.book(unit)
            for some in unit.orphans.alike(self._projects):
                totals[some.kind] += _sum_of(some, hourly_cost(some.shown, book, now))
        return totals

    def delete(self, orphan_id: str, *, confirm: str = "", actor: str = "") -> SeenOrphan:
        """Ask for the end of one; asking twice is asking once.

        Raises Conflict for what is not ours, unless `confirm` repeats its full name.
        """
        return self._again(lambda unit: self._delete(unit, orphan_id, confirm, actor))

    def adopt(self, orphan_id: str, adopter: Adopter, *, actor: str = "") -> Node:
        """Make a record for a node that is there; it is managed and charged like any other from
        now on. Raises Rejected for what can never be, Conflict for what cannot be now."""
        return self._again(lambda unit: self._adopt(unit, orphan_id, adopter, actor))

    def _delete(self, unit: Unit, orphan_id: str, confirm: str, actor: str) -> SeenOrphan:
        orphan = unit.orphans.get(orphan_id, self._projects)
        self._check_unknown(unit, orphan)
        asked_already = orphan.to_be_deleted and not orphan.by_itself
        if orphan.gone_at is None and not asked_already:
            _check_confirmed(orphan, confirm)
            changed = replace(orphan, wanted=DELETE, asked_by=actor or "caller", last_error="")
            confirmed = confirm == orphan.shown.path
            now = self._clock()
            orphan = unit.orphans.save(
                replace(changed, confirmed=confirmed, next_try_at=now, tries=0)
            )
        return self._look(unit, [orphan])[0]

    def _adopt(self, unit: Unit, orphan_id: str, adopter: Adopter, actor: str) -> Node:
        orphan = unit.orphans.get(orphan_id, self._projects)
        self._check_unknown(unit, orphan)
        shown, now = orphan.shown, self._clock()
        node, usage = adopted(orphan, adopter, now)
        unit.nodes.add(node)
        unit.usage.save(usage)
        message = (
            f"adopted {shown.path}, which was {orphan.kind.replace('_', ' ')} and {shown.state};"
            " it is charged from now on"
        )
        facts = {"name": shown.path, "uid": shown.uid, "cloud_labels": dict(shown.labels)}
        unit.events.add(Event(node.id, now, "adopted", message, actor or "caller", facts))
        unit.orphans.save(replace(orphan, wanted=ADOPTED, asked_by=actor, next_try_at=None))
        return node

    @staticmethod
    def _check_unknown(unit: Unit, orphan: Orphan) -> None:
        """Raise Conflict where a live record accounts for it by now."""
        attempts = unit.orphans.attempts(orphan.project, names_of(orphan.shown.place))
        for one in attempts:
            if one.present and one.made(orphan.shown) and orphan.gone_at is None:
                raise Conflict(
                    f"{orphan.shown.path} is node {one.node_id} already; see"
                    f" /v1/nodes/{one.node_id}",
                    node_id=one.node_id,
                )

    def _look(self, unit: Unit, some: Sequence[Orphan]) -> list[SeenOrphan]:
        """With their prices; one that the last whole look did not lack was seen in it."""
        now, book = self._clock(), self._prices.book(unit)
        looked = {one: unit.leases.looked_at(one) for one in {each.project for each in some}}
        return [
            SeenOrphan(
                one,
                max(one.last_seen, looked[one.project] if _is_in_the_list(one) else 0),
                hourly_cost(one.shown, book, now),
                is_billed(one.shown),
                hourly_cost_to_come(one.shown, book, now),
            )
            for one in some
        ]

    def _again(self, work: Callable[[Unit], T]) -> T:
        return retrying(self._units, work, "the orphan")


def _sum_of(some: LikeOrphans, hourly: int | None) -> OrphanSum:
    unpriced = some.number if hourly is None and is_billed(some.shown) else 0
    return OrphanSum(some.number, some.number * (hourly or 0), unpriced)


def _check_confirmed(orphan: Orphan, confirm: str) -> None:
    path = orphan.shown.path
    if confirm and confirm != path:
        raise Conflict(f"confirm has another name; this is {path}", confirm=path)
    if orphan.kind is OrphanKind.STRANGER and not confirm:
        raise Conflict(
            f"{path} is unmanaged; to delete it anyway, repeat its full name in confirm",
            confirm=path,
        )


def _is_in_the_list(orphan: Orphan) -> bool:
    return orphan.gone_at is None and (orphan.next_try_at is None or orphan.to_be_deleted)
