"""Which of several reasons ends a node, and what holds each of them back. Pure; one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class EndCause(IntEnum):
    """Who or what ends a node, the strongest first. The strongest that applies decides and is the
    reason of the deletion."""

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
    """Nobody can be told of it, or its message waits for its first try."""


HELD_BY: Mapping[EndCause, frozenset[Holder]] = {
    EndCause.PERSON: frozenset(),
    EndCause.GOOGLE: frozenset(),
    EndCause.JOB_END: frozenset({Holder.KEEP}),
    EndCause.BUDGET: frozenset(),
    EndCause.TTL: frozenset({Holder.KEEP, Holder.PAUSE}),
    EndCause.IDLE: frozenset(Holder),
    EndCause.ORPHAN: frozenset({Holder.KEEP}),
}
"""What holds each back. The orphan collector has rails of its own
(`service.domain.orphans.verdict`), and to adopt an orphan is to keep it. A cap is a cap: a budget
waits for its own grace alone."""


@dataclass(frozen=True, slots=True)
class EndDecision:
    """Who ends the node now, None for nobody; who else would; and what holds whom back."""

    ender: EndCause | None
    others: tuple[EndCause, ...]
    held: Mapping[EndCause, frozenset[Holder]]


def decide(enders: Iterable[EndCause], holders: Iterable[Holder]) -> EndDecision:
    """The strongest ender that nothing holds back."""
    holding = frozenset(holders)
    held = {one: HELD_BY[one] & holding for one in sorted(set(enders))}
    free = [one for one in held if not held[one]]
    ender = free[0] if free else None
    return EndDecision(
        ender,
        tuple(one for one in held if one is not ender),
        {one: by for one, by in held.items() if by},
    )
