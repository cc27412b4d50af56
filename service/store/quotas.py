"""Quotas: the limits that Google named when it refused, and what counts against them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from service.domain.catalog import catalog
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import NotFound
from service.domain.nodes.node import LOST, NodeState
from service.domain.nodes.queued_resource import QueueState
from service.domain.orphans.orphan import ADOPTED, ShownResource
from service.domain.placement.quota import (
    Limit,
    QuotaHolding,
    QuotaStock,
    QuotaTally,
    Size,
    Tier,
    claim_of,
    stocks,
    tally,
)
from service.store.json_columns import loads
from service.store.tables import nodes, orphans, placements, quotas

_COLUMNS = [quotas.c[field.name] for field in fields(Limit)]
_ALL = select(*_COLUMNS).order_by(
    *(quotas.c[name] for name in ("project", "place", "generation", "tier", "size", "name"))
)
_AT_WORK = frozenset(
    {NodeState.READY, NodeState.RESTARTING, NodeState.REIMAGING, NodeState.REPAIRING}
)
_DEAD = LOST | {QueueState.SUSPENDING, QueueState.SUSPENDED, QueueState.FAILED}
"""States of nodes and queued resources that end in a deletion, and hold quota until then."""
_MODELS = tuple(ProvisioningModel)
_CHUNK = 500


class Quotas:
    """One row for each limit, as it was last named."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def learn(self, limit: Limit) -> None:
        """Write down what was said; what was said later stays."""
        sqlite = self._connection.dialect.name == "sqlite"
        statement = (sqlite_insert if sqlite else postgresql_insert)(quotas).values(_row(limit))
        said = statement.excluded
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["id"],
                set_={name: said[name] for name in ("allowed", "observed_at", "said")},
                where=quotas.c.observed_at <= said.observed_at,
            )
        )

    def forget(self, limit_id: str, projects: Sequence[str]) -> Limit:
        """Drop a limit, as if it had never been named; answers it. Raises NotFound."""
        meant = (quotas.c.id == limit_id, quotas.c.project.in_(projects))
        row = self._connection.execute(_ALL.where(*meant)).mappings().one_or_none()
        if row is None:
            raise NotFound(
                f"there is no quota {limit_id[:80]!r}; GET /v1/catalog/quotas lists them"
            )
        self._connection.execute(delete(quotas).where(*meant))
        return _read(row)

    def all(self, projects: Sequence[str], since: int = -1) -> Sequence[Limit]:
        """The limits of these projects that were named after `since`."""
        meant = (quotas.c.project.in_(projects), quotas.c.observed_at > since)
        return list(map(_read, self._connection.execute(_ALL.where(*meant)).mappings()))

    def tallies(self, project: str, limits: Iterable[Limit], now: int) -> Sequence[QuotaTally]:
        """These limits of a project, with all that is known to count against them."""
        limits = list(limits)
        if not limits:
            return []
        held = self._held(project)
        granted = self._granted(project, min(limit.observed_at for limit in limits))
        return [tally(limit, held, granted, now) for limit in limits]

    def stocks(self, project: str, limits: Sequence[Limit]) -> Sequence[QuotaStock]:
        """What the project has where these limits of it say nothing."""
        return stocks(project, self._held(project), limits)

    def _held(self, project: str) -> list[QuotaHolding]:
        return [*self._live(project), *self._orphaned(project)]

    def _live(self, project: str) -> list[QuotaHolding]:
        """What our own nodes hold, alike ones together: all that was sent and has not ended."""
        return [
            QuotaHolding(
                claim_of(row.zone, found, row.model, row.chips * row.number),
                row.state in _AT_WORK,
                row.granted,
                row.state in _DEAD,
            )
            for row in self._connection.execute(_live(project))
            if (found := _type_of(row.accelerator_type, row.generation, row.chips)) is not None
        ]

    def _granted(self, project: str, since: int) -> list[QuotaHolding]:
        """What came up of attempts that began later, one for each type in each zone."""
        known = catalog.load().accelerators
        return [
            QuotaHolding(claim_of(zone, found, model, found.chips), used=True, granted_at=began)
            for zone, name, model, began in self._connection.execute(_granted(project, since))
            if (found := known.get(name)) is not None
        ]

    def _orphaned(self, project: str) -> list[QuotaHolding]:
        """What those hold that no record of ours accounts for.

        The model of a queued resource is known where the books once had it, and it counts only
        where no node of it is there, which counts by itself.
        """
        present = select(orphans.c.shown).where(
            orphans.c.project == project, orphans.c.gone_at.is_(None), orphans.c.wanted != ADOPTED
        )
        found = [loads(text, ShownResource) for text in self._connection.execute(present).scalars()]
        members = {one.queued_resource for one in found if not one.queued}
        queued = [one for one in found if one.queued and one.place.queue_path not in members]
        models = self._models(project, [one.place.cloud_id for one in queued])
        return [
            QuotaHolding(
                claim_of(one.place.zone, accelerator, model, chips),
                one.state in _AT_WORK,
                dead=one.state in _DEAD,
            )
            for one in (*(each for each in found if not each.queued), *queued)
            if (accelerator := one.accelerator) is not None
            and (model := one.provisioning_model or models.get(one.place.cloud_id, ""))
            for chips in (accelerator.chips * max(1, len(one.nodes)),)
        ]

    def _models(self, project: str, cloud_ids: Sequence[str]) -> dict[str, str]:
        """The model of each name that an attempt of ours bore."""
        found: dict[str, str] = {}
        for start in range(0, len(cloud_ids), _CHUNK):
            statement = select(placements.c.cloud_id, placements.c.model).where(
                placements.c.project == project,
                placements.c.cloud_id.in_(cloud_ids[start : start + _CHUNK]),
            )
            found |= {row.cloud_id: row.model for row in self._connection.execute(statement)}
        return found


def _live(project: str) -> Select[Any]:
    """An adopted node has no attempt; its type is that of its generation and size."""
    present = (nodes.c.id == placements.c.node_id) & (nodes.c.attempt == placements.c.attempt)
    columns = (
        *(nodes.c[name] for name in ("zone", "generation", "model", "state", "chips")),
        placements.c.accelerator_type,
    )
    came_up = case((placements.c.ready_at.is_not(None), placements.c.started_at))
    return (
        select(*columns, func.count().label("number"), func.max(came_up).label("granted"))
        .select_from(nodes.outerjoin(placements, present))
        .where(nodes.c.project == project, nodes.c.ended_at.is_(None))
        .where(nodes.c.sent_at.is_not(None))
        .group_by(*columns)
    )


def _granted(project: str, since: int) -> Select[Any]:
    columns = [placements.c[name] for name in ("zone", "accelerator_type", "model")]
    return (
        select(*columns, func.max(placements.c.started_at))
        .where(placements.c.project == project, placements.c.model.in_(_MODELS))
        .where(placements.c.started_at > since, placements.c.ready_at.is_not(None))
        .group_by(*columns)
    )


def _type_of(name: str | None, generation: str, chips: int) -> AcceleratorType | None:
    known = catalog.load()
    if name:
        return known.accelerators.get(name)
    return next((one for one in known.served(generation) if one.chips == chips), None)


def _row(limit: Limit) -> dict[str, Any]:
    return {"id": limit.id} | {field.name: getattr(limit, field.name) for field in fields(Limit)}


def _read(row: RowMapping) -> Limit:
    return Limit(**{**row, "tier": Tier(row["tier"]), "size": Size(row["size"])})
