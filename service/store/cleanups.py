"""The cleanup of each project: its row, the plans that were shown, and the ended nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError

from service.domain.clock import DAY
from service.domain.errors import Conflict, StaleVersion
from service.domain.idle.cleanup import Cleanup, EndRecord, RailHold
from service.domain.idle.plan import CleanupPlan
from service.domain.idle.policy import Action
from service.domain.idle.rails import BegunEnd, Breaker, Waiting, share_of
from service.domain.idle.readings import FamilyRead
from service.domain.idle.signals.signal import Kind
from service.store.json_columns import dumps, loads
from service.store.tables import cleanup_history, cleanup_plans, cleanups, nodes

_KEPT_SECONDS = 2 * DAY
"""How long a plan may be applied; most plans become stale long before."""

_DOCUMENTS: dict[str, Any] = {
    "breaker": Breaker,
    "families": dict[Kind, FamilyRead],
    "holds": tuple[RailHold, ...],
    "waiting": tuple[Waiting, ...],
}
_ENDED = [cleanup_history.c[field.name] for field in fields(EndRecord)]


class Cleanups:
    """Everything about ending idle nodes of a project."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, project: str, *, held: bool = False) -> Cleanup:
        """The row of a project; an empty one, of version 0, before its first tick. With `held`,
        writers of the row, such as a pause, wait until the commit."""
        statement = select(*cleanups.c).where(cleanups.c.project == project)
        statement = statement.with_for_update(read=True) if held else statement
        row = self._connection.execute(statement).mappings().one_or_none()
        return Cleanup(project) if row is None else _to_cleanup(row)

    def list_all(self) -> Sequence[Cleanup]:
        """The rows of all projects that had a tick."""
        rows = self._connection.execute(select(*cleanups.c).order_by(cleanups.c.project)).mappings()
        return [_to_cleanup(row) for row in rows]

    def save(self, cleanup: Cleanup) -> Cleanup:
        """Write a row over the version that was read; returns it with its new version. Raises
        StaleVersion if another transaction wrote it since."""
        after = replace(cleanup, version=cleanup.version + 1)
        row = {field.name: getattr(after, field.name) for field in fields(Cleanup)}
        row |= {name: dumps(row[name]) for name in _DOCUMENTS}
        if cleanup.version == 0:
            try:
                with self._connection.begin_nested():
                    self._connection.execute(insert(cleanups), row)
            except IntegrityError as error:
                raise _stale_error(cleanup.project) from error
            return after
        changed = (
            update(cleanups)
            .where(cleanups.c.project == cleanup.project, cleanups.c.version == cleanup.version)
            .values(**row)
        )
        if self._connection.execute(changed).rowcount != 1:
            raise _stale_error(cleanup.project)
        return after

    def save_plan(self, plan: CleanupPlan, made_by: str) -> None:
        """Store a plan that was shown to a person, and delete old plans. An equal plan has the same
        id."""
        old = cleanup_plans.c.as_of < plan.as_of - _KEPT_SECONDS
        self._connection.execute(delete(cleanup_plans).where(old))
        shown = {"as_of": plan.as_of, "plan": dumps(plan), "made_by": made_by}
        is_sqlite = self._connection.dialect.name == "sqlite"
        writing = (sqlite_insert if is_sqlite else postgresql_insert)(cleanup_plans)
        self._connection.execute(
            writing.on_conflict_do_update(
                index_elements=["id"], set_={name: writing.excluded[name] for name in shown}
            ),
            {"id": plan.id, "project": plan.project, **shown},
        )

    def find_plan(self, plan_id: str) -> CleanupPlan | None:
        """A plan that was shown lately; None for an unknown id."""
        statement = select(cleanup_plans.c.plan).where(cleanup_plans.c.id == plan_id)
        text = self._connection.execute(statement).scalar_one_or_none()
        return None if text is None else loads(text, CleanupPlan)

    def add_end(self, ended: EndRecord) -> None:
        """Write the record of an end. Raises Conflict if this incarnation was deleted before."""
        row = {field.name: getattr(ended, field.name) for field in fields(EndRecord)}
        row["evidence"] = dumps(ended.evidence)
        try:
            with self._connection.begin_nested():
                self._connection.execute(insert(cleanup_history), row)
        except IntegrityError as error:
            raise Conflict(f"node {ended.name} is being deleted already") from error

    def list_begun(self, project: str, actor: str, since: int) -> Sequence[BegunEnd]:
        """The ends in a project that an actor began from `since` on, in order."""
        statement = (
            select(cleanup_history.c.at, nodes.c.id, nodes.c.owner, nodes.c.team)
            .join(nodes, nodes.c.id == cleanup_history.c.node_id)
            .where(cleanup_history.c.project == project, cleanup_history.c.actor == actor)
            .where(cleanup_history.c.at >= since)
            .order_by(cleanup_history.c.at, cleanup_history.c.id)
        )
        return [
            BegunEnd(at, share_of(*whose)) for at, *whose in self._connection.execute(statement)
        ]

    def list_ended(
        self, projects: Sequence[str], before: int, limit: int
    ) -> Sequence[tuple[int, EndRecord]]:
        """The ends in projects, numbered below `before` (0: all), the newest first."""
        statement = (
            select(cleanup_history.c.id, *_ENDED)
            .where(cleanup_history.c.project.in_(projects))
            .order_by(cleanup_history.c.id.desc())
            .limit(limit)
        )
        if before:
            statement = statement.where(cleanup_history.c.id < before)
        rows = self._connection.execute(statement).mappings()
        return [(row["id"], _from_row(row)) for row in rows]

    def list_by_node(self, node_id: str) -> Sequence[EndRecord]:
        """The ends of a node for idleness, the newest first."""
        statement = (
            select(*_ENDED)
            .where(cleanup_history.c.node_id == node_id)
            .order_by(cleanup_history.c.id.desc())
        )
        return [_from_row(row) for row in self._connection.execute(statement).mappings()]


def _stale_error(project: str) -> StaleVersion:
    return StaleVersion(f"the cleanup of project {project} was changed by someone else just now")


def _to_cleanup(row: RowMapping) -> Cleanup:
    documents = {name: loads(row[name], kind) for name, kind in _DOCUMENTS.items()}
    return Cleanup(**{**row, **documents})


def _from_row(row: RowMapping) -> EndRecord:
    return EndRecord(
        **{
            **{field.name: row[field.name] for field in fields(EndRecord)},
            "action": Action(row["action"]),
            "evidence": loads(row["evidence"], dict[str, object]),
        }
    )
