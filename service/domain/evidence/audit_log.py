"""How usage ended by what the cloud's audit log says of it, late as that may be known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from service.domain.clock import DAY, HOUR, MINUTE, rfc3339
from service.domain.lease import Lease
from service.domain.metering.meter import (
    CLOCK_TOLERANCE,
    Evidence,
    Usage,
    Waiver,
    forgiven,
    waived,
    waiver_of,
)
from service.domain.money import dollars
from service.domain.pricing.billing_rules import free_if_preempted_within
from service.domain.time_window import Window

ASKED_AFTER = (
    0,
    15,
    MINUTE,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    12 * HOUR,
    *(days * DAY for days in range(1, 8)),
)
"""Seconds after its end at which the log is asked about usage: entries arrive late, but what is not
there after a week will not come. (The second turn is for what was not written down yet when the
first one came: who looks and who asks do not wait for each other.)"""

LOOKED_BACK = 30 * DAY
"""Seconds of which all that is open is asked about once, by who has never asked: a daemon that was
down for weeks may have missed every turn of it."""

PATIENCE = HOUR
"""Seconds for which budgets wait for a log that gives no answer before they have nodes deleted all
the same: what runs meanwhile costs money that nobody may spend, and a log that is out for longer
cannot be waited for."""

_LONGEST_REASON = 100


@dataclass(frozen=True, slots=True)
class Hearing:
    """Whether a project's log has said what it knows to the holder of `lease`: `silent_since` is
    when it last began to give no answer (None while it answers), `heard` whether anybody should
    still wait for one. Who takes a project over has heard nothing."""

    lease: Lease
    silent_since: int | None
    heard: bool = False


def hearing(before: Hearing | None, lease: Lease, now: int, *, answered: bool) -> Hearing:
    """The same after one more turn. A log that gives no answer for long counts as heard."""
    if answered:
        return Hearing(lease, None, heard=True)
    mine = before if before is not None and before.lease == lease else None
    since = now if mine is None or mine.silent_since is None else mine.silent_since
    return Hearing(lease, since, heard=now - since >= PATIENCE)


@dataclass(frozen=True, slots=True)
class Termination:
    """The cloud took a node away at `at` (whole UTC seconds): one entry of its audit log.

    `path` is the node's full name. Google's entry has no uid (reference/cloud-tpu-api.md section
    3.1), and needs none here: we never give a name twice.
    """

    path: str
    at: int
    reason: str = ""


def turns(asked: int | None, now: int) -> tuple[Window, ...]:
    """The usage whose turn it is, by the seconds in which it ended, when the log was last asked at
    `asked`. Nothing is remembered of each: what was missed while nobody asked is due at once."""
    if asked is None or asked > now:
        return (Window(now - LOOKED_BACK, now + 1),)
    if asked == now:
        return ()
    return tuple(Window(asked - after + 1, now - after + 1) for after in ASKED_AFTER)


def is_open(usage: Usage) -> bool:
    """Whether the log could say better when it ended: two looks is all that is known of that.

    Usage that nobody saw is left alone: when something ended says nothing of whether it was.
    """
    return (
        usage.end is not None
        and usage.end_lo is not None
        and usage.end_lo < usage.end
        and usage.end_evidence is Evidence.OBSERVED
        and usage.start_evidence is not Evidence.UNSEEN
    )


def asked_of(open_usage: Iterable[Usage]) -> Window:
    """The seconds of the log in which the ends of all of these must lie; there is one at least."""
    ends = [(one.end_lo, one.end) for one in open_usage]
    first = min(low for low, _ in ends if low is not None)
    last = max(high for _, high in ends if high is not None)
    return Window(first - CLOCK_TOLERANCE, last + CLOCK_TOLERANCE + 1)


def told(usage: Usage, terminations: Iterable[Termination]) -> Termination | None:
    """The entry that ended it, of those about its node; None when none did.

    What lies outside the two looks contradicts what was seen, and is not believed. Of several the
    earliest counts: a node that was taken away is never READY again, so a later one is the same
    told twice, or speaks of somebody's namesake.
    """
    fitting = [one for one in terminations if may_have_ended(usage, one.at)]
    return min(fitting, key=lambda one: one.at, default=None)


def may_have_ended(usage: Usage, at: int) -> bool:
    """Whether it may have ended at that instant, as clocks go."""
    return (
        usage.end is not None
        and usage.end_lo is not None
        and usage.end_lo - CLOCK_TOLERANCE < at <= usage.end + CLOCK_TOLERANCE
    )


def latest_beginning(usage: Usage, first_believed: int) -> int:
    """The latest that it may have begun; `first_believed` is what was believed of that at first.

    A preemption that could not be told from one in the first minute makes all of the usage
    uncertain, and so hides how well its beginning is known.
    """
    return usage.start if usage.start_evidence is Evidence.OPERATION else first_believed


def needs_birth(usage: Usage, began: int, entry: Termination) -> bool:
    """Whether it matters when its node was created: it may have been lost in its first minute."""
    return _within(usage, entry.at) - began < free_if_preempted_within(entry.at)


def corrected(usage: Usage, entry: Termination, began: int, created_at: int | None) -> Usage:
    """The usage with its end by the log, never outside the two looks between which it was seen.

    `began` is the latest that it may have begun. `created_at` is when its node was created, where
    that is known: the rule of the first minute is applied anew.
    """
    at = _within(usage, entry.at)
    exact = replace(
        usage,
        start_hi=min(max(began, usage.start), at),
        end=at,
        end_lo=at,
        end_evidence=Evidence.AUDIT,
        dirty=True,
    )
    if exact.free:
        return exact
    if created_at is None and needs_birth(usage, began, entry):
        return replace(exact, start_hi=at)  # it may cost nothing, and nobody can tell
    return forgiven(exact, created_at)


def corrected_earlier(
    after: Usage, born: int | None, earlier: Iterable[tuple[Usage, int]], *, needs_birth: bool
) -> Iterator[Usage]:
    """The earlier intervals of a placement, as far as the corrected end `after` of its last one
    changes them. Each comes with the latest that it may have begun: where the preemption could not
    be told from one in the first minute before, all of it was uncertain, and is so no more.

    `born` is when the node was created; where nobody knows that although it `needs_birth`, all
    stay uncertain.
    """
    assert after.end is not None
    waiver = waiver_of(after.end, after.end, born)
    if needs_birth and born is None:
        waiver = Waiver.POSSIBLE
    for usage, began in earlier:
        if usage.end is None or usage.free:
            continue
        believed = replace(usage, start_hi=min(max(began, usage.start), usage.end))
        changed = waived(believed, waiver)
        if changed != usage:
            yield changed


def _within(usage: Usage, at: int) -> int:
    assert usage.end is not None
    assert usage.end_lo is not None
    return min(max(at, usage.end_lo, usage.start), usage.end)


def sentence(before: Usage, after: Usage, entry: Termination, taken_back: int) -> str:
    """What the log changed, for the story of the node; `taken_back` is nano-dollars."""
    assert before.end is not None
    assert after.end is not None
    by = f" ({entry.reason[:_LONGEST_REASON]})" if entry.reason else ""
    ended = f"ended at {rfc3339(after.end)} by Google's audit log{by}"
    money = f": {dollars(taken_back)}" if taken_back else ""
    if after.free and not before.free:
        return f"{ended}, {after.free}, which is free; the charge is credited{money}"
    seconds = before.end - after.end
    if not seconds or before.free:
        return f"{ended}; the charge does not change"
    return f"{ended}; the charge for {seconds:,} s more is credited{money}"
