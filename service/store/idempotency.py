"""Idempotency keys: the same wish told twice is one wish."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from service.domain.errors import Rejected
from service.store.tables import idempotency_keys


class IdempotencyKeys:
    """Which node a caller's key led to; kept as long as the node is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, scope: str, key: str, body_digest: str) -> str | None:
        """The id of the node that the key led to, None when it is new.

        Raises Rejected when it came with another body before.
        """
        statement = select(idempotency_keys.c.body_digest, idempotency_keys.c.node_id).where(
            idempotency_keys.c.scope == scope, idempotency_keys.c.key == key
        )
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            return None
        if row.body_digest != body_digest:
            raise Rejected(
                "this Idempotency-Key came with another body before; take a new key for a new wish",
                node_id=row.node_id,
            )
        return str(row.node_id)

    def add(self, scope: str, key: str, body_digest: str, node_id: str, now: int) -> None:
        """Remember where the key led, in the transaction that writes the node."""
        self._connection.execute(
            insert(idempotency_keys).values(
                scope=scope, key=key, body_digest=body_digest, node_id=node_id, created_at=now
            )
        )
