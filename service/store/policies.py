"""Idle policies: one row for each scope that has a policy of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection, RowMapping, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from service.domain.errors import NotFound, StaleVersion
from service.domain.idle.policy import Policy, Recipient, Rule
from service.store.json_columns import dumps, loads
from service.store.tables import idle_policies

_COLUMNS = (
    idle_policies.c.scope,
    idle_policies.c.rule,
    idle_policies.c.recipients,
    idle_policies.c.version,
    idle_policies.c.updated_at,
)
_NONE = ""
"""The rule of a scope that inherits again. Its row stays, so that a version never means two
policies: a plan names the version that it used."""

_HOLD = text("SELECT pg_advisory_xact_lock_shared(hashtext('tpu-steward idle policies'))")
_TURN = text("SELECT pg_advisory_xact_lock(hashtext('tpu-steward idle policies'))")


class IdlePolicies:
    """What is done with idle nodes, by scope."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock_all(self) -> None:
        """Let no other transaction write a policy before the end of this one: what is read from now
        on holds until the commit. On SQLite all writers take turns anyway."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_HOLD)

    def find_all(self) -> Mapping[str, Policy]:
        """Every policy by its scope."""
        statement = select(*_COLUMNS).where(idle_policies.c.rule != _NONE)
        rows = self._connection.execute(statement.order_by(idle_policies.c.scope)).mappings()
        return {row["scope"]: _from_row(row) for row in rows}

    def get(self, scope: str) -> Policy:
        """The policy of a scope; raises NotFound if the scope has none."""
        statement = select(*_COLUMNS).where(idle_policies.c.scope == scope)
        row = self._connection.execute(statement).mappings().one_or_none()
        if row is None or row["rule"] == _NONE:
            raise NotFound(f"there is no idle policy for {scope[:80]!r}")
        return _from_row(row)

    def read_version(self, scope: str) -> int:
        """The version over which a policy is written; 0 if there never was one."""
        statement = select(idle_policies.c.version).where(idle_policies.c.scope == scope)
        return self._connection.execute(statement).scalar_one_or_none() or 0

    def save(self, policy: Policy) -> Policy:
        """Write a policy over the version that was read; returns it with its new version. Raises
        StaleVersion if another transaction wrote it since."""
        after = replace(policy, version=policy.version + 1)
        self._write_row(after, dumps(policy.rule))
        return after

    def delete(self, policy: Policy, now: int) -> None:
        """Have the scope inherit again. Raises StaleVersion if another transaction wrote the policy
        since."""
        gone = replace(policy, recipients=(), version=policy.version + 1, updated_at=now)
        self._write_row(gone, _NONE)

    def _write_row(self, after: Policy, rule: str) -> None:
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_TURN)
        row = {
            "rule": rule,
            "recipients": dumps(after.recipients),
            "updated_at": after.updated_at,
            "version": after.version,
        }
        if after.version == 1:
            try:
                with self._connection.begin_nested():
                    self._connection.execute(insert(idle_policies), {"scope": after.scope, **row})
            except IntegrityError as error:
                raise _stale_error(after.scope) from error
            return
        changed = (
            update(idle_policies)
            .where(idle_policies.c.scope == after.scope)
            .where(idle_policies.c.version == after.version - 1)
            .values(**row)
        )
        if self._connection.execute(changed).rowcount != 1:
            raise _stale_error(after.scope)


def _stale_error(scope: str) -> StaleVersion:
    return StaleVersion(f"the idle policy of {scope} was changed by someone else just now")


def _from_row(row: RowMapping) -> Policy:
    documents = {
        "rule": loads(row["rule"], Rule),
        "recipients": loads(row["recipients"], tuple[Recipient, ...]),
    }
    return Policy(**{**row, **documents})
