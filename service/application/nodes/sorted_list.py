"""Nodes in the order of a figure, with what they cost an hour, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from service.application.health import RunningSum, sum_running
from service.domain.clock import HOUR, floor_to
from service.domain.pricing.burn import burn_of
from service.store.idle_fleet import sum_rates
from service.store.node_list import ANY, NodeFilter, decode_parts
from service.store.pricebook import PriceBookCache
from service.store.sorted_nodes import USED_SECONDS, NodeOrder, SortFacts, SortKey
from service.store.unit import Unit

__all__ = ["NodeOrder", "SortKey", "SortedPage", "SortedQuery", "read_sorted_page"]


COSTLIEST_FIRST = NodeOrder()
"""The nodes that cost most an hour come first."""


@dataclass(frozen=True, slots=True)
class SortedPage:
    """Nodes as callers see them, in order. `rates` has the nano-dollars an hour of each of them
    that is billed now (None: a price is unknown). `used` has the percentage of the last 24 hours in
    which a node worked, of the part that is known. Nodes without such a part are left out. `number`
    and `running` are about all nodes that match. `choices` are the values of each field of the
    filter among the live, the ended, or all nodes."""

    nodes: Sequence[Mapping[str, Any]]
    next_page_token: str
    rates: Mapping[str, int | None]
    used: Mapping[str, int]
    number: int
    running: RunningSum
    choices: Mapping[str, Sequence[str]]
    as_of: int


@dataclass(frozen=True, slots=True)
class SortedQuery:
    """Which nodes a page shows, in which order. `token` is the `next_page_token` of the page
    before; empty for the first page. Without `has_choices`, the page has none. `budget_ends` are
    the UTC seconds at which exceeded budgets delete nodes, by node id, for an order by the end."""

    only: NodeFilter = ANY
    order: NodeOrder = COSTLIEST_FIRST
    size: int = 100
    token: str = ""
    has_choices: bool = True
    budget_ends: Mapping[str, int] = field(default_factory=dict)


def read_sorted_page(unit: Unit, cache: PriceBookCache, now: int, query: SortedQuery) -> SortedPage:
    """One page of the nodes that match. Raises Rejected for an invalid token."""
    book, found, only = cache.get_book(unit), unit.sorted_nodes, query.only
    numbers = found.count_by_price(only)
    rates: dict[str, int] = {}  # nano-dollars an hour of one slice; 0 if a price is unknown
    for key in filter(None, numbers):
        parts = decode_parts(key)
        rates[key] = (burn_of(parts.list_lines(), book, now) or 0) // parts.slices
    choices: Mapping[str, Sequence[str]] = {}
    if query.has_choices:
        choices = found.list_choices(NodeFilter(live=only.live, ended=only.ended))
    facts = SortFacts(now, rates, query.budget_ends)
    if query.order.key is SortKey.DELETES_AT:
        facts = _with_cleanups(unit, facts)
    ids, more = found.list_ids(only, query.order, query.size, query.token, facts)
    slots = unit.idle_rollups.count_slots(ids, floor_to(now - USED_SECONDS, HOUR))
    return SortedPage(
        nodes=unit.node_list.read_many(ids, cache, now),
        next_page_token=more,
        rates=sum_rates(unit.usage.find_open_of(ids), book, now),
        used={node_id: busy * 100 // (busy + idle) for node_id, (busy, idle) in slots.items()},
        number=sum(numbers.values()),
        running=sum_running(found.count_running(only), book, now),
        choices=choices,
        as_of=now,
    )


def _with_cleanups(unit: Unit, facts: SortFacts) -> SortFacts:
    """The facts with the ends that rails, pauses and turns delay."""
    rows = {cleanup.project: cleanup for cleanup in unit.cleanups.list_all()}
    delaying = [project for project, cleanup in rows.items() if cleanup.holds or cleanup.waiting]
    delayed = {
        node.node_id: rows[node.project].expect_end(node.node_id, node.due_at, facts.now).at
        for node in (unit.idle_courses.list_resting(delaying) if delaying else ())
        if node.due_at is not None
    }
    paused = [project for project, cleanup in rows.items() if cleanup.is_paused]
    return replace(facts, delayed_ends=delayed, paused=paused)
