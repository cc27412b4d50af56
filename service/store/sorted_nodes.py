"""Nodes of a filter in the order of one of their figures, page by page, and their sums."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    DateTime,
    FromClause,
    Select,
    String,
    and_,
    asc,
    case,
    cast,
    column,
    desc,
    func,
    literal,
    or_,
    select,
)

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.errors import Rejected
from service.domain.nodes.keep import ABOUT_TTL
from service.domain.nodes.node import Asked, NodeState
from service.store.fleet_counts import FleetCounts, RunningCount
from service.store.idle import count_slots
from service.store.node_list import ANY, LIVE, NodeFilter, add_filters
from service.store.tables import idle_courses, nodes, usage

CHOICES_FROM = 10_000
"""The newest nodes of a filter in which the values of its fields are looked up."""

USED_SECONDS = DAY
"""The time before now of which the used share of a node is known."""

_TOKEN = re.compile(r"([0-9]{1,12})\.([0-9a-f-]{36})\.(.{0,200})", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_MOST_BEHIND, _MOST_AHEAD = 7 * DAY, HOUR
"""Seconds by which the first page may be older than now, or newer by the clock of another server.
A cost as of any other second may be too large for the database."""

_NEVER = 2**62
_CHOICES = ("project", "team", "owner", "generation", "zone", "model")
_DELETES_AT = '"deletes_at":'
_DELETES_AT_TIME = _DELETES_AT + r'"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z)"'


class SortKey(StrEnum):
    """What nodes are sorted by."""

    RATE = "hourly_cost"
    COST = "cost"
    AGE = "age"
    NAME = "name"
    DELETES_AT = "deletes_at"
    USED = "used"


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """An order of nodes. Nodes without the figure come last."""

    key: SortKey = SortKey.RATE
    descending: bool = True


@dataclass(frozen=True, slots=True)
class SortFacts:
    """What an order goes by and is not in the rows of nodes: the second as of which all is sorted,
    nano-dollars an hour of one slice by price key, and the UTC second at which an exceeded budget
    deletes a node, by node id. `delayed_ends` has the idle nodes that do not end when they are due,
    by id: the UTC second at which they end, None while that is unknown. In the projects `paused`,
    a time to live ends no node."""

    now: int
    rates: Mapping[str, int]
    budget_ends: Mapping[str, int] = field(default_factory=dict)
    delayed_ends: Mapping[str, int | None] = field(default_factory=dict)
    paused: Collection[str] = ()


class SortedNodes:
    """Reads the ids of nodes in an order, and sums over all nodes of a filter."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_sqlite = connection.dialect.name == "sqlite"

    def count_by_price(self, only: NodeFilter) -> Mapping[str, int]:
        """How many nodes match, by price key. Nodes that have ended have the empty one."""
        statement = select(nodes.c.price_key, func.count()).group_by(nodes.c.price_key)
        rows = self._connection.execute(add_filters(statement, only))
        return {row[0]: row[1] for row in rows}

    def count_running(self, only: NodeFilter) -> Sequence[RunningCount]:
        """The matching nodes that are billed now, by price."""
        is_whole = only in (ANY, LIVE)
        among = None if is_whole else add_filters(select(nodes.c.id), only)
        return FleetCounts(self._connection).count_running(among)

    def list_choices(self, only: NodeFilter) -> Mapping[str, Sequence[str]]:
        """The values of the fields of a filter among the newest matching nodes, in order."""
        columns = [nodes.c[name] for name in _CHOICES]
        newest = select(*columns).order_by(nodes.c.id.desc()).limit(CHOICES_FROM)
        rows = self._connection.execute(
            select(*add_filters(newest, only).subquery().c).distinct()
        ).all()
        return {
            name: sorted({row[place] for row in rows if row[place]})
            for place, name in enumerate(_CHOICES)
        }

    def list_ids(
        self,
        only: NodeFilter,
        order: NodeOrder,
        size: int,
        token: str,
        facts: SortFacts,
    ) -> tuple[Sequence[str], str]:
        """The ids of one page, and the token of the next page; empty on the last. All pages are
        sorted as of the first one, so that costs that grow meanwhile move no node. Raises Rejected
        for an invalid token."""
        start: tuple[int | str, str] | None = None
        if token:
            first, start = _parse_token(token, order.key, facts.now)
            facts = replace(facts, now=first)
        statement, key = self._build(order, facts)
        statement = add_filters(statement, only)
        direction = desc if order.descending else asc
        if start is not None:
            value, node_id = literal(start[0]), literal(start[1])
            later = key < value if order.descending else key > value
            tie = nodes.c.id < node_id if order.descending else nodes.c.id > node_id
            statement = statement.where(or_(later, and_(key == value, tie)))
        rows = self._connection.execute(
            statement.order_by(direction("key"), direction(nodes.c.id)).limit(size + 1)
        ).all()
        shown = rows[:size]
        more = f"{facts.now}.{shown[-1].id}.{shown[-1].key}" if len(rows) > size else ""
        return [row.id for row in shown], more

    def _build(self, order: NodeOrder, facts: SortFacts) -> tuple[Select[Any], ColumnElement[Any]]:
        """The statement without filter and order, and the expression that is sorted by."""
        now = facts.now
        last = literal(-1 if order.descending else _NEVER)
        match order.key:
            case SortKey.NAME:
                return _select_by(nodes, nodes.c.name)
            case SortKey.AGE:
                until = func.coalesce(nodes.c.ended_at, now)
                return _select_by(nodes, until - nodes.c.created_at)
            case SortKey.RATE | SortKey.COST:
                return _build_by_money(order.key, facts)
            case SortKey.DELETES_AT:
                return self._build_by_end(facts, last)
            case SortKey.USED:
                slots = count_slots(floor_to(now - USED_SECONDS, HOUR)).subquery()
                known = slots.c.busy + slots.c.idle
                joined = nodes.outerjoin(slots, slots.c.node_id == nodes.c.id)
                share = cast(slots.c.busy * 1_000 // known, BigInteger)
                return _select_by(joined, case((known > 0, share), else_=last))

    def _build_by_end(
        self, facts: SortFacts, last: ColumnElement[Any]
    ) -> tuple[Select[Any], ColumnElement[Any]]:
        """By the earliest of the end of the time to live, the end for idleness and the deletion by
        a budget."""
        of_node = and_(
            idle_courses.c.node_id == nodes.c.id,
            idle_courses.c.incarnation == nodes.c.attempt,
        )
        courses = nodes.outerjoin(idle_courses, of_node)
        with_budgets, budget_end = self._join_ends(courses, facts.budget_ends)
        joined, delayed_end = self._join_ends(with_budgets, _or_never(facts.delayed_ends))
        is_open = and_(nodes.c.ended_at.is_(None), nodes.c.asked != Asked.ABSENT)
        least = func.min if self._is_sqlite else func.least
        soonest = least(
            self._ttl_end(facts.paused),
            _build_idle_end(facts.now, delayed_end),
            func.coalesce(budget_end, _NEVER),
        )
        key = func.coalesce(case((is_open, func.nullif(soonest, _NEVER))), last)
        return _select_by(joined, key)

    def _join_ends(
        self, joined: FromClause, ends: Mapping[str, int]
    ) -> tuple[FromClause, ColumnElement[Any]]:
        """Join ends by the id of the node, and return their second, NULL for other nodes. They are
        one parameter each, as there may be more nodes than a statement has parameters."""
        columns = column("key", String), column("value", BigInteger)
        if self._is_sqlite:
            each = func.json_each(json.dumps(dict(ends))).table_valued(*columns)
            # A function itself would be called for each node; the rows of this get an index.
            rows: FromClause = select(each.c.key, each.c.value).subquery()
        else:
            ids = literal(list(ends), ARRAY(String))
            seconds = literal(list(ends.values()), ARRAY(BigInteger))
            rows = func.unnest(ids, seconds).table_valued(*columns).render_derived()
        return joined.outerjoin(rows, rows.c.key == nodes.c.id), rows.c.value

    def _ttl_end(self, paused: Collection[str]) -> ColumnElement[Any]:
        """`deletes_at` of the stored view in UTC seconds, `_NEVER` for none. Text of a caller never
        contains the mark, because quotes in it are escaped, and labels stand behind it."""
        if self._is_sqlite:
            start = func.instr(nodes.c.view, _DELETES_AT) + len(_DELETES_AT) + 1
            written = func.substr(nodes.c.view, start, len("2026-11-05T12:00:00Z"))
            seconds = func.strftime("%s", written)  # null unless that is a time
        else:
            time = func.substring(nodes.c.view, _DELETES_AT_TIME)
            seconds = func.date_part("epoch", cast(time, DateTime(timezone=True)))
        end = func.coalesce(cast(seconds, BigInteger), _NEVER)
        if not paused:
            return end
        # A pause holds back a time to live, but no end of a job, and nothing that Google does.
        is_held = and_(
            nodes.c.project.in_(list(paused)),
            nodes.c.model != ProvisioningModel.FLEX_START,
            nodes.c.ends_after_keep.in_(ABOUT_TTL),
        )
        return case((is_held, _NEVER), else_=end)


def _or_never(ends: Mapping[str, int | None]) -> Mapping[str, int]:
    return {node_id: _NEVER if at is None else at for node_id, at in ends.items()}


def _build_idle_end(now: int, delayed_end: ColumnElement[Any]) -> ColumnElement[Any]:
    """The second at which a node is stopped or deleted for idleness, `_NEVER` for none. A keep
    holds that back. What is overdue ends with the next check."""
    due_at = idle_courses.c.due_at
    next_check = case((due_at < now, literal(now, BigInteger)), else_=due_at)
    is_kept = func.coalesce(nodes.c.kept_until > now, False)
    is_ready = nodes.c.state == NodeState.READY
    acts = and_(is_ready, due_at.is_not(None), is_kept.is_(False))
    return case((acts, func.coalesce(delayed_end, next_check)), else_=_NEVER)


def _select_by(
    joined: FromClause, key: ColumnElement[Any]
) -> tuple[Select[Any], ColumnElement[Any]]:
    return select(nodes.c.id, key.label("key")).select_from(joined), key


def _build_by_money(sort_key: SortKey, facts: SortFacts) -> tuple[Select[Any], ColumnElement[Any]]:
    """By the cost an hour of what is billed now, or by the cost so far: what is posted, and the
    present rate since then."""
    unposted = cast(func.sum(facts.now - usage.c.posted_until), BigInteger)
    billed = (
        select(usage.c.node_id, func.count().label("slices"), unposted.label("unposted"))
        .where(usage.c.end_at.is_(None))
        .group_by(usage.c.node_id)
        .subquery()
    )
    joined = nodes.outerjoin(billed, billed.c.node_id == nodes.c.id)
    if sort_key is SortKey.RATE:
        return _select_by(joined, _look_up(facts.rates) * func.coalesce(billed.c.slices, 0))
    by_second = {key: rate // HOUR for key, rate in facts.rates.items()}
    grown = _look_up(by_second) * func.coalesce(billed.c.unposted, 0)
    return _select_by(joined, nodes.c.posted_nanos + grown)


def _look_up(rates: Mapping[str, int]) -> ColumnElement[Any]:
    """The rate of the price key of a node; 0 for an unknown price."""
    if not rates:
        return cast(literal(0), BigInteger)
    return cast(case(dict(rates), value=nodes.c.price_key, else_=0), BigInteger)


def _parse_token(token: str, key: SortKey, now: int) -> tuple[int, tuple[int | str, str]]:
    """The second of the first page, and the last node before the page. Raises Rejected."""
    found = _TOKEN.fullmatch(token)
    if found is not None:
        first, node_id, value = int(found[1]), found[2], found[3]
        is_recent = now - _MOST_BEHIND <= first <= now + _MOST_AHEAD
        if is_recent and key is SortKey.NAME:
            return first, (value, node_id)
        if is_recent and _NUMBER.fullmatch(value) and abs(int(value)) <= _NEVER:
            return first, (int(value), node_id)
    raise Rejected("the page_token is not one that this service issued", field="page_token")
