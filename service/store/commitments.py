"""Committed-use discounts, as their buyers recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from service.domain.commitments.commitment import Commitment, Term
from service.domain.errors import NotFound
from service.store.json_columns import dumps, loads
from service.store.tables import commitments

_COLUMN = {"start": "start_at", "contract": "contract_nanos"}
_FIELDS = tuple(Commitment.__dataclass_fields__)
_COLUMNS = [commitments.c[_COLUMN.get(name, name)] for name in _FIELDS]
_ALL = select(*_COLUMNS).order_by(commitments.c.start_at.desc(), commitments.c.id.desc())
_STANDING = _ALL.where(commitments.c.withdrawn_at.is_(None))
_TURN = text("SELECT pg_advisory_xact_lock(hashtext('tpu-steward commitments'))")


class Commitments:
    """One row each; the only change is the withdrawal."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, commitment: Commitment) -> None:
        """Record a commitment."""
        values = {_COLUMN.get(name, name): getattr(commitment, name) for name in _FIELDS}
        values |= {"labels": dumps(dict(commitment.labels)), "end_at": commitment.end}
        self._connection.execute(insert(commitments).values(**values))

    def lock_until_commit(self) -> None:
        """Let no other transaction record a commitment before the end of this one: the existing
        records are read first. On SQLite all writers take turns anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN)

    def withdraw(self, commitment_id: str, reason: str, now: int) -> bool:
        """Withdraw a record; returns whether it was not withdrawn before."""
        changed = self._connection.execute(
            update(commitments)
            .where(commitments.c.id == commitment_id, commitments.c.withdrawn_at.is_(None))
            .values(withdrawn_at=now, reason=reason)
        )
        return changed.rowcount == 1

    def get(self, commitment_id: str) -> Commitment:
        """One commitment; raises NotFound."""
        statement = select(*_COLUMNS).where(commitments.c.id == commitment_id)
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            raise NotFound(
                f"there is no commitment {commitment_id[:80]!r}; GET /v1/commitments lists them"
            )
        return _from_row(row)

    def list_all(self) -> Sequence[Commitment]:
        """Every commitment ever recorded, the latest to begin first."""
        return [_from_row(row) for row in self._connection.execute(_ALL)]

    def list_standing(self) -> Sequence[Commitment]:
        """The commitments that were not withdrawn."""
        return [_from_row(row) for row in self._connection.execute(_STANDING)]


def _from_row(row: Any) -> Commitment:
    values = dict(zip(_FIELDS, row, strict=True))
    values |= {"term": Term(values["term"]), "labels": loads(values["labels"], dict[str, str])}
    return Commitment(**values)
