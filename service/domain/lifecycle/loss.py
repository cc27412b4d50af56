"""Explains the loss of a node that was up, for its owner. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.lifecycle.step import NodeLook
from service.domain.nodes.node import LOST, CloudNode
from service.domain.nodes.queued_resource import QueueState

_TOLD = 5
"""Maximum number of slices whose numbers are listed."""

_SUSPENDED = frozenset({QueueState.SUSPENDING, QueueState.SUSPENDED})


def is_by_hand(look: NodeLook) -> bool:
    """Whether the loss of a queued resource's nodes is the act of a user, and not Google's.

    Then no replacement is wanted.
    """
    queue = look.queue
    suspended = queue is not None and queue.state in _SUSPENDED and queue.initiator == "USER"
    return suspended and all(sight.state not in LOST for sight in look.present_members)


def describe_loss(look: NodeLook, zone: str) -> str:
    """The reason for the loss of a node, which can no longer be used.

    The reason is the event, not the present state: a queued resource may be ACTIVE although one of
    its slices is gone.
    """
    queue = look.queue
    if queue is not None and queue.state in _SUSPENDED:
        why = (
            "it was deleted or reset outside this service"
            if is_by_hand(look)
            else "Google reclaimed its nodes"
        )
        return f"its queued resource in {zone} was suspended: {why}"
    if queue is not None and queue.error is not None:
        return f"its queued resource in {zone} failed: {queue.error}"
    if look.slices:
        return _describe_lost_slices(look.slices, zone)
    return _describe_lost_node(look, zone)


def _describe_lost_node(look: NodeLook, zone: str) -> str:
    sight, operation = look.sight, look.operation
    if sight is None:
        return f"its node is no longer there in {zone}, though its queued resource still is"
    if sight.state not in LOST and operation is not None and operation.error is not None:
        return f"it failed in {zone}: {operation.error}"
    return f"it was {sight.state.lower()} in {zone}"


def _describe_lost_slices(slices: Sequence[CloudNode | None], zone: str) -> str:
    """Which slices were lost, by the numbers at the end of their names."""
    lost: dict[str, list[int]] = {}
    for number, sight in enumerate(slices):
        if sight is None:
            lost.setdefault("no longer there", []).append(number)
        elif sight.state in LOST:
            lost.setdefault(sight.state.lower(), []).append(number)
    told, total = [], len(slices)
    for what, numbers in lost.items():
        if len(numbers) == 1:
            told.append(f"slice {numbers[0]} of {total} was {what}")
            continue
        *first, last = (str(number) for number in numbers[:_TOLD])
        more = f" and {len(numbers) - _TOLD} more" if len(numbers) > _TOLD else ""
        listed = f"{', '.join(first)}, {last}{more}" if more else f"{', '.join(first)} and {last}"
        told.append(f"slices {listed} of {total} were {what}")
    return f"{', and '.join(told) or 'it was lost'} in {zone}"
