"""Nodes as callers see them, page by page: the stored view, and the cost of each as of now.

Dashboards and scripts call this again and again. The view is stored as text beside the node, so a
page costs one statement, and a few integer operations for each node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Select, and_, bindparam, exists, select
from sqlalchemy.sql.compiler import SQLCompiler

from service.domain.errors import NotFound, Rejected
from service.domain.metering.running import PriceParts, RunningCost, price_parts_of
from service.domain.money import format_usd
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import PriceBook, Sku
from service.store.fleet_counts import FAILING
from service.store.json_columns import loads
from service.store.pricebook import PriceBookCache
from service.store.prices import AGE, Prices
from service.store.tables import node_labels, nodes

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_SHOWN = select(
    nodes.c.view,
    nodes.c.posted_nanos,
    nodes.c.unpriced_seconds,
    nodes.c.price_key,
    nodes.c.metered_from,
    nodes.c.metered_until,
    nodes.c.tails,
    nodes.c.id,
    AGE,
)
_ONE = _SHOWN.where(nodes.c.id == bindparam("id"))
_SEVERAL = _SHOWN.where(nodes.c.id.in_(bindparam("ids", expanding=True)))
_NEWEST = _SHOWN.order_by(nodes.c.id.desc()).limit(bindparam("limit"))
_OLDER = _NEWEST.where(nodes.c.id < bindparam("before"))


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Which nodes are listed: those that match every field that is set, with any value of each."""

    project: Sequence[str] = ()
    state: Sequence[str] = ()
    team: Sequence[str] = ()
    owner: Sequence[str] = ()
    zone: Sequence[str] = ()
    generation: Sequence[str] = ()
    model: Sequence[str] = ()
    name: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    live: bool = False
    ended: bool = False
    failing: bool = False
    """Only nodes whose deletion fails."""
    ids: Sequence[str] = ()
    search: str = ""
    """A part of the name, in capitals or not."""


ANY = NodeFilter()
"""Every node."""

LIVE = NodeFilter(live=True)
"""Every node that has not ended."""

_ID_AT = 7

_COSTS_NOTHING_MORE = ',"hourly_cost":"0.000000000","cost":"'


@dataclass(frozen=True, slots=True)
class NodeListPage:
    """Some nodes as a JSON array, and the token of the next page; empty on the last."""

    nodes: str
    next_page_token: str

    def to_dicts(self) -> list[dict[str, Any]]:
        """The nodes as plain values, for callers who do not pass on the JSON."""
        return loads(self.nodes, list[dict[str, Any]])


