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

from sqlalchemy import Connection, Dialect, Select, bindparam, exists, select
from sqlalchemy.sql.compiler import SQLCompiler

from service.domain.catalog.zones import region_of
from service.domain.clock import HOUR
from service.domain.errors import NotFound, Rejected
from service.domain.metering.usage import pool_for
from service.domain.money import format_usd, half_even
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import Price, PriceBook, Sku
from service.store.json_columns import loads
from service.store.pricebook import PriceShelf
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
    name: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    live: bool = False


ANY = NodeFilter()
"""Every node."""

_ID_AT = 7
_PARTS = 9
"""The number of parts of a price key; see `price_key`."""

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
        self, only: NodeFilter, size: int, token: str, shelf: PriceShelf, now: int
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
            rows = self._connection.execute(_add_filters(statement, only), values).all()
        more = rows[size - 1][_ID_AT] if len(rows) > size else ""
        book = self._read_book(rows, shelf)
        return NodeListPage(_Clerk(book, now).to_json_array(rows[:size]), more)

    def read_one(self, node_id: str, shelf: PriceShelf, now: int) -> bytes:
        """One node; raises NotFound."""
        row = self._connection.execute(_ONE, {"id": node_id}).one_or_none()
        if row is None:
            raise NotFound(f"there is no node {node_id[:80]!r}")
        return _Clerk(self._read_book([row], shelf), now).to_json_array([row])[1:-1].encode()

    def _read_book(self, rows: Sequence[Any], shelf: PriceShelf) -> PriceBook:
        """The price book as of these rows; its age came with them."""
        if not rows:
            return shelf.last
        return shelf.get_book_at(rows[0][-1], Prices(self._connection))


class _Clerk:
    """Adds the figures that grow to the view; looks up each price once for a page."""

    def __init__(self, book: PriceBook, now: int) -> None:
        self._book = book
        self._now = now
        self._rates: dict[str, _Rate] = {}

    def to_json_array(self, rows: Iterable[Any]) -> str:
        """The views as a JSON array, each with the figures that grow: `hourly_cost` (null if no
        price is known), `cost`, and the seconds that it leaves out because their price is
        unknown."""
        pieces: list[str] = []
        add = pieces.append
        for view, posted_nanos, left_out, key, start, posted, tails, _, _ in rows:
            cost, unpriced, beginning = posted_nanos, left_out, _COSTS_NOTHING_MORE
            if key:
                rate = self._rates.get(key) or self._add_rate(key)
                beginning = rate.beginning
                if start is not None:
                    now = max(self._now, posted)
                    cost += rate.tail_cost(self._book, start, posted, now)
                    unpriced += rate.unpriced_seconds(self._book, posted, now)
                # (start, posted) of each slice that is billed now
                slices = loads(tails, dict[str, tuple[int, int]]).values() if tails else ()
                for began, reached in slices:
                    now = max(self._now, reached)
                    cost += rate.tail_cost(self._book, began, reached, now)
                    unpriced += rate.unpriced_seconds(self._book, reached, now)
            add(view)
            add(f'{beginning}{format_usd(cost)}","unpriced_seconds":{unpriced}}},')
        return f"[{''.join(pieces)[:-1]}]"

    def _add_rate(self, key: str) -> _Rate:
        parts = key.split("|")
        parts += [""] * (_PARTS - len(parts))
        generation, model, region, single, chips, slices, pool, vm, vm_model = parts
        tpu = self._make_line(Sku(generation, model, region, single == "1", pool), int(chips))
        driver = self._make_line(Sku(vm, vm_model, region, is_vm=True), 1) if vm else None
        hourly = tpu.hourly_rate(int(slices or 1))
        if driver is not None:
            its = driver.hourly_rate(1)
            hourly = None if hourly is None or its is None else hourly + its
        spelled = "null" if hourly is None else f'"{format_usd(hourly)}"'
        beginning = f',"hourly_cost":{spelled},"cost":"'
        self._rates[key] = rate = _Rate(beginning, tpu, driver)
        return rate

    def _make_line(self, sku: Sku, units: int) -> _Line:
        since = self._book.steady_since(sku, self._now)
        return _Line(sku, units, self._book.find_price(sku, self._now), since)


