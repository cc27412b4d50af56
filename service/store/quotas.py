"""Quotas: the limits that Google named when it refused, and what counts against them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from sqlalchemy import Connection, RowMapping, case, delete, func, select
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
    list_stocks,
    tally_limit,
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
    """One row for each limit, as Google named it last."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, limit: Limit) -> None:
        """Write a limit; a later observation of it stays."""
        sqlite = self._connection.dialect.name == "sqlite"
        values = {"id": limit.id} | {
            field.name: getattr(limit, field.name) for field in fields(Limit)
        }
        statement = (sqlite_insert if sqlite else postgresql_insert)(quotas).values(values)
        said = statement.excluded
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["id"],
                set_={name: said[name] for name in ("allowed", "observed_at", "said")},
                where=quotas.c.observed_at <= said.observed_at,
            )
        )

    def delete(self, limit_id: str, projects: Sequence[str]) -> Limit:
        """Delete a limit; returns it. Raises NotFound."""
        meant = (quotas.c.id == limit_id, quotas.c.project.in_(projects))
        row = self._connection.execute(_ALL.where(*meant)).mappings().one_or_none()
        if row is None:
            raise NotFound(
                f"there is no quota {limit_id[:80]!r}; GET /v1/catalog/quotas lists them"
            )
        self._connection.execute(delete(quotas).where(*meant))
        return _from_row(row)

    def list_all(self, projects: Sequence[str], since: int = -1) -> Sequence[Limit]:
        """The limits of these projects that were named after `since`."""
        meant = (quotas.c.project.in_(projects), quotas.c.observed_at > since)
        return list(map(_from_row, self._connection.execute(_ALL.where(*meant)).mappings()))

    def tally_limits(self, project: str, limits: Iterable[Limit], now: int) -> Sequence[QuotaTally]:
        """These limits of a project, with everything that is known to count against them."""
        limits = list(limits)
        if not limits:
            return []
        held = self._list_held(project)
        # Successful attempts that began later, one for each type in each zone.
        known = catalog.load_catalog().accelerators
        columns = [placements.c[name] for name in ("zone", "accelerator_type", "model")]
        since = min(limit.observed_at for limit in limits)
        statement = (
            select(*columns, func.max(placements.c.started_at).label("began"))
            .where(placements.c.project == project, placements.c.model.in_(_MODELS))
            .where(placements.c.started_at > since, placements.c.ready_at.is_not(None))
            .group_by(*columns)
        )
        granted = [
            QuotaHolding(
                claim_of(row.zone, found, row.model, found.chips), used=True, granted_at=row.began
            )
            for row in self._connection.execute(statement)
            if (found := known.get(row.accelerator_type)) is not None
        ]
        return [tally_limit(limit, held, granted, now) for limit in limits]

    def list_stocks(self, project: str, limits: Sequence[Limit]) -> Sequence[QuotaStock]:
        """What the project has that these limits do not cover."""
        return list_stocks(project, self._list_held(project), limits)

    def _list_held(self, project: str) -> list[QuotaHolding]:
        """What resources without a record hold, and our own nodes, with alike nodes together:
        everything that was sent and has not ended."""
        present = (nodes.c.id == placements.c.node_id) & (nodes.c.attempt == placements.c.attempt)
        columns = (
            *(nodes.c[name] for name in ("zone", "generation", "model", "state", "chips")),
            placements.c.accelerator_type,
        )
        came_up = case((placements.c.ready_at.is_not(None), placements.c.started_at))
        statement = (
            select(*columns, func.count().label("number"), func.max(came_up).label("granted"))
            .select_from(nodes.outerjoin(placements, present))
            .where(nodes.c.project == project, nodes.c.ended_at.is_(None))
            .where(nodes.c.sent_at.is_not(None))
            .group_by(*columns)
        )
        live = [
            QuotaHolding(
                claim_of(row.zone, found, row.model, row.chips * row.number),
                row.state in _AT_WORK,
                row.granted,
                row.state in _DEAD,
            )
            for row in self._connection.execute(statement)
            if (found := _find_type(row.accelerator_type, row.generation, row.chips)) is not None
        ]
        return [*live, *self._list_orphaned(project)]

    def _list_orphaned(self, project: str) -> list[QuotaHolding]:
        """What resources without a record hold.

        The model of a queued resource is known if an attempt of ours had its name. It counts only
        if none of its nodes exists, because those count by themselves.
        """
        present = select(orphans.c.shown).where(
            orphans.c.project == project, orphans.c.gone_at.is_(None), orphans.c.wanted != ADOPTED
        )
        found = [loads(text, ShownResource) for text in self._connection.execute(present).scalars()]
        members = {orphan.queued_resource for orphan in found if not orphan.queued}
        queued = [
            orphan for orphan in found if orphan.queued and orphan.place.queue_path not in members
        ]
        models: dict[str, str] = {}
        for start in range(0, len(queued), _CHUNK):
            names = [orphan.place.cloud_id for orphan in queued[start : start + _CHUNK]]
            statement = select(placements.c.cloud_id, placements.c.model).where(
                placements.c.project == project, placements.c.cloud_id.in_(names)
            )
            models |= {row.cloud_id: row.model for row in self._connection.execute(statement)}
        return [
            QuotaHolding(
                claim_of(orphan.place.zone, accelerator, model, chips),
                orphan.state in _AT_WORK,
                dead=orphan.state in _DEAD,
            )
            for orphan in (*(each for each in found if not each.queued), *queued)
            if (accelerator := orphan.accelerator) is not None
            and (model := orphan.provisioning_model or models.get(orphan.place.cloud_id, ""))
            for chips in (accelerator.chips * max(1, len(orphan.nodes)),)
        ]


def _find_type(name: str | None, generation: str, chips: int) -> AcceleratorType | None:
    """The type of a node. An adopted node has no attempt; its type is that of its generation and
    size."""
    known = catalog.load_catalog()
    if name:
        return known.accelerators.get(name)
    return next(
        (
            accelerator
            for accelerator in known.list_served(generation)
            if accelerator.chips == chips
        ),
        None,
    )


def _from_row(row: RowMapping) -> Limit:
    return Limit(**{**row, "tier": Tier(row["tier"]), "size": Size(row["size"])})
