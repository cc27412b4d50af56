"""Nodes as callers request, read, stop, start and delete them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from service.application.answers import Answers
from service.application.budgets import admission
from service.application.idempotency import Remember, write_once
from service.application.nodes.cost import NodeCost, cost_of
from service.application.nodes.node_policy import NodePolicy, read_node_policy
from service.application.nodes.requests import NodeRequests
from service.application.nodes.sorted_list import SortedPage, SortedQuery, read_sorted_page
from service.application.nodes.timeline import NodeTimeline, list_state_runs, read_event_page
from service.application.retries import run_with_retries
from service.domain.clock import Clock
from service.domain.errors import Conflict, Rejected, StaleVersion
from service.domain.event import Event
from service.domain.idempotency import RequestKey
from service.domain.idle.assess import LEAST_IDLE
from service.domain.idle.policy import Action
from service.domain.idle.terms import TermsChange, terms_difference, with_terms
from service.domain.lifecycle import reimaging
from service.domain.lifecycle.precedence import describe_others
from service.domain.lifecycle.reimaging import Software
from service.domain.metering.attribution import Reattribution, apply_reattribution, describe_change
from service.domain.nodes.connection import Connection, connection_to
from service.domain.nodes.deletion import CALLER, requested_by
from service.domain.nodes.keep import asked_keep, describe_keep_end, without_keep
from service.domain.nodes.node import Asked, Node
from service.domain.nodes.request import RequestedNode
from service.domain.nodes.stop_rules import stop_obstacles
from service.store.ledger import PostedLine
from service.store.node_ends import read_causes
from service.store.node_list import ANY, NodeFilter, NodeListPage
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

__all__ = ["CreatedNode", "EndRequested", "NodeChange", "NodeFilter", "NodeListPage", "NodeService"]

_BATCH = 1_000
_PAGES = 16
"""Pages of nodes that are kept; one of QUICK_PAGE takes about 200 kB."""

QUICK_PAGE = 200
"""A page of this size is read in well under a millisecond."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EndRequested:
    """A node whose end or stop was requested, and warnings for the caller."""

    node: Node
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Changes of a node: who is charged for it, and the terms on which it runs."""

    whose: Reattribution = field(default_factory=Reattribution)
    terms: TermsChange = field(default_factory=TermsChange)


@dataclass(frozen=True, slots=True)
class CreatedNode:
    """A requested node, with its idle policy and its JSON document as of the same transaction.
    `created` is False if a request with the same key created it before."""

    node: Node
    warnings: tuple[str, ...]
    created: bool
    policy: NodePolicy
    document: bytes


class NodeService:
    """Each public method is one unit of work, without a call to the cloud: a request is durable
    before it can cost anything."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        projects: Sequence[str],
        least_idle: int = LEAST_IDLE,
        ceiling: Action = Action.OBSERVE,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._ceiling = ceiling
        self._pages = Answers(_PAGES)
        self._requests = NodeRequests(units, prices, clock, projects, least_idle)

    def request(
        self, wanted: RequestedNode, *, key: RequestKey | None = None, actor: str = ""
    ) -> CreatedNode:
        """Record a request for a node.

        With a `key`, repeated requests are one node. Raises Rejected (with the remedy) if the
        request cannot be granted, Conflict if the name is taken. One transaction reads, one writes,
        and both checks of the key stand: only the second excludes a concurrent request.
        """
        scope = f"nodes/{actor}"  # each caller has keys of its own
        with self._units.reading() as unit:
            known = None if key is None else unit.idempotency_keys.find_result(scope, key)
            if known is not None:
                return self._answer(unit, unit.nodes.get(known))
            wanted, meant = self._requests.resolve_in(unit, wanted)

        made: list[CreatedNode] = []

        def write_node(unit: Unit, remember: Remember) -> str:
            def remember_node(node: Node) -> None:  # a repeated request must not count twice
                remember(node.id)

            node = self._requests.record_node(unit, wanted, meant, actor, written=remember_node)
            made[:] = [self._answer(unit, node, meant.warnings, created=True)]
            return node.id

        opened = partial(admission.open_unit, self._units, self._clock)
        node_id, created = write_once(
            self._units, scope, key, self._clock, write_node, opened=opened
        )
        if created:
            return made[0]
        with self._units.reading() as unit:
            return self._answer(unit, unit.nodes.get(node_id))

    def try_out(self, wanted: RequestedNode, *, actor: str = "") -> CreatedNode:
        """The answer of `request` in a dry run: nothing is written, also no refusal of a budget.
        Raises what `request` raises."""

        def write_and_undo(unit: Unit) -> None:
            resolved, meant = self._requests.resolve_in(unit, wanted)
            node = self._requests.record_node(unit, resolved, meant, actor)
            raise _Undo(self._answer(unit, node, meant.warnings, created=True))

        try:
            with self._units() as unit:
                write_and_undo(unit)
        except _Undo as undone:
            return undone.answer
        raise AssertionError("a dry run always undoes its unit of work")

    def _answer(
        self, unit: Unit, node: Node, warnings: tuple[str, ...] = (), *, created: bool = False
    ) -> CreatedNode:
        policy = read_node_policy(unit, node, self._ceiling)
        document = unit.node_list.read_one(node.id, self._prices, self._clock())
        return CreatedNode(node, warnings, created, policy, document)

    def is_quick(self, only: NodeFilter, page_size: int, _page_token: str = "") -> bool:
        """Whether a page takes less than a millisecond whatever the database holds: some nodes in
        the order of their ids, from a file on this machine."""
        return only == ANY and page_size <= QUICK_PAGE and self._units.is_local

    def list_page(self, only: NodeFilter, page_size: int, page_token: str) -> NodeListPage:
        """Nodes as callers see them, newest first, with their cost as of now. Many programs ask for
        the same page again and again: within one second they get one answer, until something is
        written that it shows."""
        with self._units.reading() as unit:
            now, ask = self._clock(), unit.node_list.read_page
            if only != ANY or page_size > QUICK_PAGE:
                return ask(only, page_size, page_token, self._prices, now)
            written = unit.revisions.read_current()
            key = now, written.nodes, written.books, page_size, page_token
            return self._pages.get_or_make(
                key, lambda: ask(only, page_size, page_token, self._prices, now)
            )

    def list_sorted(self, query: SortedQuery) -> SortedPage:
        """Nodes in an order, with what they cost an hour, and the sums over all that match. Raises
        Rejected for an invalid token."""
        with self._units.reading() as unit:
            return read_sorted_page(unit, self._prices, self._clock(), query)

    def get_document(self, node_id: str) -> bytes:
        """One node as callers see it: a JSON document."""
        with self._units.reading() as unit:
            return unit.node_list.read_one(node_id, self._prices, self._clock())

    def get(self, node_id: str) -> Node:
        """One node; raises NotFound."""
        with self._units.reading() as unit:
            return unit.nodes.get(node_id)

    def delete(self, node_id: str, *, version: int | None = None, actor: str = "") -> Node:
        """`request_end`, returning the node alone."""
        return self.request_end(node_id, version=version, actor=actor).node

    def request_end(
        self, node_id: str, *, version: int | None = None, actor: str = ""
    ) -> EndRequested:
        """Request the deletion of a node, which ends a keep; repeating the request changes nothing.
        The state of the node shows when it is deleted."""

        return self._end_or_stop(node_id, version, Asked.ABSENT, actor)

    def stop(self, node_id: str, *, version: int | None = None, actor: str = "") -> Node:
        """`request_stop`, returning the node alone."""
        return self.request_stop(node_id, version=version, actor=actor).node

    def request_stop(
        self, node_id: str, *, version: int | None = None, actor: str = ""
    ) -> EndRequested:
        """Request a node to stop, which ends a keep, and a job that runs on it, as a deletion does.
        Raises Rejected if the cloud cannot stop such a node."""
        return self._end_or_stop(node_id, version, Asked.STOPPED, actor)

    def _end_or_stop(
        self, node_id: str, version: int | None, asked: Asked, actor: str
    ) -> EndRequested:
        def end_or_stop(unit: Unit, node: Node) -> EndRequested:
            after = self._ask_for(unit, node, asked, actor)
            if after is node:
                return EndRequested(node)
            claim = unit.jobs.find_claim(node.id)
            warnings = () if claim is None else (f"job {claim.job_id} ends with that",)
            return EndRequested(
                after, (*warnings, *describe_ended_keep(node, after, self._clock()))
            )

        return self._change_locked(node_id, version, end_or_stop)

    def start(self, node_id: str, *, version: int | None = None, actor: str = "") -> Node:
        """Request a stopped node to run again."""
        return self._change_locked(
            node_id, version, lambda unit, node: self._ask_for(unit, node, Asked.PRESENT, actor)
        )

    def reimage(
        self, node_id: str, software: Software, *, version: int | None = None, actor: str = ""
    ) -> Node:
        """Request other software on a legacy TPU Node; requesting the current software changes
        nothing.

        Raises Rejected for a TPU VM and for software that does not fit, Conflict if it is not
        possible now.
        """

        def request_reimage(unit: Unit, node: Node) -> Node:
            now = self._clock()
            after = reimaging.with_reimage_request(node, software, now)
            if after is node:
                return node
            versions = f"{after.spec.runtime_version}, was {node.spec.runtime_version}"
            message = f"reimage requested: {versions}"
            unit.events.add(Event(node.id, now, "asked", message, actor or "caller"))
            return unit.nodes.save(after)

        return self._change_locked(node_id, version, request_reimage)

    def update(
        self, node_id: str, wanted: NodeChange, *, version: int | None = None, actor: str = ""
    ) -> Node:
        """Change the idle policy and the time to live of a node, and who is charged for it from now
        on, all or nothing.

        Raises Rejected for invalid changes, Conflict for a node that has ended, BudgetExceeded if a
        budget has no room for it.
        """

        def change_terms(unit: Unit, node: Node) -> Node:
            after = self._save_terms(unit, node, wanted.terms, actor)
            return self._save_payer(unit, after, wanted.whose, actor)

        return self._change_locked(node_id, version, change_terms)

    def _save_terms(self, unit: Unit, node: Node, wanted: TermsChange, actor: str) -> Node:
        now = self._clock()
        after = with_terms(node, wanted, now, self._requests.least_idle)
        if after is node:
            return node
        message = terms_difference(node, after)
        unit.events.add(Event(node.id, now, "asked", message, actor or "caller"))
        after = unit.nodes.save(after)
        if after.spec.ttl_seconds != node.spec.ttl_seconds:
            admission.update_hold_ttl(unit, after, node, self._prices, now)
        return after

    def _save_payer(self, unit: Unit, node: Node, wanted: Reattribution, actor: str) -> Node:
        now, latest = self._clock(), unit.attributions.list_by_node(node.id)[-1]
        found = apply_reattribution(node, wanted, latest, now)
        if found is None:
            return node
        after, whose = found
        unit.events.add(
            Event(node.id, now, "asked", describe_change(node, after), actor or "caller")
        )
        claim = unit.jobs.find_claim(node.id)
        if claim is not None and not unit.jobs.get(claim.job_id).own_node:
            # A job that borrows the node pays for it; the owner is charged again after the job.
            return unit.nodes.rename_owner(after)
        after = unit.nodes.save_payer(after, whose, now)
        admission.admit_under_new_payer(unit, after, latest, self._prices, now)
        return after

    def request_end_in(
        self, unit: Unit, node: Node, actor: str, means: str, causes: Sequence[str]
    ) -> Node:
        """Request the deletion of a node in the caller's unit of work; the deletion ends a keep.
        `means` says how it was requested, as in `with a link`; `causes` would have ended the node
        too. Returns the node as it was written."""
        return self._ask_for(unit, node, Asked.ABSENT, actor, means, causes)

    def get_connection(self, node_id: str) -> Connection:
        """How to reach a node; raises Conflict while it cannot be reached."""
        return connection_to(self.get(node_id))

    def list_events(self, node_id: str, after: int, limit: int) -> Sequence[tuple[int, Event]]:
        """Numbered events of a node after `after`, oldest first."""
        with self._units.reading() as unit:
            unit.nodes.get(node_id)
            return unit.events.list_by_node(node_id, after, limit)

    def list_latest_events(self, kinds: Sequence[str], limit: int) -> Sequence[tuple[str, Event]]:
        """The latest events of these kinds of all nodes, newest first, each with the name of its
        node."""
        with self._units.reading() as unit:
            return unit.events.list_latest(kinds, limit)

    def list_ledger_lines(self, node_id: str, after: int, limit: int) -> Sequence[PostedLine]:
        """The posted lines of a node, in posting order."""
        with self._units.reading() as unit:
            unit.nodes.get(node_id)
            return unit.ledger.list_by_node(node_id, after, limit)

    def get_cost(self, node_id: str) -> NodeCost:
        """The cost of a node so far, to the second."""
        now = self._clock()
        with self._units.reading() as unit:
            node = unit.nodes.get(node_id)
            book = self._prices.get_book(unit)
            intervals, whose = (
                unit.usage.list_by_node(node_id),
                unit.attributions.list_by_node(node_id),
            )
        return cost_of(node, intervals, book, now, whose)

    def get_timeline(self, node_id: str, before: int | None, limit: int) -> NodeTimeline:
        """The history of a node as of one second, with its newest `limit` events of those with
        numbers below `before`. Raises NotFound."""
        now = self._clock()
        with self._units.reading() as unit:
            node = unit.nodes.get(node_id)
            book, intervals = self._prices.get_book(unit), unit.usage.list_by_node(node_id)
            whose = unit.attributions.list_by_node(node_id)
            lines: list[PostedLine] = []
            while batch := unit.ledger.list_by_node(node_id, lines[-1].id if lines else 0, _BATCH):
                lines += batch
            alarms = unit.events.list_by_kind(node_id, "alarm", 0)
            return NodeTimeline(
                node=node,
                cost=cost_of(node, intervals, book, now, whose),
                lines=lines,
                states=list_state_runs(
                    node,
                    unit.placements.list_by_node(node_id),
                    unit.observations.list_by_node(node_id),
                    intervals,
                    unit.events.list_by_kind(node_id, "state", 0),
                    now,
                ),
                placing=unit.events.list_by_kind(node_id, "placement", 0),
                alarm=alarms[-1] if alarms else None,
                events=read_event_page(unit, node_id, before, limit),
            )

    def _change_locked(
        self, node_id: str, version: int | None, change: Callable[[Unit, Node], T]
    ) -> T:
        return change_node(self._units, self._clock, node_id, version, change)

    def _ask_for(
        self,
        unit: Unit,
        node: Node,
        asked: Asked,
        actor: str,
        means: str = "",
        causes: Sequence[str] | None = None,
    ) -> Node:
        """Write what is asked of a node. A repeated request changes nothing: the first reason
        stays. Raises Conflict for a deleted node, Rejected for a node that can never be stopped."""
        if node.asked is asked or (node.has_ended and asked is Asked.ABSENT):
            return node
        if node.asked is Asked.ABSENT:
            raise Conflict(
                f"node {node.id} is {node.state}: it was deleted, and a deletion cannot be undone"
            )
        if asked is Asked.STOPPED and not node.spec.stoppable:
            raise Rejected(
                f"{node.spec.accelerator_type} ({node.spec.provisioning_model}) cannot be stopped:"
                f" {', and '.join(stop_obstacles(node.spec))}; delete it",
                field="state",
            )
        now, is_deletion = self._clock(), asked is Asked.ABSENT
        admission.on_asked(unit, node, asked, self._prices, now)
        message = f"{_SENTENCES[asked]} {means}".rstrip()
        if asked is not Asked.PRESENT:
            causes = read_causes(unit, node, now) if causes is None else causes
            message += describe_others(causes, "")
            if keep := describe_keep_end(node, now, is_deletion=is_deletion):
                message += f"; {keep}"
            if asked_keep(node, now) is not None:
                node = without_keep(node)
        unit.events.add(Event(node.id, now, "asked", message, actor or CALLER))
        if is_deletion:
            reason = f"requested {means}" if means else requested_by(actor)
            node = replace(node, ends_after_keep="", delete_reason=reason)
        return unit.nodes.save(
            replace(
                node,
                asked=asked,
                delete_requested_at=now if is_deletion else None,
                alarmed_at=None,
                tries=0,
                next_try_at=now,
            )
        )


