"""Nodes as callers are shown them, page by page: the stored view, and what each costs as of now.

This is the path that dashboards and scripts ask over and over. The view is kept as text beside the
node, so a page costs one statement, and for each node a few integer operations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, exists, select

from service.domain.clock import HOUR
from service.domain.errors import NotFound, Rejected
from service.domain.money import half_even, usd
from service.domain.pricing import Price, PriceBook, Sku
from service.domain.zones import region_of
from service.store.tables import node_labels, nodes, usage

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_region = lru_cache(1_000)(region_of)

_SHOWN = select(
    nodes.c.id,
    nodes.c.view,
    nodes.c.posted_nanos,
    nodes.c.ended_at,
    nodes.c.generation,
    nodes.c.model,
    nodes.c.zone,
    nodes.c.single_device,
    nodes.c.chips,
    usage.c.start_at,
    usage.c.posted_until,
).select_from(nodes.outerjoin(usage, and_(usage.c.node_id == nodes.c.id, usage.c.end_at.is_(None))))
_ONE = _SHOWN.where(nodes.c.id == bindparam("id"))
_NEWEST = _SHOWN.order_by(nodes.c.id.desc()).limit(bindparam("limit"))
_OLDER = _NEWEST.where(nodes.c.id < bindparam("before"))


@dataclass(frozen=True, slots=True)
class Filter:
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


@dataclass(frozen=True, slots=True)
class Page:
    """Some nodes, each a JSON document, and the token of the next page; empty on the last."""

    documents: tuple[str, ...]
    next_page_token: str


class Listing:
    """Reads nodes for those who ask; `service.store.nodes` reads them for those who act."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(self, only: Filter, size: int, token: str, book: PriceBook, now: int) -> Page:
        """The newest nodes before `token`. Raises Rejected when the token is none of ours."""
        if token and not _ID.fullmatch(token):
            raise Rejected("the page_token is not one that was given out", field="page_token")
        statement = _narrowed(_OLDER if token else _NEWEST, only)
        values = {"limit": size + 1, **({"before": token} if token else {})}
        rows = self._connection.execute(statement, values).all()
        clerk = _Clerk(book, now)
        documents = tuple(clerk.document(row) for row in rows[:size])
        return Page(documents, rows[size - 1].id if len(rows) > size else "")

    def one(self, node_id: str, book: PriceBook, now: int) -> bytes:
        """One node; raises NotFound."""
        row = self._connection.execute(_ONE, {"id": node_id}).one_or_none()
        if row is None:
            raise NotFound(f"there is no node {node_id[:80]!r}")
        return _Clerk(book, now).document(row).encode()


class _Clerk:
    """Adds the figures that grow to the view; looks each price up once a page."""

    def __init__(self, book: PriceBook, now: int) -> None:
        self._book = book
        self._now = now
        self._prices: dict[tuple[str, str, str, bool], Price | None] = {}

    def document(self, row: Any) -> str:
        """The view with `hourly_cost` (null when no price is known) and `cost`."""
        _, view, cost, ended_at, generation, model, zone, single, chips, start, posted = row
        key = (generation, model, zone, single)
        if key not in self._prices:
            self._prices[key] = self._book.at(_sku(*key), self._now)
        price = self._prices[key]
        if start is not None:
            cost += self._tail(key, price, chips, start, posted)
        hourly = "null" if price is None else f'"{usd(chips * price.per_chip_hour)}"'
        if ended_at is not None:
            hourly = '"0.000000000"'
        return f'{view[:-1]},"hourly_cost":{hourly},"cost":"{usd(cost)}"}}'

    def _tail(
        self,
        key: tuple[str, str, str, bool],
        price: Price | None,
        chips: int,
        start: int,
        posted: int,
    ) -> int:
        """Nano-dollars from where the ledger has come to now: R(F(now)) - R(F(posted))."""
        now = max(self._now, posted)
        if price is not None and price.effective_from <= start:
            rate = chips * price.per_chip_hour
            return half_even(rate * (now - start), HOUR) - half_even(rate * (posted - start), HOUR)
        total = until_posted = 0
        for cut in self._book.cuts(_sku(*key), start, now):
            rate = 0 if cut.price is None else chips * cut.price.per_chip_hour
            total += rate * (cut.end - cut.start)
            until_posted += rate * max(0, min(cut.end, posted) - cut.start)
        return half_even(total, HOUR) - half_even(until_posted, HOUR)


def _sku(generation: str, model: str, zone: str, single_device: bool) -> Sku:
    return Sku(generation, model, _region(zone), single_device)


def _narrowed(statement: Select[Any], only: Filter) -> Select[Any]:
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
