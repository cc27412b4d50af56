"""Nodes as callers are shown them, page by page: the stored view, and what each costs as of now.

This is the path that dashboards and scripts ask over and over. The view is kept as text beside the
node, so a page costs one statement, and for each node a few integer operations.
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
from service.domain.money import half_even, usd
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
    """Which nodes are asked for: those that match every field that is set, any value of each."""

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
"""Of a price key: see `price_key`."""

_COSTS_NOTHING_MORE = ',"hourly_cost":"0.000000000","cost":"'


@dataclass(frozen=True, slots=True)
class NodeListPage:
    """Some nodes as a JSON array, and the token of the next page; empty on the last."""

    nodes: str
    next_page_token: str

    def read(self) -> list[dict[str, Any]]:
        """The nodes as plain values, for those who do not pass them on as they are."""
        return loads(self.nodes, list[dict[str, Any]])


class NodeList:
    """Reads nodes for those who ask; `service.store.nodes` reads them for those who act."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self, only: NodeFilter, size: int, token: str, shelf: PriceShelf, now: int
    ) -> NodeListPage:
        """The newest nodes before `token`. Raises Rejected when the token is none of ours."""
        if token and not _ID.fullmatch(token):
            raise Rejected("the page_token is not one that this service issued", field="page_token")
        statement = _OLDER if token else _NEWEST
        values = {"limit": size + 1, **({"before": token} if token else {})}
        if only == ANY:
            rows = self._raw(statement, values)
        else:
            rows = self._connection.execute(_narrowed(statement, only), values).all()
        more = rows[size - 1][_ID_AT] if len(rows) > size else ""
        book = self._book(rows, shelf)
        return NodeListPage(_Clerk(book, now).array(rows[:size]), more)

    def one(self, node_id: str, shelf: PriceShelf, now: int) -> bytes:
        """One node; raises NotFound."""
        row = self._connection.execute(_ONE, {"id": node_id}).one_or_none()
        if row is None:
            raise NotFound(f"there is no node {node_id[:80]!r}")
        return _Clerk(self._book([row], shelf), now).array([row])[1:-1].encode()

    def _raw(self, statement: Select[Any], values: Mapping[str, Any]) -> Sequence[Any]:
        """The driver's own rows: half of what a page costs otherwise is wrapped around them."""
        text, parameters = _compiled(statement, self._connection.dialect, values)
        with closing(self._connection.exec_driver_sql(text, parameters)) as result:
            assert result.cursor is not None
            return result.cursor.fetchall()

    def _book(self, rows: Sequence[Any], shelf: PriceShelf) -> PriceBook:
        """The book as of these rows; that it is the right one came with them."""
        if not rows:
            return shelf.last
        return shelf.at(rows[0][-1], Prices(self._connection))


class _Clerk:
    """Adds the figures that grow to the view; looks each price up once a page."""

    def __init__(self, book: PriceBook, now: int) -> None:
        self._book = book
        self._now = now
        self._rates: dict[str, _Rate] = {}

    def array(self, rows: Iterable[Any]) -> str:
        """The views as a JSON array, each with the figures that grow: `hourly_cost` (null when no
        price is known), `cost`, and the seconds that it leaves out as nobody knows their price."""
        pieces: list[str] = []
        add = pieces.append
        for view, posted_nanos, left_out, key, start, posted, tails, _, _ in rows:
            cost, unpriced, beginning = posted_nanos, left_out, _COSTS_NOTHING_MORE
            if key:
                rate = self._rates.get(key) or self._rate(key)
                beginning = rate.beginning
                if start is not None:
                    now = max(self._now, posted)
                    cost += rate.tail(self._book, start, posted, now)
                    unpriced += rate.unpriced(self._book, posted, now)
                for began, reached in _tails(tails) if tails else ():
                    now = max(self._now, reached)
                    cost += rate.tail(self._book, began, reached, now)
                    unpriced += rate.unpriced(self._book, reached, now)
            add(view)
            add(f'{beginning}{usd(cost)}","unpriced_seconds":{unpriced}}},')
        return f"[{''.join(pieces)[:-1]}]"

    def _rate(self, key: str) -> _Rate:
        parts = key.split("|")
        parts += [""] * (_PARTS - len(parts))
        generation, model, region, single, chips, slices, pool, vm, vm_model = parts
        tpu = self._line(Sku(generation, model, region, single == "1", pool), int(chips))
        driver = self._line(Sku(vm, vm_model, region, is_vm=True), 1) if vm else None
        hourly = tpu.hourly(int(slices or 1))
        if driver is not None:
            its = driver.hourly(1)
            hourly = None if hourly is None or its is None else hourly + its
        spelled = "null" if hourly is None else f'"{usd(hourly)}"'
        beginning = f',"hourly_cost":{spelled},"cost":"'
        self._rates[key] = rate = _Rate(beginning, tpu, driver)
        return rate

    def _line(self, sku: Sku, units: int) -> _Line:
        since = self._book.steady_since(sku, self._now)
        return _Line(sku, units, self._book.at(sku, self._now), since)


