"""Idempotency keys: repeated requests with one key are one request."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from service.domain.errors import Rejected
from service.domain.idempotency import RequestKey
from service.store.tables import idempotency_keys

ANOTHER_BODY = "this Idempotency-Key was used with another body; use a new key for a new request"


class IdempotencyKeys:
    """The result of each key. Each kind of request, and each caller, has its own scope."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_result(self, scope: str, key: RequestKey) -> str | None:
        """The id of the key's result; None for a new key.

        Raises Rejected if the key came with another body before.
        """
        statement = select(idempotency_keys.c.body_digest, idempotency_keys.c.led_to).where(
            idempotency_keys.c.scope == scope, idempotency_keys.c.key == key.text
        )
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            return None
        if row.body_digest != key.digest:
            raise Rejected(ANOTHER_BODY, led_to=row.led_to)
        return str(row.led_to)

    def add(self, scope: str, key: RequestKey, led_to: str, now: int) -> None:
        """Write the key's result, in the transaction that writes the result itself."""
        self._connection.execute(
            insert(idempotency_keys).values(
                scope=scope,
                key=key.text,
                body_digest=key.digest,
                led_to=led_to,
                created_at=now,
            )
        )
