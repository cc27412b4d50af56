"""Nodes: one row each, guarded by its version, with the view that callers see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from service.domain.errors import Conflict, NotFound, StaleVersion
from service.domain.lifecycle.absence import FleetCensus
from service.domain.metering.attribution import Attribution, first_attribution
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Asked, Endpoint, Node, NodeSpec, NodeState, Slice
from service.domain.nodes.slices import WHOLE
from service.domain.nodes.view import FORMAT, view_of
from service.domain.pricing.price_book import RESERVED
from service.store.attributions import Attributions
from service.store.json_columns import dumps, loads
from service.store.node_list import price_key
from service.store.placements import Placements
from service.store.tables import leases, node_labels, nodes

_FIELDS = [field.name for field in fields(Node)]
_COLUMNS = [nodes.c[name] for name in _FIELDS]
_SAVE = update(nodes).where(
    nodes.c.id == bindparam("was_id"), nodes.c.version == bindparam("was_version")
)
_DUE = (
    select(nodes.c.id)
    .where(nodes.c.next_try_at <= bindparam("now"), nodes.c.project == bindparam("project"))
    .order_by(
        case((or_(nodes.c.asked == Asked.ABSENT, nodes.c.state == NodeState.READY), 0), else_=1),
        nodes.c.next_try_at,
    )
    .limit(bindparam("most"))
)
"""First the nodes to delete, and READY nodes, which have to end on time."""
_BY_ID = select(*_COLUMNS).where(nodes.c.id == bindparam("id"))
_READY = (
    select(nodes.c.id, nodes.c.version)
    .where(nodes.c.project == bindparam("project"), nodes.c.ended_at.is_(None))
    .where(nodes.c.state == NodeState.READY, nodes.c.asked == Asked.PRESENT)
    .order_by(nodes.c.id)
)
_OPEN = (
    select(
        nodes.c.id,
        nodes.c.zone,
        nodes.c.cloud_id,
        nodes.c.digest,
        nodes.c.next_try_at,
        nodes.c.queue_state,
        nodes.c.slices_seen,
        nodes.c.misses,
        nodes.c.tries,
    )
    .where(nodes.c.project == bindparam("project"), nodes.c.ended_at.is_(None))
    .where(nodes.c.sent_at.is_not(None))
)

_FINGERPRINT = (
    select(func.count(), func.sum(nodes.c.version), func.sum(nodes.c.sent_at))
    .where(nodes.c.project == bindparam("project"), nodes.c.ended_at.is_(None))
    .where(nodes.c.sent_at.is_not(None))
)


@dataclass(frozen=True, slots=True)
class KnownNode:
    """What the inventory needs of a node to see whether anything changed. `slices` is their number,
    0 for a node that is not made of several; `misses` is how many lists have lacked it lately,
    `tries` is how often the last step failed."""

    id: str
    zone: str
    cloud_id: str
    digest: bytes
    next_try_at: int | None
    queue_state: str = ""
    slices: int = 0
    misses: int = 0
    tries: int = 0


Fingerprint = tuple[int, int, int]
"""The number of open nodes, and the sums of their versions and of the instants at which they were
sent. If all three are unchanged, no node was changed, added or removed."""


class Nodes:
    """Every node ever requested, by id, by cloud name, and by what is due."""

    def __init__(
        self, connection: Connection, placements: Placements, attributions: Attributions
    ) -> None:
        self._connection = connection
        self._placements = placements
        self._attributions = attributions

    def add(self, node: Node, job: str = "") -> None:
        """Write a new node; `job` is the id of the job that it is made for. Raises Conflict if a
        live node of the project has the name."""
        taken = select(nodes.c.id).where(
            nodes.c.project == node.spec.project,
            nodes.c.name == node.name,
            nodes.c.ended_at.is_(None),
        )
        other = self._connection.execute(taken).scalar_one_or_none()
        if other is not None:
            raise Conflict(
                f"a node named {node.name!r} is alive in project {node.spec.project};"
                " take another name, or delete it first",
                node_id=other,
            )
        whose = replace(first_attribution(node), job=job)
        row = {**self._to_row(node), **_payer_columns(whose)}
        self._connection.execute(insert(nodes).values(**row, digest=b""))
        self._write_labels(node)
        self._attributions.add(whose, node.created_at)

    def save(self, node: Node) -> Node:
        """Write a changed node; returns it with its new version.

        The digest of its last appearance in the cloud is cleared, so that the same appearance
        counts as news. Raises StaleVersion if another transaction wrote the node since it was
        read.
        """
        after = replace(node, version=node.version + 1)
        row = {**self._to_row(after), "digest": b"", "was_id": node.id, "was_version": node.version}
        if self._connection.execute(_SAVE, row).rowcount != 1:
            raise StaleVersion(f"node {node.id} was changed by someone else just now")
        return after

    def get(self, node_id: str) -> Node:
        """The node; raises NotFound."""
        row = self._connection.execute(_BY_ID, {"id": node_id}).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no node {node_id[:80]!r}")
        return _from_row(row)

    def lock(self, node_id: str) -> None:
        """Have other transactions that lock or write the node wait until the commit, so that what
        is read from now on is what is written over. Does nothing on SQLite, which has one writer at
        a time."""
        self._connection.execute(
            select(nodes.c.id).where(nodes.c.id == node_id).with_for_update(key_share=True)
        )

    def find_by_name(self, name: str, project: str | None = None) -> Sequence[Node]:
        """The live nodes with that name, in one project or in any."""
        statement = select(*_COLUMNS).where(nodes.c.name == name, nodes.c.ended_at.is_(None))
        if project is not None:
            statement = statement.where(nodes.c.project == project)
        return [_from_row(row) for row in self._connection.execute(statement).mappings()]

    def find_many(self, ids: Iterable[str]) -> dict[str, Node]:
        """Several nodes by id; unknown ids are left out."""
        found: dict[str, Node] = {}
        wanted = list(ids)
        for start in range(0, len(wanted), 500):
            statement = select(*_COLUMNS).where(nodes.c.id.in_(wanted[start : start + 500]))
            for row in self._connection.execute(statement).mappings():
                found[row["id"]] = _from_row(row)
        return found

    def list_ready(self, project: str, known: Mapping[str, Node]) -> Sequence[Node]:
        """The READY nodes of a project that are to stay, by id. Nodes that are `known` in their
        current version are not read again."""
        versions = dict(self._connection.execute(_READY, {"project": project}).all())
        same = {
            node_id: known[node_id]
            for node_id, version in versions.items()
            if node_id in known and known[node_id].version == version
        }
        changed = self.find_many(node_id for node_id in versions if node_id not in same)
        found = {**same, **changed}
        return [found[node_id] for node_id in versions if node_id in found]

    def list_reserved(self) -> Sequence[Node]:
        """The live nodes on reserved capacity."""
        statement = select(*_COLUMNS).where(nodes.c.model == RESERVED, nodes.c.ended_at.is_(None))
        return [_from_row(row) for row in self._connection.execute(statement).mappings()]

    def list_open(self, project: str) -> Sequence[KnownNode]:
        """The nodes of a project that have been sent to the cloud and have not ended."""
        rows = self._connection.execute(_OPEN, {"project": project})
        return [
            KnownNode(
                *row[:-3], 0 if row[-3] == "[]" else len(loads(row[-3], list[Any])), *row[-2:]
            )
            for row in rows
        ]

    def read_fingerprint(self, project: str) -> Fingerprint:
        """A value that changes with the result of `list_open`, for the price of a count."""
        row = self._connection.execute(_FINGERPRINT, {"project": project}).one()
        return row[0], int(row[1] or 0), int(row[2] or 0)

    def list_due(self, project: str, now: int, limit: int) -> Sequence[str]:
        """The ids of nodes with something to do by now: first nodes that are to end or may have to,
        then the others; within each group, the longest waiting first."""
        wanted = {"now": now, "project": project, "most": limit}
        return self._connection.execute(_DUE, wanted).scalars().all()

    def save_digests(self, digests: Mapping[str, bytes]) -> None:
        """Save the digest of each node's appearance in the cloud, so that an equal appearance need
        not be read again."""
        if digests:
            self._connection.execute(
                update(nodes)
                .where(nodes.c.id == bindparam("node"))
                .values(digest=bindparam("seen")),
                [{"node": node_id, "seen": digest} for node_id, digest in digests.items()],
            )

    def lock_in_order(self, ids: Iterable[str]) -> None:
        """Lock nodes in the order of their ids until the end of the transaction. Every writer of
        several nodes takes them in this order; a statement about several takes them in any."""
        wanted = sorted(set(ids))
        for start in range(0, len(wanted), 500):
            self._connection.execute(
                select(nodes.c.id)
                .where(nodes.c.id.in_(wanted[start : start + 500]))
                .order_by(nodes.c.id)
                .with_for_update(key_share=True)
            )

    def wake(self, ids: Iterable[str], now: int) -> None:
        """Have the lifecycle look at nodes at once."""
        sleeping = list(ids)
        if len(sleeping) > 1:
            self.lock_in_order(sleeping)
        for start in range(0, len(sleeping), 500):
            self._connection.execute(
                update(nodes)
                .where(nodes.c.id.in_(sleeping[start : start + 500]))
                .values(next_try_at=now)
            )

    def save_last_seen(self, ids: Iterable[str], before: int) -> None:
        """Save when missing nodes were last there: in the look before. Nodes that the cloud never
        showed are left out."""
        shown = or_(nodes.c.cloud_uid != "", nodes.c.up_since.is_not(None))
        missing = list(ids)
        for start in range(0, len(missing), 500):
            self._connection.execute(
                update(nodes)
                .where(nodes.c.id.in_(missing[start : start + 500]), nodes.c.seen_at < before)
                .where(shown)
                .values(seen_at=before)
            )

    def shown_at(self, node_id: str) -> int:
        """The start of the last look at the whole project, if it showed the node as it is stored;
        else 0. One statement reads both: a look is recorded only after its missing nodes."""
        statement = (
            select(leases.c.looked_at)
            .join(nodes, nodes.c.project == leases.c.project)
            .where(nodes.c.id == node_id, nodes.c.missed_at.is_(None))
            .where(or_(nodes.c.cloud_uid != "", nodes.c.up_since.is_not(None)))
        )
        return self._connection.execute(statement).scalar_one_or_none() or 0

    def add_miss(self, ids: Iterable[str], now: int) -> None:
        """Increment the missed counter of nodes that a complete list lacked; the first time sets
        the instant."""
        missing = list(ids)
        for start in range(0, len(missing), 500):
            self._connection.execute(
                update(nodes)
                .where(nodes.c.id.in_(missing[start : start + 500]))
                .values(misses=nodes.c.misses + 1, missed_at=func.coalesce(nodes.c.missed_at, now))
            )

    def clear_missed(self, ids: Iterable[str]) -> None:
        """Reset the missed counter of nodes that are listed again. Bumps `version`, so that a
        concurrent close based on the old counter fails."""
        again = list(ids)
        for start in range(0, len(again), 500):
            self._connection.execute(
                update(nodes)
                .where(nodes.c.id.in_(again[start : start + 500]))
                .values(misses=0, missed_at=None, version=nodes.c.version + 1)
            )

    def read_census(self, project: str) -> FleetCensus:
        """How many nodes should be in the cloud, and how many of them are missed."""
        present = nodes.c.asked != Asked.ABSENT
        statement = select(func.count(), func.count(nodes.c.missed_at)).where(
            nodes.c.project == project,
            nodes.c.ended_at.is_(None),
            nodes.c.sent_at.is_not(None),
            present,
        )
        return FleetCensus(*self._connection.execute(statement).one())

    def add_posted(self, usage: Usage, nanos: int, unpriced_seconds: int) -> None:
        """Add to the posted cost and the unpriced seconds of a node, and save where its open tail
        begins; called in the transaction that posts it.

        An interval that has ended removes no tail but its own.
        """
        values: dict[str, Any] = {
            "posted_nanos": nodes.c.posted_nanos + nanos,
            "unpriced_seconds": nodes.c.unpriced_seconds + unpriced_seconds,
        }
        if usage.slice == WHOLE:
            start: Any = usage.start
            until: Any = usage.posted_until
            if usage.end is not None:
                later = nodes.c.metered_from > usage.start
                start, until = (
                    case((later, c)) for c in (nodes.c.metered_from, nodes.c.metered_until)
                )
            values |= {"metered_from": start, "metered_until": until}
        else:
            # The open tails of a node of several slices, after one of them was posted.
            kept = select(nodes.c.tails).where(nodes.c.id == usage.node_id).with_for_update()
            text = self._connection.execute(kept).scalar_one()
            tails = loads(text, dict[str, tuple[int, int]]) if text else {}
            key = str(usage.slice)
            if usage.end is None:
                tails[key] = usage.start, usage.posted_until
            elif key in tails and tails[key][0] <= usage.start:
                del tails[key]
            values["tails"] = dumps(tails) if tails else ""
        self._connection.execute(update(nodes).where(nodes.c.id == usage.node_id).values(**values))

    def renew_views(self) -> int:
        """Renew the stored views that an older program wrote; returns how many. A node that changes
        meanwhile gets the view of that change."""
        outdated: Select[Any] = select(*_COLUMNS).where(nodes.c.view_format != FORMAT)
        stale = [_from_row(row) for row in self._connection.execute(outdated).mappings()]
        for node in stale:
            self._connection.execute(
                update(nodes)
                .where(nodes.c.id == node.id, nodes.c.version == node.version)
                .values(**self._view_columns(node))
            )
        return len(stale)

    def _to_row(self, node: Node) -> dict[str, Any]:
        row = {name: getattr(node, name) for name in _FIELDS}
        row["spec"] = dumps(node.spec)
        row["labels"] = dumps(node.labels)
        row["endpoints"] = dumps(node.endpoints)
        row["slices_seen"] = dumps(node.slices_seen)
        row["project"] = node.spec.project
        row["generation"] = node.spec.generation
        row["model"] = node.spec.provisioning_model
        row["chips"] = node.spec.chips
        return row | self._view_columns(node)

    def _view_columns(self, node: Node) -> dict[str, Any]:
        """The document that callers see, up to the growing figures that close it, and the columns
        from which those are computed."""
        view = view_of(node, self._placements.list_by_node(node.id))
        shown = {"view": dumps(view)[:-1], "price_key": price_key(node)}
        return shown | {"view_format": FORMAT}

    def save_payer(self, node: Node, whose: Attribution, now: int) -> Node:
        """Write a node with a new payer and its labels; returns it as `save` does."""
        after = self.save(node)
        self._write_labels(after)
        self.charge_to(whose, now)
        return after

    def charge_to(self, whose: Attribution, now: int) -> None:
        """Charge another payer for a node from `whose.since` on; the node's own owner stays."""
        self._attributions.add(whose, now)
        self._connection.execute(
            update(nodes).where(nodes.c.id == whose.node_id).values(**_payer_columns(whose))
        )

    def rename_owner(self, node: Node) -> Node:
        """Write a node with another owner, team or labels while a job pays for it."""
        after = self.save(node)
        self._write_labels(after)
        return after

    def _write_labels(self, node: Node) -> None:
        self._connection.execute(delete(node_labels).where(node_labels.c.node_id == node.id))
        if node.labels:
            self._connection.execute(
                insert(node_labels),
                [{"node_id": node.id, "key": k, "value": v} for k, v in node.labels.items()],
            )


def _payer_columns(whose: Attribution) -> dict[str, str]:
    return {
        "payer_owner": whose.owner,
        "payer_team": whose.team,
        "payer_labels": dumps(whose.labels),
        "payer_job": whose.job,
    }


def _from_row(row: RowMapping) -> Node:
    return Node(
        **{
            **row,
            "labels": loads(row["labels"], dict[str, str]),
            "spec": loads(row["spec"], NodeSpec),
            "endpoints": loads(row["endpoints"], tuple[Endpoint, ...]),
            "slices_seen": loads(row["slices_seen"], tuple[Slice, ...]),
            "asked": Asked(row["asked"]),
        }
    )