@dataclass(frozen=True, slots=True)
class _Rate:
    """What nodes of one kind cost: how the price of an hour is spelled, and their lines."""

    beginning: str
    tpu: _Line
    vm: _Line | None

    def unpriced(self, book: PriceBook, posted: int, now: int) -> int:
        """Seconds from where the ledger has come to now of which nobody knows the price."""
        found = self.tpu.unpriced(book, posted, now)
        return found if self.vm is None else found + self.vm.unpriced(book, posted, now)

    def tail(self, book: PriceBook, start: int, posted: int, now: int) -> int:
        """Nano-dollars from where the ledger has come to now."""
        found = self.tpu.tail(book, start, posted, now)
        return found if self.vm is None else found + self.vm.tail(book, start, posted, now)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of it: so many chips, or the one machine, at a price that has held `since`."""

    sku: Sku
    units: int
    price: Price | None
    since: int

    def hourly(self, times: int) -> int | None:
        """Nano-dollars an hour for so many of them."""
        return None if self.price is None else times * self.units * self.price.per_chip_hour

    def unpriced(self, book: PriceBook, posted: int, now: int) -> int:
        """Seconds from where the ledger has come to now of which nobody knows the price."""
        if self.price is not None and self.since <= posted:
            return 0
        cuts = book.cuts(self.sku, posted, now)
        return sum(cut.end - cut.start for cut in cuts if cut.price is None)

    def tail(self, book: PriceBook, start: int, posted: int, now: int) -> int:
        """Nano-dollars from where the ledger has come to now: R(F(now)) - R(F(posted))."""
        if self.price is not None and self.since <= start:
            rate = self.units * self.price.per_chip_hour
            return half_even(rate * (now - start), HOUR) - half_even(rate * (posted - start), HOUR)
        total = until_posted = 0
        for cut in book.cuts(self.sku, start, now):
            rate = 0 if cut.price is None else self.units * cut.price.per_chip_hour
            total += rate * (cut.end - cut.start)
            until_posted += rate * max(0, min(cut.end, posted) - cut.start)
        return half_even(total, HOUR) - half_even(until_posted, HOUR)


@lru_cache(8)
def _compile(statement: Select[Any], dialect: Dialect) -> SQLCompiler:
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    return compiled


def _compiled(
    statement: Select[Any], dialect: Dialect, values: Mapping[str, Any]
) -> tuple[str, Any]:
    """The text of a statement, made once, and its parameters as the driver takes them."""
    compiled = _compile(statement, dialect)
    parameters = compiled.construct_params(values)
    if compiled.positiontup is None:
        return compiled.string, parameters
    return compiled.string, tuple(parameters[name] for name in compiled.positiontup)


def price_key(node: Node) -> str:
    """All that the price of a node depends on, in one text, so that a page reads one column; of
    several slices, what one of them does, and how many there are. What is empty at its end is left
    out.

    Empty once the node has ended: it costs nothing more.
    """
    if node.ended:
        return ""
    spec = node.spec
    single = "1" if spec.hosts == spec.slices else "0"
    sku = (spec.generation, spec.provisioning_model, region_of(node.zone), single)
    slices = str(spec.slices) if spec.slices > 1 else ""
    vm = ("", "") if spec.vm is None else (spec.vm.machine_type, spec.vm.provisioning_model)
    parts = (*sku, spec.chips // spec.slices, slices, pool_for(spec, node.zone), *vm)
    return "|".join(map(str, parts)).rstrip("|")


def _tails(text: str) -> Iterable[tuple[int, int]]:
    """(start, posted) of each slice that is billed now."""
    return loads(text, dict[str, tuple[int, int]]).values()


def _narrowed(statement: Select[Any], only: NodeFilter) -> Select[Any]:
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
