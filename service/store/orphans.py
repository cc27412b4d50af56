"""Orphans: resources in the cloud without a record, one row each, guarded by its version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, bindparam, delete, insert, select, update

from service.domain.errors import NotFound, StaleVersion
from service.domain.nodes.node import NodeSpec
from service.domain.nodes.placement import Outcome
from service.domain.orphans.orphan import ADOPTED, Orphan, OrphanKind, OrphanVerdict, ShownResource
from service.domain.orphans.verdict import KnownAttempt
from service.store.json_columns import dumps, get_decoder, loads
from service.store.tables import nodes, orphans, placements

_CHUNK = 500
_BOOKED = (
    select(
        placements.c.node_id,
        placements.c.zone,
        placements.c.cloud_id,
        placements.c.attempt,
        placements.c.outcome,
        placements.c.ended_at.label("over_at"),
        placements.c.cloud_uids,
        nodes.c.spec,
        nodes.c.ended_at,
        nodes.c.sent_at,
        nodes.c.attempt.label("at_attempt"),
    )
    .join(nodes, nodes.c.id == placements.c.node_id)
    .order_by(placements.c.cloud_id)
)
_AT_WORK = nodes.c.ended_at.is_(None) & nodes.c.sent_at.is_not(None)
_NAMES = select(nodes.c.zone, nodes.c.cloud_id).where(_AT_WORK)
_OPEN = select(nodes.c.id, nodes.c.zone, nodes.c.cloud_id, nodes.c.spec).where(_AT_WORK)

_ALL = select(orphans)
_IS_PRESENT = (orphans.c.gone_at.is_(None), orphans.c.wanted != ADOPTED)
_PRESENT = _ALL.where(*_IS_PRESENT)
_KNOWN = _ALL.where(orphans.c.project == bindparam("project"))
_CERTAIN = _PRESENT.where(orphans.c.project == bindparam("project"), orphans.c.certain).order_by(
    orphans.c.since, orphans.c.id
)
_DUE = (
    _KNOWN.where(orphans.c.next_try_at <= bindparam("now"), orphans.c.gone_at.is_(None))
    .order_by(orphans.c.next_try_at, orphans.c.id)
    .limit(bindparam("most"))
)
_SAVE = update(orphans).where(
    orphans.c.id == bindparam("was_id"), orphans.c.version == bindparam("was_version")
)


@dataclass(frozen=True, slots=True)
class LikeOrphans:
    """The number of orphans of a kind that cost the same; `shown` is one of them."""

    kind: OrphanKind
    shown: ShownResource
    number: int


@dataclass(frozen=True, slots=True)
class _Zone:
    zone: str


@dataclass(frozen=True, slots=True)
class _Costs:
    """The part of what is shown that decides the cost. Reading it alone is six times as fast as
    reading the whole orphan, on both databases."""

    place: _Zone
    queued: bool
    state: str
    accelerator_type: str = ""
    provisioning_model: str = ""


_costs = get_decoder(_Costs)


class Orphans:
    """Orphans by id, by project, and by what is due; and the records with their names."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, orphan: Orphan) -> None:
        """Write a new orphan."""
        self._connection.execute(insert(orphans).values(**_to_row(orphan)))

    def save(self, orphan: Orphan) -> Orphan:
        """Write a changed orphan; returns it with its new version.

        Raises StaleVersion if another transaction wrote it since it was read.
        """
        after = replace(orphan, version=orphan.version + 1)
        row = {**_to_row(after), "was_id": orphan.id, "was_version": orphan.version}
        if self._connection.execute(_SAVE, row).rowcount != 1:
            raise StaleVersion(f"orphan {orphan.id} was changed by someone else just now")
        return after

    def delete(self, orphan: Orphan) -> None:
        """Delete an orphan that a record accounts for now. Raises StaleVersion as `save` does."""
        same = (orphans.c.id == orphan.id, orphans.c.version == orphan.version)
        if self._connection.execute(delete(orphans).where(*same)).rowcount != 1:
            raise StaleVersion(f"orphan {orphan.id} was changed by someone else just now")

    def delete_gone(self, project: str, before: int) -> None:
        """Delete orphans that disappeared before that instant."""
        self._connection.execute(
            delete(orphans).where(orphans.c.project == project, orphans.c.gone_at < before)
        )

    def get(self, orphan_id: str, projects: Sequence[str]) -> Orphan:
        """An orphan of these projects, also when it has disappeared; raises NotFound."""
        statement = _ALL.where(orphans.c.id == orphan_id, orphans.c.project.in_(projects))
        row = self._connection.execute(statement).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no orphan {orphan_id[:80]!r}; GET /v1/orphans lists them")
        return _from_row(row)

    def list_known(self, project: str) -> Sequence[Orphan]:
        """All stored orphans of a project, including those that have disappeared."""
        return self._read_all(_KNOWN, {"project": project})

    def list_present(self, projects: Sequence[str]) -> Sequence[Orphan]:
        """All orphans that exist and were not adopted."""
        return self._read_all(_PRESENT.where(orphans.c.project.in_(projects)))

    def count_alike(self, projects: Sequence[str]) -> Sequence[LikeOrphans]:
        """The orphans of `list_present`, counted by kind and by cost."""
        statement = select(orphans.c.kind, orphans.c.shown).where(
            *_IS_PRESENT, orphans.c.project.in_(projects)
        )
        found: defaultdict[tuple[str, _Costs], list[str]] = defaultdict(list)
        for kind, document in self._connection.execute(statement):
            found[kind, _costs(document)].append(document)
        return [
            LikeOrphans(OrphanKind(kind), loads(documents[0], ShownResource), len(documents))
            for (kind, _), documents in found.items()
        ]

    def list_certain(self, project: str) -> Sequence[Orphan]:
        """The orphans that are deleted automatically, the longest known first."""
        return self._read_all(_CERTAIN, {"project": project})

    def list_due(self, project: str, now: int, limit: int) -> Sequence[Orphan]:
        """The orphans to look up by name by now, the longest waiting first."""
        return self._read_all(_DUE, {"project": project, "now": now, "most": limit})

    def list_live_places(self, project: str) -> set[tuple[str, str]]:
        """The zone and the cloud id of each live record of a project."""
        rows = self._connection.execute(_NAMES.where(nodes.c.project == project))
        return {(row.zone, row.cloud_id) for row in rows}

    def list_attempts(self, project: str, cloud_ids: Iterable[str]) -> Sequence[KnownAttempt]:
        """The records of these names: the attempts that had them, and the live records that have
        them now."""
        wanted = sorted(set(cloud_ids))
        found: list[KnownAttempt] = []
        for start in range(0, len(wanted), _CHUNK):
            some = wanted[start : start + _CHUNK]
            of_project = nodes.c.project == project
            booked = _BOOKED.where(of_project, placements.c.cloud_id.in_(some))
            for row in self._connection.execute(booked):
                is_live = row.ended_at is None and row.sent_at is not None
                found.append(
                    KnownAttempt(
                        *(row.node_id, row.zone, row.cloud_id),
                        slices=loads(row.spec, NodeSpec).slices,
                        present=is_live and row.attempt == row.at_attempt,
                        uids=loads(row.cloud_uids, tuple[str, ...]),
                        called_gone_at=row.over_at if row.outcome == Outcome.VANISHED else None,
                    )
                )
            live = _OPEN.where(of_project, nodes.c.cloud_id.in_(some))
            for node in self._connection.execute(live):
                slices = loads(node.spec, NodeSpec).slices
                found.append(KnownAttempt(node.id, node.zone, node.cloud_id, slices, present=True))
        return found

    def _read_all(
        self, statement: Select[Any], wanted: Mapping[str, Any] | None = None
    ) -> Sequence[Orphan]:
        found = self._connection.execute(statement, wanted or {})
        return [_from_row(row) for row in found.mappings()]


def _to_row(orphan: Orphan) -> dict[str, Any]:
    return asdict(orphan) | {
        "id": orphan.id,
        "project": orphan.project,
        "path": orphan.shown.path,
        "shown": dumps(orphan.shown),
    }


def _from_row(row: RowMapping) -> Orphan:
    values = {name: row[name] for name in Orphan.__dataclass_fields__}
    return Orphan(
        **{
            **values,
            "kind": OrphanKind(row["kind"]),
            "shown": loads(row["shown"], ShownResource),
            "verdict": OrphanVerdict(row["verdict"]),
        }
    )
