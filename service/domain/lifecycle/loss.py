"""What befell a node that was up and is lost, as its owner is told of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.lifecycle.step import NodeLook
from service.domain.nodes.node import LOST, CloudNode
from service.domain.nodes.queued_resource import QueueState

_TOLD = 5
"""Slices that are told of by their numbers."""

_SUSPENDED = frozenset({QueueState.SUSPENDING, QueueState.SUSPENDED})


def by_hand(look: NodeLook) -> bool:
    """Whether it is somebody's doing, and not Google's, that a queued resource has lost its nodes:
    then nobody wants others in their place."""
    queue = look.queue
    suspended = queue is not None and queue.state in _SUSPENDED and queue.initiator == "USER"
    return suspended and all(one.state not in LOST for one in look.present)


def befell(look: NodeLook, zone: str) -> str:
    """Why what the look shows cannot be used any more: what happened to it, not what it is called
    now; a queued resource may well be ACTIVE while one of its slices is gone."""
    queue = look.queue
    if queue is not None and queue.state in _SUSPENDED:
        why = (
            "it was deleted or reset outside this service"
            if by_hand(look)
            else "Google reclaimed its nodes"
        )
        return f"its queued resource in {zone} was suspended: {why}"
    if queue is not None and queue.error is not None:
        return f"its queued resource in {zone} failed: {queue.error}"
    return _of_slices(look.slices, zone) if look.slices else _of_one(look, zone)


def _of_one(look: NodeLook, zone: str) -> str:
    sight, operation = look.sight, look.operation
    if sight is None:
        return f"its node is no longer there in {zone}, though its queued resource still is"
    if sight.state not in LOST and operation is not None and operation.error is not None:
        return f"it failed in {zone}: {operation.error}"
    return f"it was {sight.state.lower()} in {zone}"


def _of_slices(slices: Sequence[CloudNode | None], zone: str) -> str:
    """Which of them it befell, by the numbers that their names end in."""
    befallen: dict[str, list[int]] = {}
    for number, one in enumerate(slices):
        if one is None:
            befallen.setdefault("no longer there", []).append(number)
        elif one.state in LOST:
            befallen.setdefault(one.state.lower(), []).append(number)
    told = [_numbered(what, numbers, len(slices)) for what, numbers in befallen.items()]
    return f"{', and '.join(told) or 'it was lost'} in {zone}"


def _numbered(what: str, numbers: Sequence[int], total: int) -> str:
    if len(numbers) == 1:
        return f"slice {numbers[0]} of {total} was {what}"
    *first, last = (str(number) for number in numbers[:_TOLD])
    more = f" and {len(numbers) - _TOLD} more" if len(numbers) > _TOLD else ""
    listed = f"{', '.join(first)}, {last}{more}" if more else f"{', '.join(first)} and {last}"
    return f"slices {listed} of {total} were {what}"
