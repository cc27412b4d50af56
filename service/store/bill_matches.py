"""Matches the resources on a bill with our records: whose they are, what was charged, who saw
them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from service.domain.clock import to_rfc3339
from service.domain.nodes.node import NodeState
from service.domain.reconciliation.reservations import reservation_named
from service.domain.reconciliation.variance import Charged, InventorySight, Seen
from service.store.bills import StagedUsage
from service.store.tables import ledger, nodes, observations, orphans, placements, usage

_CHUNK = 500
_NUMBERED = re.compile(r"(.+)-\d{1,4}")
_MACHINE = and_(ledger.c.accelerator_type == ledger.c.generation, ledger.c.reservation_id.is_(None))
"""Lines of machines that drive a TPU Node for users: their type is also their generation. The
unused part of a reservation looks the same, but names its reservation. No accelerator type equals
its generation."""


class BillMatches:
    """Queries the ledger and the inventory for what a bill names."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_staged_nodes(
        self, staged: Sequence[StagedUsage]
    ) -> Mapping[tuple[str, str, str], str]:
        """The node of each (project, resource, label) that is one of ours.

        A node is found by our label if the bill shows it. Otherwise by the cloud's name, which no
        two attempts of ours share, with the number of a slice behind it or without. Otherwise by
        the cloud's uid. A reservation is never a node, whatever its name.
        """
        return self.find_nodes({(usage.project, usage.resource, usage.label) for usage in staged})

    def find_nodes(
        self, resources: Collection[tuple[str, str, str]]
    ) -> Mapping[tuple[str, str, str], str]:
        """The nodes of resources by (project, resource, label), found as in `find_staged_nodes`."""
        keys = {key for key in resources if not reservation_named(key[1])}
        leaves = {_leaf_of(resource) for _, resource, _ in keys if resource}
        names = leaves | {_without_number(leaf) for leaf in leaves}
        by_id = self._find_by(nodes.c.id, {label for _, _, label in keys if label})
        by_name = self._find_by(placements.c.cloud_id, names)
        unknown = names - {name for _, name in by_name}
        by_name |= self._find_by(nodes.c.cloud_id, unknown)
        by_uid = self._find_by(nodes.c.cloud_uid, {name for name in unknown if name.isdigit()})
        found = {}
        for project, resource, label in keys:
            leaf = _leaf_of(resource)
            node_id = (
                by_id.get((project, label))
                or by_name.get((project, leaf))
                or by_uid.get((project, leaf))
                or by_name.get((project, _without_number(leaf)))
            )
            if node_id:
                found[project, resource, label] = node_id
        return found

    def _find_by(self, column: Any, values: Collection[str]) -> dict[tuple[str, str], str]:
        """The ids of nodes by project and the value of a column of nodes or of their placements."""
        statement = select(nodes.c.project, column, nodes.c.id)
        if column.table is placements:
            statement = statement.join(nodes, nodes.c.id == placements.c.node_id)
        else:
            statement = statement.order_by(nodes.c.id)
        found: dict[tuple[str, str], str] = {}
        for some in _iter_chunks(values):
            rows = self._connection.execute(statement.where(column.in_(some)))
            found |= {(row[0], row[1]): row[2] for row in rows}
        return found

    def list_charged(self, projects: Sequence[str], start: int, end: int) -> Sequence[Charged]:
        """The charges of TPUs in the hours in [start, end), with adjustments added to what they
        adjust."""
        columns = ledger.c
        by = [columns[name] for name in ("project", "node_id", "generation", "model", "hour")]
        statement = (
            select(
                *by,
                columns.reservation_id,
                func.count(),
                func.sum(columns.amount_nanos),
                case(
                    (func.count(columns.list_nanos) == func.count(), func.sum(columns.list_nanos))
                ),
                func.sum(columns.chip_seconds),
            )
            .where(_is_within(projects, start, end), ~_MACHINE)
            .group_by(*by, columns.reservation_id)
        )
        return [
            Charged(
                project=project,
                node_id=node_id,
                generation=generation,
                model=model,
                hour=hour,
                rows=rows,
                amount=int(amount),
                at_list=None if at_list is None else int(at_list),
                chip_seconds=int(chip_seconds),
                reservation_id=reservation_id or "",
            )
            for project, node_id, generation, model, hour, reservation_id, rows, *sums in (
                self._connection.execute(statement)
            )
            for amount, at_list, chip_seconds in [sums]
        ]

    def sum_machines(self, projects: Sequence[str], start: int, end: int) -> tuple[int, int]:
        """(entries, nano-dollars) of users' own machines in the hours in [start, end). Google bills
        them as any machine, so they are not compared."""
        amount = func.coalesce(func.sum(ledger.c.amount_nanos), 0)
        statement = select(func.count(), amount).where(_is_within(projects, start, end), _MACHINE)
        entries, nanos = self._connection.execute(statement).one()
        return entries, int(nanos)

    def iter_charged_hours(
        self, projects: Sequence[str], start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """The hours in [start, end) in which the ledger has rows of TPUs, each with their
        number."""
        columns = ledger.c
        statement = (
            select(columns.hour, func.count())
            .where(_is_within(projects, start, end), ~_MACHINE)
            .group_by(columns.hour)
            .order_by(columns.hour)
        )
        for row in self._connection.execute(statement):
            yield row[0], row[1]

    def find_node_sights(
        self, node_ids: Collection[str], start: int, end: int
    ) -> Mapping[str, InventorySight]:
        """What the inventory saw of nodes, and the evidence that they ran in [start, end)."""
        looks: dict[str, tuple[int, int]] = {}
        columns = observations.c
        for some in _iter_chunks(node_ids):
            statement = (
                select(columns.node_id, func.count(), func.max(columns.observed_at))
                .where(columns.node_id.in_(some), columns.state == NodeState.READY)
                .group_by(columns.node_id)
            )
            looks |= {row[0]: (row[1], row[2]) for row in self._connection.execute(statement)}
        spans: dict[str, list[str]] = defaultdict(list)
        for some in _iter_chunks(node_ids):
            ran = (
                select(
                    usage.c.node_id,
                    usage.c.start_at,
                    usage.c.start_evidence,
                    usage.c.end_at,
                    usage.c.end_evidence,
                )
                .where(usage.c.node_id.in_(some), usage.c.start_at < end)
                .where(or_(usage.c.end_at.is_(None), usage.c.end_at > start))
                .order_by(usage.c.node_id, usage.c.start_at)
            )
            for node_id, began_at, evidence, ended_at, end_evidence in self._connection.execute(
                ran
            ):
                until = "it still runs"
                if ended_at is not None:
                    until = f"to {to_rfc3339(ended_at)} ({end_evidence or 'assumed'})"
                spans[node_id].append(f"used from {to_rfc3339(began_at)} ({evidence}) {until}")
        found = {}
        for node_id in node_ids:
            number, last = looks.get(node_id, (0, 0))
            times = "1 poll" if number == 1 else f"{number} polls"
            saw = f"{times} saw it READY, the last at {to_rfc3339(last)}" if number else ""
            words = [*([saw] if saw else ["no poll ever saw it READY"]), *spans[node_id][:2]]
            seen = Seen.OBSERVED if number else Seen.RECORDED
            found[node_id] = InventorySight(seen, "; ".join(words))
        return found

    def find_orphan_sights(
        self, projects: Sequence[str]
    ) -> Mapping[tuple[str, str], InventorySight]:
        """Resources that the inventory saw without a record of ours, by project and cloud id."""
        columns = orphans.c
        statement = select(
            columns.project, columns.path, columns.kind, columns.first_seen, columns.last_seen
        ).where(columns.project.in_(projects))
        return {
            (row[0], _leaf_of(row[1])): InventorySight(
                Seen.ORPHAN,
                f"the inventory saw it from {to_rfc3339(row[3])} to {to_rfc3339(row[4])}, as"
                f" {row[2].replace('_', ' ')}; see: tpu-steward orphans list",
            )
            for row in self._connection.execute(statement)
        }


def _is_within(projects: Sequence[str], start: int, end: int) -> ColumnElement[bool]:
    columns = ledger.c
    return and_(columns.project.in_(projects), columns.hour >= start, columns.hour < end)


def _leaf_of(resource: str) -> str:
    """The last part of a resource's name: the cloud's id or uid."""
    return resource.rstrip("/").rpartition("/")[2]


def _without_number(leaf: str) -> str:
    """The name without the number that Google appends for a slice."""
    found = _NUMBERED.fullmatch(leaf)
    return found[1] if found else leaf


def orphan_key(project: str, resource: str) -> tuple[str, str]:
    """The key of an orphan with that name on a bill."""
    return project, _leaf_of(resource)


def _iter_chunks(values: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(values)
    for start in range(0, len(ordered), _CHUNK):
        yield ordered[start : start + _CHUNK]
