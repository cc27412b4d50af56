"""What our own books say of resources on a bill: whose they are, what was charged, who saw them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from service.domain.clock import rfc3339
from service.domain.nodes.node import NodeState
from service.domain.reconciliation.reservations import reservation_named
from service.domain.reconciliation.variance import Charged, InventorySight, Seen
from service.store.bills import StagedUsage
from service.store.tables import ledger, nodes, observations, orphans, placements, usage

_CHUNK = 500
_NUMBERED = re.compile(r"(.+)-\d{1,4}")
_MACHINE = and_(ledger.c.accelerator_type == ledger.c.generation, ledger.c.reservation_id.is_(None))
"""Lines of machines that users drive a TPU Node with: they have a type, which is both. So has what
of a reservation is unused, but that says of which; and no accelerator is called as its generation.
"""


class BillMatches:
    """The ledger and the inventory, asked about what a bill names."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def whose(self, staged: Sequence[StagedUsage]) -> Mapping[tuple[str, str, str], str]:
        """The node behind each (project, resource, label) that is one of ours.

        By our label where the bill shows it, else by the cloud's name, which no two attempts of
        ours share, with the number of a slice behind it or without, else by the cloud's uid.
        A reservation is no node, whatever it is called.
        """
        return self.whose_are({(one.project, one.resource, one.label) for one in staged})

    def whose_are(
        self, resources: Collection[tuple[str, str, str]]
    ) -> Mapping[tuple[str, str, str], str]:
        """The same of resources by (project, resource, label)."""
        keys = {one for one in resources if not reservation_named(one[1])}
        leaves = {_leaf(resource) for _, resource, _ in keys if resource}
        names = leaves | {_unnumbered(leaf) for leaf in leaves}
        by_id = self._by(nodes.c.id, {label for _, _, label in keys if label})
        by_name = self._attempts(names)
        unknown = names - {name for _, name in by_name}
        by_name |= self._by(nodes.c.cloud_id, unknown)
        by_uid = self._by(nodes.c.cloud_uid, {one for one in unknown if one.isdigit()})
        found = {}
        for project, resource, label in keys:
            leaf = _leaf(resource)
            node_id = (
                by_id.get((project, label))
                or by_name.get((project, leaf))
                or by_uid.get((project, leaf))
                or by_name.get((project, _unnumbered(leaf)))
            )
            if node_id:
                found[project, resource, label] = node_id
        return found

    def _attempts(self, names: Collection[str]) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for some in _chunks(names):
            statement = (
                select(nodes.c.project, placements.c.cloud_id, nodes.c.id)
                .join(nodes, nodes.c.id == placements.c.node_id)
                .where(placements.c.cloud_id.in_(some))
            )
            found |= {(row[0], row[1]): row[2] for row in self._connection.execute(statement)}
        return found

    def _by(self, column: Any, values: Collection[str]) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for some in _chunks(values):
            statement = select(nodes.c.project, column, nodes.c.id).where(column.in_(some))
            rows = self._connection.execute(statement.order_by(nodes.c.id))
            found |= {(row[0], row[1]): row[2] for row in rows}
        return found

    def charged(self, projects: Sequence[str], start: int, end: int) -> Sequence[Charged]:
        """What the ledger says of TPUs in the hours in [start, end), adjustments added up with what
        they adjust."""
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
            .where(_within(projects, start, end), ~_MACHINE)
            .group_by(*by, columns.reservation_id)
        )
        return [_charged(row) for row in self._connection.execute(statement)]

    def machines(self, projects: Sequence[str], start: int, end: int) -> tuple[int, int]:
        """(entries, nano-dollars) that the ledger has of users' own machines in the hours in
        [start, end): Google bills them as any machine, so that they are compared with nothing."""
        amount = func.coalesce(func.sum(ledger.c.amount_nanos), 0)
        statement = select(func.count(), amount).where(_within(projects, start, end), _MACHINE)
        entries, nanos = self._connection.execute(statement).one()
        return entries, int(nanos)

    def charged_hours(
        self, projects: Sequence[str], start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """The hours in [start, end) that the ledger has rows of TPUs of, each with their number."""
        columns = ledger.c
        statement = (
            select(columns.hour, func.count())
            .where(_within(projects, start, end), ~_MACHINE)
            .group_by(columns.hour)
            .order_by(columns.hour)
        )
        for row in self._connection.execute(statement):
            yield row[0], row[1]

    def of_nodes(
        self, node_ids: Collection[str], start: int, end: int
    ) -> Mapping[str, InventorySight]:
        """What the inventory saw of nodes, and how we know that they ran in [start, end)."""
        looks = self._looks(node_ids)
        spans = self._spans(node_ids, start, end)
        found = {}
        for node_id in node_ids:
            number, last = looks.get(node_id, (0, 0))
            times = "1 poll" if number == 1 else f"{number} looks"
            saw = f"{times} saw it READY, the last at {rfc3339(last)}" if number else ""
            words = [*([saw] if saw else ["no poll ever saw it READY"]), *spans.get(node_id, [])]
            seen = Seen.OBSERVED if number else Seen.RECORDED
            found[node_id] = InventorySight(seen, "; ".join(words))
        return found

    def _looks(self, node_ids: Collection[str]) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        columns = observations.c
        for some in _chunks(node_ids):
            statement = (
                select(columns.node_id, func.count(), func.max(columns.observed_at))
                .where(columns.node_id.in_(some), columns.state == NodeState.READY)
                .group_by(columns.node_id)
            )
            found |= {row[0]: (row[1], row[2]) for row in self._connection.execute(statement)}
        return found

    def _spans(self, node_ids: Collection[str], start: int, end: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        columns = usage.c
        for some in _chunks(node_ids):
            statement = (
                select(
                    columns.node_id,
                    columns.start_at,
                    columns.start_evidence,
                    columns.end_at,
                    columns.end_evidence,
                )
                .where(columns.node_id.in_(some), columns.start_at < end)
                .where(or_(columns.end_at.is_(None), columns.end_at > start))
                .order_by(columns.node_id, columns.start_at)
            )
            for row in self._connection.execute(statement):
                found[row[0]].append(_span(*row[1:]))
        return {node_id: words[:2] for node_id, words in found.items()}

    def of_orphans(self, projects: Sequence[str]) -> Mapping[tuple[str, str], InventorySight]:
        """What the inventory saw and no record of ours accounts for, by project and cloud id."""
        columns = orphans.c
        statement = select(
            columns.project, columns.path, columns.kind, columns.first_seen, columns.last_seen
        ).where(columns.project.in_(projects))
        return {
            (row[0], _leaf(row[1])): InventorySight(
                Seen.ORPHAN,
                f"the inventory saw it from {rfc3339(row[3])} to {rfc3339(row[4])}, as"
                f" {row[2].replace('_', ' ')}; see: tpu-steward orphans list",
            )
            for row in self._connection.execute(statement)
        }


def _within(projects: Sequence[str], start: int, end: int) -> ColumnElement[bool]:
    columns = ledger.c
    return and_(columns.project.in_(projects), columns.hour >= start, columns.hour < end)


def _charged(row: Any) -> Charged:
    project, node_id, generation, model, hour, reservation_id, rows, *sums = row
    amount, at_list, chip_seconds = sums
    return Charged(
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


def _leaf(resource: str) -> str:
    """The last part of a resource's name: the cloud's id of it, or its uid."""
    return resource.rstrip("/").rpartition("/")[2]


def _unnumbered(leaf: str) -> str:
    """The name without the number that Google puts behind it for a slice."""
    found = _NUMBERED.fullmatch(leaf)
    return found[1] if found else leaf


def orphan_key(project: str, resource: str) -> tuple[str, str]:
    """Under which an orphan of that name on a bill is found."""
    return project, _leaf(resource)


def _span(start: int, start_evidence: str, end: int | None, end_evidence: str | None) -> str:
    until = "it still runs" if end is None else f"to {rfc3339(end)} ({end_evidence or 'assumed'})"
    return f"used from {rfc3339(start)} ({start_evidence}) {until}"


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(values)
    for start in range(0, len(ordered), _CHUNK):
        yield ordered[start : start + _CHUNK]
