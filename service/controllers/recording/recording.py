"""Records what a look at the cloud changed: node, usage, ledger and events in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from service.controllers.recording.posting import post_usage
from service.domain.event import Event
from service.domain.evidence.interruptions import describe_shortened, shorten_to_record
from service.domain.evidence.observation import (
    close_usage_of_down_node,
    has_stayed_up,
    observe_node,
)
from service.domain.evidence.poll import Poll
from service.domain.evidence.unseen_usage import (
    describe_unseen_usage,
    find_return,
    find_unseen_usage,
)
from service.domain.metering.meter import Evidence, Usage
from service.domain.metering.usage import waive_siblings, waiver_of, with_start_after
from service.domain.nodes.node import LOST, CloudNode, Node
from service.domain.nodes.placement import Outcome
from service.domain.nodes.slices import WHOLE, merge_slices, slice_as_node, slice_numbers
from service.domain.pricing.billing_rules import is_billable
from service.domain.pricing.price_book import PriceBook
from service.store.observations import Observation
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit

Sights = Mapping[int, tuple[CloudNode, Poll]]
"""The sight and poll of each slice that was looked at; of WHOLE for a node without slices."""

Lost = Mapping[int, tuple[str, Poll]]
"""The new state and the poll of each slice that no longer exists in the cloud."""


def lock_and_price(unit: Unit, node_ids: Iterable[str], prices: PriceBookCache) -> PriceBook:
    """Lock the usage of nodes, then return the prices for posting it. In this order, because a
    price that is entered later waits for the lock and has the usage posted again."""
    unit.usage.lock(node_ids)
    return prices.get_book(unit)


def needs_evidence(node: Node, sight: CloudNode) -> bool:
    """Whether billable time may begin or end here, so that the cloud's record is worth a call."""
    return sight.state != node.state and (
        is_billable(sight.state)
        or is_billable(node.state)
        or node.up_since is None
        or has_stayed_up(node, sight.state)
    )


def record_sights(unit: Unit, node: Node, sights: Sights, book: PriceBook, source: str) -> Node:
    """Record the sights of a node, or of some of its slices; returns the node after them."""
    unit.usage.lock([node.id])
    parts = []
    for number in slice_numbers(node):
        member = slice_as_node(node, number)
        if number in sights:
            member = _believe_part(unit, member, number, sights[number], _Recorder(book, source))
        parts.append(member)
    now = max(poll.now for _, poll in sights.values())
    after = merge_slices(node, parts, now)
    if node.up_since is None and after.up_since is not None:
        unit.placements.save_ready(node.id, node.attempt, after.up_since)
    return after


@dataclass(frozen=True, slots=True)
class _Recorder:
    """The prices, and the controller that made the observation."""

    book: PriceBook
    source: str


def _believe_part(
    unit: Unit,
    member: Node,
    number: int,
    seen: tuple[CloudNode, Poll],
    recorder: _Recorder,
) -> Node:
    sight, poll = seen
    running = unit.usage.find_open(member.id, number)
    belief = observe_node(member, sight, running, poll)
    if belief.node.state != member.state:
        unit.observations.add(
            Observation(
                node_id=belief.node.id,
                cloud_uid=belief.node.cloud_uid,
                state=belief.node.state,
                happened_at=belief.happened_at,
                observed_at=poll.now,
                recorded_at=poll.now,
                source=recorder.source,
            )
        )
    if belief.usage is not None and belief.usage != running:
        usage = _with_slice(unit, belief.usage, number, is_new=running is None)
        write_usage(unit, usage, recorder.book, poll.now)
    if sight.state in LOST and belief.node.state != member.state:
        _waive_earlier(unit, member, number, belief.usage, seen, recorder.book)
    unit.events.add(*(with_slice_label(event, number) for event in belief.events))
    return belief.node


def _waive_earlier(
    unit: Unit,
    member: Node,
    number: int,
    last: Usage | None,
    seen: tuple[CloudNode, Poll],
    book: PriceBook,
) -> None:
    """Apply the first-minute rule to the earlier intervals of a preempted placement: within that
    minute, a node may have been READY, in maintenance, and READY again. `last` is the interval that
    the preemption ended; None if the node was not READY then."""
    sight, poll = seen
    own = [usage for usage in intervals_of_placement(unit, member, number) if usage.end is not None]
    before = max((usage.end or 0 for usage in own), default=poll.previous)
    lost = (max(poll.previous, before), poll.now)
    if last is not None and last.end is not None and last.end_lo is not None:
        lost = (last.end_lo, last.end)
    waiver = waiver_of(*lost, sight.created_at)
    for usage in waive_siblings(last, waiver, own):
        write_usage(unit, usage, book, poll.now)


def intervals_of_placement(unit: Unit, node: Node, number: int) -> list[Usage]:
    """The intervals of a node's current placement, or of one of its slices, first to last."""
    since = node.sent_at or 0
    own = (usage for usage in unit.usage.list_by_node(node.id) if usage.slice == number)
    return [usage for usage in own if usage.start >= since]