class _Undo(Exception):
    """Rolls back the unit of work of a dry run, and carries the answer."""

    def __init__(self, answer: CreatedNode) -> None:
        super().__init__()
        self.answer = answer


_SENTENCES = {
    Asked.ABSENT: "deletion requested",
    Asked.STOPPED: "stop requested",
    Asked.PRESENT: "start requested",
}


def change_node(
    units: Units,
    clock: Clock,
    node_id: str,
    version: int | None,
    change: Callable[[Unit, Node], T],
) -> T:
    """Change a node in one unit of work; returns the result of `change`. Without a `version`, a
    lost race is retried. Raises StaleVersion if `version` is not the current one."""

    def change_locked(unit: Unit) -> T:
        unit.nodes.lock(node_id)
        node = unit.nodes.get(node_id)
        if version is not None and version != node.version:
            raise StaleVersion(
                f"node {node.id} has changed since you read it", version=node.version
            )
        return change(unit, node)

    opened = partial(admission.open_unit, units, clock)
    return run_with_retries(opened, change_locked, f"node {node_id}", once=version is not None)


def describe_ended_keep(before: Node, after: Node, now: int) -> tuple[str, ...]:
    """A warning for the caller whose stop or deletion ended a keep; empty if no keep was ended."""
    warning = describe_keep_end(before, now, is_deletion=after.asked is Asked.ABSENT)
    if not warning:
        return ()
    if after.asked is Asked.STOPPED and after.ends_after_keep:
        warning += f"; the node is deleted next: {after.ends_after_keep}"
    return (warning,)
