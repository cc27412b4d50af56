"""Decides which of several causes ends a node, and what holds each of them back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class EndCause(IntEnum):
    """The causes that end a node, the strongest first.

    The strongest cause that applies is the reason of the deletion.
    """

    PERSON = 1
    GOOGLE = 2
    JOB_END = 3
    BUDGET = 4
    TTL = 5
    IDLE = 6
    ORPHAN = 7


class Holder(StrEnum):
    """What may hold a deletion back."""

    KEEP = "keep"
    UNKNOWN = "unknown"
    BUSY_JOB = "busy_job"
    RAILS = "rails"
    PAUSE = "pause"
    MODE = "mode"
    NOTICE = "notice"
    """The owner cannot be notified, or the notification was not tried yet."""


HELD_BY: Mapping[EndCause, frozenset[Holder]] = {
    EndCause.PERSON: frozenset(),
    EndCause.GOOGLE: frozenset(),
    EndCause.JOB_END: frozenset({Holder.KEEP}),
    EndCause.BUDGET: frozenset(),
    EndCause.TTL: frozenset({Holder.KEEP, Holder.PAUSE}),
    EndCause.IDLE: frozenset(Holder),
    EndCause.ORPHAN: frozenset({Holder.KEEP}),
}
"""The holders of each cause. The orphan collector has limits of its own
(`service.domain.orphans.verdict`); adopting an orphan keeps it. A budget waits only for its own
grace."""


@dataclass(frozen=True, slots=True)
class EndDecision:
    """The cause that ends the node now (None: no cause), the other causes, and their holders."""

    ender: EndCause | None
    others: tuple[EndCause, ...]
    held: Mapping[EndCause, frozenset[Holder]]


def describe_others(causes: Iterable[str], reason: str) -> str:
    """The causes without precedence, to append to the reason of the one that decides; empty for
    none.

    A cause whose text begins the reason is the one that decides.
    """
    others = [text for text in causes if not reason.startswith(text)]
    return f" (also: {'; '.join(others)})" if others else ""


def decide_end(enders: Iterable[EndCause], holders: Iterable[Holder]) -> EndDecision:
    """The cause that takes precedence: the strongest that nothing holds back, with the others and
    their holders."""
    holding = frozenset(holders)
    held = {cause: HELD_BY[cause] & holding for cause in sorted(set(enders))}
    free = [cause for cause in held if not held[cause]]
    ender = free[0] if free else None
    return EndDecision(
        ender,
        tuple(cause for cause in held if cause is not ender),
        {cause: by for cause, by in held.items() if by},
    )
