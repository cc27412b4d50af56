"""Bugs of the cleanup that somebody could write tomorrow; the first four are the grossest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from service.domain.idle import assess, course, rails
from service.domain.idle import round as rounds
from service.domain.idle.keep import Keep
from service.domain.idle.proof import Verdict
from service.domain.idle.rails import Allowed, Due, Rail, Waiting
from service.domain.idle.signal import Level

Planting = Callable[[], Any]


def nothing_is_ever_a_candidate() -> Any:
    """No node is ever at rest for long enough."""
    return patch.object(course, "_is_idle", lambda *_: False)


def everything_is_unknown() -> Any:
    """Nobody knows anything of any node."""
    return patch.object(assess, "judge", lambda *_: Verdict(Level.UNKNOWN, "who knows"))


def the_breaker_never_closes() -> Any:
    """Once open, for ever open."""
    return patch.object(rails, "CLOSING_SECONDS", 10**9)


def the_pace_is_zero() -> Any:
    """Everybody waits for a turn that never comes."""

    def paced(due: list[Due], _live: int, _begun: object, now: int, period: int) -> Allowed:
        waits = [Waiting(one.node_id, Rail.TICK, 1, now + period) for one in due]
        return Allowed((), tuple(waits))

    return patch.object(rounds, "paced", paced)


def the_grace_is_skipped() -> Any:
    """What was told of goes at the next look."""
    real = course.due_at

    def due_at(before: Any, applied: Any) -> int | None:
        at = real(before, applied)
        return None if at is None else before.notified_at

    return patch.object(course, "due_at", due_at)


def a_keep_holds_nothing() -> Any:
    """Whoever keeps a node is not heard."""
    return patch.object(Keep, "holds", lambda *_: False)


def held_devices_are_free() -> Any:
    """A process that holds the device is overlooked, as is what it did."""
    real = assess.judge

    def judge(evidence: Any, *more: Any) -> Verdict:
        tracks = {
            key: track._replace(at_rest=((0, track.end),), broken_at=None, level=Level.QUIET)
            for key, track in evidence.tracks.items()
        }
        return real(replace(evidence, tracks=tracks, hosts={}), *more)

    return patch.object(assess, "judge", judge)


GROSS: Mapping[str, Planting] = {
    plant.__name__: plant
    for plant in (
        nothing_is_ever_a_candidate,
        everything_is_unknown,
        the_breaker_never_closes,
        the_pace_is_zero,
    )
}
SUBTLE: Mapping[str, Planting] = {
    plant.__name__: plant
    for plant in (the_grace_is_skipped, a_keep_holds_nothing, held_devices_are_free)
}