class NodeList:
    """Reads nodes for callers; `service.store.nodes` reads them for controllers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read_page(
        self, only: NodeFilter, size: int, token: str, cache: PriceBookCache, now: int
    ) -> NodeListPage:
        """The newest nodes before `token`. Raises Rejected for an invalid token."""
        if token and not _ID.fullmatch(token):
            raise Rejected("the page_token is not one that this service issued", field="page_token")
        statement = _OLDER if token else _NEWEST
        values = {"limit": size + 1, **({"before": token} if token else {})}
        rows: Sequence[Any]
        if only == ANY:
            # The rows of the driver: wrapping them would double the cost of a page.
            compiled = _compile_once(statement, self._connection.dialect)
            parameters: Any = compiled.construct_params(values)
            if compiled.positiontup is not None:  # the driver takes parameters by position
                parameters = tuple(parameters[name] for name in compiled.positiontup)
            with closing(self._connection.exec_driver_sql(compiled.string, parameters)) as result:
                assert result.cursor is not None
                rows = result.cursor.fetchall()
        else:
            rows = self._connection.execute(add_filters(statement, only), values).all()
        more = rows[size - 1][_ID_AT] if len(rows) > size else ""
        book = self._read_book(rows, cache)
        return NodeListPage(_NodeListWriter(book, now).to_json_array(rows[:size]), more)

    def read_one(self, node_id: str, cache: PriceBookCache, now: int) -> bytes:
        """One node; raises NotFound."""
        row = self._connection.execute(_ONE, {"id": node_id}).one_or_none()
        if row is None:
            raise NotFound(f"there is no node {node_id[:80]!r}")
        return (
            _NodeListWriter(self._read_book([row], cache), now).to_json_array([row])[1:-1].encode()
        )

    def read_many(
        self, ids: Sequence[str], cache: PriceBookCache, now: int
    ) -> list[dict[str, Any]]:
        """Nodes by id, in the order of the ids; unknown ids are left out."""
        rows = self._connection.execute(_SEVERAL, {"ids": ids}).all()
        writer = _NodeListWriter(self._read_book(rows, cache), now)
        found = loads(writer.to_json_array(rows), list[dict[str, Any]])
        by_id = {node["id"]: node for node in found}
        return [by_id[node_id] for node_id in ids if node_id in by_id]

    def _read_book(self, rows: Sequence[Any], cache: PriceBookCache) -> PriceBook:
        """The price book as of these rows; its age came with them."""
        if not rows:
            return cache.last
        return cache.get_book_at(rows[0][-1], Prices(self._connection))


class _NodeListWriter:
    """Adds the figures that grow to the view; looks up each price once for a page."""

    def __init__(self, book: PriceBook, now: int) -> None:
        self._book = book
        self._now = now
        self._kinds: dict[str, tuple[str, RunningCost]] = {}
        """By price key: the hourly cost as JSON text, and the cost of such nodes."""

    def to_json_array(self, rows: Iterable[Any]) -> str:
        """The views as a JSON array, each with the figures that grow: `hourly_cost` (null if no
        price is known), `cost`, and the seconds that it leaves out because their price is
        unknown."""
        pieces: list[str] = []
        add = pieces.append
        for view, cost, unpriced, key, start, posted, tails, _, _ in rows:
            beginning = _COSTS_NOTHING_MORE
            if key:
                if key not in self._kinds:
                    running = RunningCost(decode_parts(key), self._book, self._now)
                    spelled = "null" if running.burn is None else f'"{format_usd(running.burn)}"'
                    self._kinds[key] = f',"hourly_cost":{spelled},"cost":"', running
                beginning, running = self._kinds[key]
                if start is not None:
                    nanos, seconds = running.growth_of(start, posted)
                    cost, unpriced = cost + nanos, unpriced + seconds  # noqa: PLW2901 - the sums
                # (start, posted) of each slice that is billed now
                slices = loads(tails, dict[str, tuple[int, int]]).values() if tails else ()
                for began, reached in slices:
                    nanos, seconds = running.growth_of(began, reached)
                    cost, unpriced = cost + nanos, unpriced + seconds  # noqa: PLW2901 - the sums
            add(view)
            add(f'{beginning}{format_usd(cost)}","unpriced_seconds":{unpriced}}},')
        return f"[{''.join(pieces)[:-1]}]"


@lru_cache(8)
def _compile_once(statement: Select[Any], dialect: Dialect) -> SQLCompiler:
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled


def price_key(node: Node) -> str:
    """The parts of the price of a node as one text. Empty once the node has ended, because it costs
    nothing more."""
    return "" if node.has_ended else encode_parts(price_parts_of(node.spec, node.zone))


def encode_parts(parts: PriceParts) -> str:
    """The parts of a price as the text of one column, so that a page reads one column. Empty parts
    at the end are left out."""
    sku, vm = parts.sku, parts.vm
    texts = (
        *(sku.generation, sku.model, sku.region, "1" if sku.single_device else "0"),
        *(str(parts.chips), str(parts.slices) if parts.slices > 1 else ""),
        sku.pool.replace("%", "%25").replace("|", "%7C"),  # a caller's own text
        *(("", "") if vm is None else (vm.generation, vm.model)),
    )
    return "|".join(texts).rstrip("|")


def decode_parts(text: str) -> PriceParts:
    """The parts of a price from `encode_parts`."""
    generation, model, region, single, chips, *others = text.split("|")
    slices, pool, vm, vm_model = (*others, "", "", "", "")[:4]
    pool = pool.replace("%7C", "|").replace("%25", "%")
    return PriceParts(
        Sku(generation, model, region, single == "1", pool),
        int(chips),
        int(slices or 1),
        Sku(vm, vm_model, region, is_vm=True) if vm else None,
    )


def add_filters(statement: Select[Any], only: NodeFilter) -> Select[Any]:
    """The statement over nodes with the conditions of a filter."""
    for name in ("project", "state", "team", "owner", "zone", "generation", "model", "name"):
        values = getattr(only, name)
        if values:
            statement = statement.where(nodes.c[name].in_(values))
    conditions = (
        (only.live, nodes.c.ended_at.is_(None)),
        (only.ended, nodes.c.ended_at.is_not(None)),
        (only.failing, and_(*FAILING)),
        (only.ids, nodes.c.id.in_(only.ids)),
        (only.search, nodes.c.name.icontains(only.search, autoescape=True)),
    )
    statement = statement.where(*(condition for is_asked, condition in conditions if is_asked))
    for key, value in only.labels.items():
        statement = statement.where(
            exists().where(
                node_labels.c.node_id == nodes.c.id,
                node_labels.c.key == key,
                node_labels.c.value == value,
            )
        )
    return statement
