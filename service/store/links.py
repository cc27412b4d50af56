"""What the holder of a secret may do: links in messages, and heartbeats. Only hashes are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from service.domain.clock import DAY
from service.domain.errors import StaleVersion
from service.domain.idle.links import Link, Verb
from service.domain.idle.signals.heartbeat import Heartbeat, HeartbeatToken
from service.store.tables import cleanup_links, heartbeat_tokens, heartbeats

KEPT_SECONDS = 30 * DAY
"""How long an expired link is kept, so that it can say that it has expired."""

MOST_TOKENS = 20
"""Heartbeat tokens of one node; the oldest are deleted first."""


class Links:
    """Links that keep or delete a node, by the hash of their token."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, link: Link, now: int) -> None:
        """Write a new link, and delete links that expired long ago. The link counts as used if
        another link of its verdict and verb was used: the caller holds the lock of the node."""
        oldest = now - KEPT_SECONDS
        self._connection.execute(delete(cleanup_links).where(cleanup_links.c.expires_at < oldest))
        used = select(func.min(cleanup_links.c.used_at)).where(*_is_like(link))
        used_at = self._connection.execute(used).scalar_one()
        self._connection.execute(insert(cleanup_links), _to_row(replace(link, used_at=used_at)))

    def find_by_hash(self, token_hash: str) -> Link | None:
        """The link of that hash; None for an unknown token, or one that expired long ago."""
        statement = select(*cleanup_links.c).where(cleanup_links.c.token_hash == token_hash)
        row = self._connection.execute(statement).mappings().one_or_none()
        return None if row is None else Link(**{**row, "verb": Verb(row["verb"])})

    def mark_used(self, link: Link, now: int) -> Link:
        """Mark a link as used, and all links of its verdict and verb with it. Raises StaleVersion
        if it was used since it was read. The caller holds the lock of the node."""
        after = replace(link, used_at=now, version=link.version + 1)
        changed = (
            update(cleanup_links)
            .where(cleanup_links.c.token_hash == link.token_hash)
            .where(cleanup_links.c.version == link.version)
            .values(used_at=now, version=after.version)
        )
        if self._connection.execute(changed).rowcount != 1:
            raise StaleVersion("this link was used by someone else just now")
        self._connection.execute(
            update(cleanup_links)
            .where(*_is_like(link), cleanup_links.c.used_at.is_(None))
            .values(used_at=now, version=cleanup_links.c.version + 1)
        )
        return after


class Heartbeats:
    """The newest heartbeat of each node, and the tokens that may send one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_by_node(self, node_id: str) -> Heartbeat | None:
        """The newest heartbeat of a node; None if there never was one."""
        statement = select(*heartbeats.c).where(heartbeats.c.node_id == node_id)
        row = self._connection.execute(statement).mappings().one_or_none()
        return None if row is None else Heartbeat(**row)

    def find_holding(self, since: int) -> Mapping[str, Heartbeat]:
        """The heartbeats that held at any time after `since`, over or not, by node."""
        statement = select(*heartbeats.c).where(heartbeats.c.until > since)
        rows = self._connection.execute(statement).mappings()
        return {row["node_id"]: Heartbeat(**row) for row in rows}

    def save(self, beat: Heartbeat) -> Heartbeat:
        """Write a heartbeat over the version that was read, 0 for the first one; returns it with
        its new version. Raises StaleVersion if another one came since."""
        after = replace(beat, version=beat.version + 1)
        if beat.version == 0:
            try:
                with self._connection.begin_nested():
                    self._connection.execute(insert(heartbeats), _to_row(after))
            except IntegrityError as error:
                raise StaleVersion("another heartbeat came just now") from error
            return after
        changed = (
            update(heartbeats)
            .where(heartbeats.c.node_id == beat.node_id, heartbeats.c.version == beat.version)
            .values(**_to_row(after))
        )
        if self._connection.execute(changed).rowcount != 1:
            raise StaleVersion("another heartbeat came just now")
        return after

    def add_token(self, token: HeartbeatToken) -> None:
        """Write a new token, and delete the oldest tokens of the node beyond twenty."""
        self._connection.execute(insert(heartbeat_tokens), _to_row(token))
        newest = (
            select(heartbeat_tokens.c.token_hash)
            .where(heartbeat_tokens.c.node_id == token.node_id)
            .order_by(heartbeat_tokens.c.created_at.desc(), heartbeat_tokens.c.token_hash)
            .limit(MOST_TOKENS)
        )
        self._connection.execute(
            delete(heartbeat_tokens)
            .where(heartbeat_tokens.c.node_id == token.node_id)
            .where(heartbeat_tokens.c.token_hash.not_in(newest))
        )

    def find_token(self, token_hash: str) -> HeartbeatToken | None:
        """The token of that hash; None for an unknown or deleted token."""
        statement = select(*heartbeat_tokens.c).where(heartbeat_tokens.c.token_hash == token_hash)
        row = self._connection.execute(statement).mappings().one_or_none()
        return None if row is None else HeartbeatToken(**row)


def _is_like(link: Link) -> Sequence[ColumnElement[bool]]:
    """Whether a link is of the same verdict and verb."""
    same = ("node_id", "incarnation", "notified_at", "verb")
    return [cleanup_links.c[name] == getattr(link, name) for name in same]


def _to_row(record: Link | Heartbeat | HeartbeatToken) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
