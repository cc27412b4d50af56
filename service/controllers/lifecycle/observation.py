"""Looks at one node by its name, and records what was observed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from service.cloud.ports import TpuCloud
from service.controllers.recording.operation_log import OperationLog
from service.controllers.recording.recording import (
    Lost,
    Sights,
    lock_and_price,
    needs_evidence,
    record_lost,
    record_sights,
)
from service.domain.clock import Clock
from service.domain.errors import CloudNotFound
from service.domain.evidence.observation import (
    COMES_BACK_BY_ITSELF,
    observe_queue,
    state_of_absent_node,
)
from service.domain.evidence.poll import Poll
from service.domain.lease import Lease
from service.domain.lifecycle.absence import Absence, judge_absence, never_came, was_deleted
from service.domain.lifecycle.queueing import needs_nodes
from service.domain.lifecycle.step import NodeLook
from service.domain.nodes.node import LOST, CloudNode, Node, NodeState, Place
from service.domain.nodes.operation import Operation
from service.domain.nodes.ownership import is_our_ticket, is_ours
from service.domain.nodes.slices import place_of, slice_as_node, slice_numbers
from service.domain.pricing.billing_rules import is_billable
from service.store.pricebook import PriceBookCache
from service.store.unit import Units

Found = TypeVar("Found")

_GOING = LOST | {NodeState.DELETING}
"""States after which the end of a node needs no event of its own."""


class NodeObserver:
    """Looks at nodes with GET, which has the last word on whether a node exists."""

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        prices: PriceBookCache,
        clock: Clock,
        records: OperationLog,
    ) -> None:
        self._units = units
        self._cloud = cloud
        self._records = records
        self._prices = prices
        self._clock = clock

    def look(self, node: Node) -> NodeLook:
        """Read the node, its queued resource, its slices and its last operation."""
        if node.sent_at is None:
            return NodeLook(None)
        asked_at = self._clock()
        queue = _or_none(self._cloud.queued, node.place) if node.spec.queued else None
        sights: tuple[CloudNode | None, ...] = (None,) * len(slice_numbers(node))
        if not node.spec.queued or needs_nodes(node, queue):
            sights = tuple(
                _or_none(self._cloud.get, place_of(node, number)) for number in slice_numbers(node)
            )
        records = self._records
        operation = (
            records.find_create(node) if _is_nameless(node) else records.read_last_operation(node)
        )
        several = node.spec.slices > 1
        found = NodeLook(
            None if several else sights[0],
            operation,
            queue,
            sights if several else (),
            asked_at=asked_at,
        )
        return self._with_absence(node, found)

    def _with_absence(self, node: Node, look: NodeLook) -> NodeLook:
        """The look with the verdict on parts that are absent without a recorded deletion."""
        paths = list(_list_absent(node, look))
        if not paths or never_came(look.operation):
            return look
        ticket = node.place.queue_path
        proofs: Sequence[Operation] = () if look.operation is None else (look.operation,)
        if _is_deletion_recorded(proofs, node, paths, ticket):
            return look
        proofs = [
            operation
            for path in (*paths, ticket)
            for operation in self._records.operations_at(node.place, path)
        ]
        if _is_deletion_recorded(proofs, node, paths, ticket):
            return look
        with self._units.reading() as unit:
            census = unit.nodes.read_census(node.spec.project)
        return replace(look, absence=judge_absence(node, census, self._clock()), census=census)

    def record_look(self, node: Node, look: NodeLook, asked: int, lease: Lease) -> Node:
        """Save the changes that the look shows; returns the node after them."""
        if node.sent_at is None:
            return node
        sights = self._find_changes(node, look, asked)
        lost = self._find_lost(node, look, asked)
        queue = look.queue
        if queue is not None and (
            not is_our_ticket(node, queue) or queue.state == node.queue_state
        ):
            queue = None
        found = look.operation.name if look.operation is not None and _is_nameless(node) else ""
        again = node.missed_at is not None and not any(_list_absent(node, look))
        if not sights and not lost and queue is None and not found and not again:
            return node
        with self._units(lease) as unit:
            book = lock_and_price(unit, [node.id], self._prices)
            looked_at = unit.leases.looked_at(node.spec.project)
            after = node.with_nothing_missed() if again else node
            after = replace(after, operation=found) if found else after
            if queue is not None:
                after, told = observe_queue(after, queue, asked, self._clock())
                unit.events.add(*told)
            if sights:
                seen = {
                    n: (sight, how.with_previous(looked_at)) for n, (sight, how) in sights.items()
                }
                after = record_sights(unit, after, seen, book, "lifecycle")
            if lost:
                shown = unit.nodes.shown_at(node.id)
                gone = {n: (state, how.with_previous(shown)) for n, (state, how) in lost.items()}
                after = record_lost(unit, after, gone, book)
            return unit.nodes.save(after)

    def _find_changes(self, node: Node, look: NodeLook, asked: int) -> Sights:
        """The parts whose state or uid differs from the records, each with its poll."""
        changes = {}
        for number, sight in zip(slice_numbers(node), look.members, strict=True):
            member = slice_as_node(node, number)
            if sight is None or not is_ours(member, sight):
                continue
            if sight.state == member.state and sight.uid == member.cloud_uid:
                continue
            last = look.operation
            is_target = last is not None and last.target == member.place.path
            known: Sequence[Operation] = (last,) if is_target and last is not None else ()
            if needs_evidence(member, sight) and not _is_start_explained(member, known, sight):
                known = tuple(self._records.operations_of(member)) or known
            changes[number] = sight, Poll(self._clock(), member.seen_at, known, asked)
        return changes

    def _find_lost(self, node: Node, look: NodeLook, asked: int) -> Lost:
        """Nodes that are gone while their queued resource still exists.

        (If the queued resource is gone too, a lifecycle step closes the node.)
        """
        if look.queue is None or look.absence is not Absence.CERTAIN:
            return {}
        lost = {}
        for number, sight in zip(slice_numbers(node), look.members, strict=True):
            member, state = slice_as_node(node, number), state_of_absent_node(node, look.queue)
            if sight is None and member.cloud_uid and member.state not in _GOING:
                lost[number] = state, self._records.build_poll(node, self._clock(), asked)(member)
        return lost


def _list_absent(node: Node, look: NodeLook) -> Iterator[str]:
    """Yield the full names of parts that existed before and are absent now."""
    if node.spec.queued:
        if look.queue is None and node.queue_state:
            yield node.place.queue_path
        if not needs_nodes(node, look.queue):
            return
    created = look.operation is not None and look.operation.verb == "create"
    came = created and look.operation is not None and look.operation.has_succeeded
    for number, sight in zip(slice_numbers(node), look.members, strict=True):
        member = slice_as_node(node, number)
        if sight is None and (member.cloud_uid or (came and not node.spec.queued)):
            yield member.place.path


def _is_deletion_recorded(
    proofs: Iterable[Operation], node: Node, paths: Sequence[str], ticket: str
) -> bool:
    """Whether the operations show the deletion of each path, or of the queued resource that stands
    for all paths."""
    deleted = {operation.target for operation in proofs if was_deleted([operation], node)}
    return ticket in deleted or deleted.issuperset(paths)


def _is_nameless(node: Node) -> bool:
    """Whether the node appeared although the answer to its create was lost or came too late. Only
    the operation can say later why such a node failed."""
    has_appeared = bool(node.cloud_uid) and node.up_since is None
    return has_appeared and not node.operation and not node.spec.queued


def _is_start_explained(node: Node, known: Sequence[Operation], sight: CloudNode) -> bool:
    """Whether the known operation made the node READY, so that the record need not be read. It must
    have ended after the node entered its stored state.

    After an unanswered create there may have been an earlier node of that name. A node that comes
    back by itself may have been READY, and stopped, before that operation.
    """
    return (
        is_billable(sight.state)
        and node.unanswered_at is None
        and node.state not in COMES_BACK_BY_ITSELF
        and any(
            operation.has_succeeded
            and operation.verb in ("create", "start")
            and operation.ended_at is not None
            and operation.ended_at >= node.state_since
            for operation in known
        )
    )


def _or_none(get: Callable[[Place], Found], place: Place) -> Found | None:
    try:
        return get(place)
    except CloudNotFound:
        return None