def end_usage(unit: Unit, node: Node, poll: Callable[[Node], Poll], book: PriceBook) -> Node:
    """Close the usage of a node that has ended or is gone; returns the node after that."""
    unit.usage.lock([node.id])
    parts = []
    for number in slice_numbers(node):
        member = slice_as_node(node, number)
        parts.append(_end_part(unit, member, number, poll(member), book))
    after = merge_slices(node, parts, node.state_since)
    if node.up_since is None and after.up_since is not None:
        unit.placements.save_ready(node.id, node.attempt, after.up_since)
    return after


def shorten_last_usage(
    unit: Unit, node: Node, poll: Callable[[Node], Poll], book: PriceBook
) -> None:
    """Shorten the last usage of a node that is gone, if the cloud's record shows that somebody
    ended the node just before we did."""
    unit.usage.lock([node.id])
    for number in slice_numbers(node):
        member = slice_as_node(node, number)
        seen = poll(member)
        own = intervals_of_placement(unit, node, number)
        last = max(own, key=lambda usage: usage.start, default=None)
        if last is None:
            continue
        if (after := shorten_to_record(last, seen.operations)) is not None:
            write_usage(unit, after, book, seen.now)
            unit.events.add(
                with_slice_label(describe_shortened(member, last, after, seen.now), number)
            )


def charge_unseen_usage(
    unit: Unit, node: Node, poll: Callable[[Node], Poll], book: PriceBook
) -> None:
    """Charge usage that no look observed but the cloud's record shows, of a node that is gone for
    good."""
    unit.usage.lock([node.id])
    for number in slice_numbers(node):
        member = slice_as_node(node, number)
        seen = poll(member)
        own = [usage for usage in unit.usage.list_by_node(node.id) if usage.slice == number]
        for usage in find_unseen_usage(member, own, seen.operations):
            write_usage(unit, replace(usage, slice=number), book, seen.now)
            unit.events.add(
                with_slice_label(describe_unseen_usage(member, usage, seen.now), number)
            )


def record_lost(unit: Unit, node: Node, lost: Lost, book: PriceBook) -> Node:
    """Record that slices, or the node itself, no longer exist; returns the node after that."""
    unit.usage.lock([node.id])
    parts = []
    for number in slice_numbers(node):
        member = slice_as_node(node, number)
        if number in lost:
            state, poll = lost[number]
            change = f"{state} in {member.zone}, was {member.state}"
            message = f"{change}: {member.cloud_id} is no longer there"
            unit.events.add(Event(member.id, poll.now, "state", message))
            member = _end_part(unit, member, number, poll, book).with_state(state, poll.now)
        parts.append(member)
    return merge_slices(node, parts, max(poll.now for _, poll in lost.values()))


def _end_part(unit: Unit, member: Node, number: int, poll: Poll, book: PriceBook) -> Node:
    """Close the usage of one slice, or of a node without slices."""
    running = unit.usage.find_open(member.id, number)
    usage = close_usage_of_down_node(member, running, poll)
    if usage is None:
        usage = find_return(member, unit.usage.find_last_end(member.id, number), poll)
    if usage is None:
        return member
    usage = _with_slice(unit, usage, number, is_new=running is None)
    if running is None and usage.start == usage.end:
        return member  # this usage is recorded already
    write_usage(unit, usage, book, poll.now)
    if member.up_since is not None or usage.start_evidence is Evidence.UNSEEN:
        return member
    first = usage.start if member.ready_at is None else member.ready_at
    return replace(member, up_since=usage.start, ready_at=first)


def end_placement(
    unit: Unit, node: Node, outcome: Outcome, reason: str, now: int, scope: str = ""
) -> None:
    """Record once, with an event, how the current attempt ended."""
    if not unit.placements.end_attempt(node.id, node.attempt, outcome, reason, now, scope):
        return
    message = f"attempt {node.attempt} in {node.zone} ended: {outcome}"
    if reason:
        message += f" ({reason.rstrip('.')})"
    unit.events.add(Event(node.id, now, "placement", message, facts={"outcome": outcome}))


def with_slice_label(event: Event, number: int) -> Event:
    """The event with the slice number in its message; unchanged for a node without slices."""
    if number == WHOLE:
        return event
    return replace(event, message=f"slice {number}: {event.message}")


def _with_slice(unit: Unit, usage: Usage, number: int, *, is_new: bool) -> Usage:
    """The usage with the slice number; a new usage begins after the previous one."""
    usage = replace(usage, slice=number)
    return (
        with_start_after(usage, unit.usage.find_last_end(usage.node_id, number))
        if is_new
        else usage
    )


def write_usage(unit: Unit, usage: Usage, book: PriceBook, now: int) -> None:
    """Save the usage and post the whole interval again: an earlier posting may have had another
    start or price."""
    saved = unit.usage.save(replace(usage, dirty=True))
    unit.usage_versions.add(saved, now)
    post_usage(unit, saved, book, now)