@dataclass(frozen=True, slots=True)
class _Rate:
    """The cost of nodes of one kind: the hourly cost as JSON text, and their lines."""

    beginning: str
    tpu: _Line
    vm: _Line | None

    def unpriced_seconds(self, book: PriceBook, posted: int, now: int) -> int:
        """Seconds since the end of the posted part whose price is unknown."""
        found = self.tpu.unpriced_seconds(book, posted, now)
        return found if self.vm is None else found + self.vm.unpriced_seconds(book, posted, now)

    def tail_cost(self, book: PriceBook, start: int, posted: int, now: int) -> int:
        """Nano-dollars since the end of the posted part."""
        found = self.tpu.tail_cost(book, start, posted, now)
        return found if self.vm is None else found + self.vm.tail_cost(book, start, posted, now)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the cost: some chips, or the one machine, at a price that has held since
    `since`."""

    sku: Sku
    units: int
    price: Price | None
    since: int

    def hourly_rate(self, times: int) -> int | None:
        """Nano-dollars an hour for so many of them."""
        return None if self.price is None else times * self.units * self.price.per_chip_hour

    def unpriced_seconds(self, book: PriceBook, posted: int, now: int) -> int:
        """Seconds since the end of the posted part whose price is unknown."""
        if self.price is not None and self.since <= posted:
            return 0
        cuts = book.list_cuts(self.sku, posted, now)
        return sum(cut.end - cut.start for cut in cuts if cut.price is None)

    def tail_cost(self, book: PriceBook, start: int, posted: int, now: int) -> int:
        """Nano-dollars since the end of the posted part: R(F(now)) - R(F(posted))."""
        if self.price is not None and self.since <= start:
            rate = self.units * self.price.per_chip_hour
            return half_even(rate * (now - start), HOUR) - half_even(rate * (posted - start), HOUR)
        total = until_posted = 0
        for cut in book.list_cuts(self.sku, start, now):
            rate = 0 if cut.price is None else self.units * cut.price.per_chip_hour
            total += rate * (cut.end - cut.start)
            until_posted += rate * max(0, min(cut.end, posted) - cut.start)
        return half_even(total, HOUR) - half_even(until_posted, HOUR)


@lru_cache(8)
def _compile_once(statement: Select[Any], dialect: Dialect) -> SQLCompiler:
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled


def price_key(node: Node) -> str:
    """Everything that the price of a node depends on, in one text, so that a page reads one column.
    For a node of several slices: the parts of one slice, and the number of slices. Empty parts at
    the end are left out.

    Empty once the node has ended, because it costs nothing more.
    """
    if node.has_ended:
        return ""
    spec = node.spec
    single = "1" if spec.hosts == spec.slices else "0"
    sku = (spec.generation, spec.provisioning_model, region_of(node.zone), single)
    slices = str(spec.slices) if spec.slices > 1 else ""
    vm = ("", "") if spec.vm is None else (spec.vm.machine_type, spec.vm.provisioning_model)
    parts = (*sku, spec.chips // spec.slices, slices, pool_for(spec, node.zone), *vm)
    return "|".join(map(str, parts)).rstrip("|")


def _add_filters(statement: Select[Any], only: NodeFilter) -> Select[Any]:
    for name in ("project", "state", "team", "owner", "zone", "generation", "name"):
        values = getattr(only, name)
        if values:
            statement = statement.where(nodes.c[name].in_(values))
    if only.live:
        statement = statement.where(nodes.c.ended_at.is_(None))
    for key, value in only.labels.items():
        statement = statement.where(
            exists().where(
                node_labels.c.node_id == nodes.c.id,
                node_labels.c.key == key,
                node_labels.c.value == value,
            )
        )
    return statement
