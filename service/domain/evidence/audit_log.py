"""Corrects the end of usage by Google's audit log, whose entries may come days late. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from service.domain.clock import DAY, HOUR, MINUTE, to_rfc3339
from service.domain.lease import Lease
from service.domain.metering.meter import CLOCK_TOLERANCE, Evidence, Usage
from service.domain.metering.usage import (
    FirstMinuteWaiver,
    waiver_of,
    with_first_minute_rule,
    with_waiver,
)
from service.domain.money import format_dollars
from service.domain.pricing.billing_rules import free_if_preempted_within
from service.domain.time_window import Window

QUERIED_AFTER = (
    0,
    15,
    MINUTE,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    12 * HOUR,
    *(days * DAY for days in range(1, 8)),
)
"""Seconds after the end of usage at which the log is queried about it. Entries arrive late, but an
entry that is missing after a week will not arrive. The second query finds usage that was not
recorded yet at the first: the inventory and the query do not wait for each other."""

FIRST_QUERY_SECONDS = 30 * DAY
"""The first query of a daemon covers the uncertain ends of so many seconds: a daemon that was down
for weeks has missed every query about them."""

PATIENCE = HOUR
"""Seconds for which budget deletions wait for a log that does not answer. After that the nodes are
deleted all the same: they cost money that the budget does not allow."""

_LONGEST_REASON = 100


@dataclass(frozen=True, slots=True)
class LogState:
    """Whether a project's log has answered the holder of `lease`.

    `silent_since` is when the log stopped answering; None while it answers.
    `releases_deletions` is True once the log has answered the holder of `lease`, or was silent for
    PATIENCE: budget deletions then wait no longer. It is False right after a takeover.
    """

    lease: Lease
    silent_since: int | None
    releases_deletions: bool = False


def next_log_state(before: LogState | None, lease: Lease, now: int, *, answered: bool) -> LogState:
    """The state of the audit log after one more query. After PATIENCE seconds of silence, deletions
    are released without an answer."""
    if answered:
        return LogState(lease, None, releases_deletions=True)
    mine = before if before is not None and before.lease == lease else None
    since = now if mine is None or mine.silent_since is None else mine.silent_since
    return LogState(lease, since, releases_deletions=now - since >= PATIENCE)


@dataclass(frozen=True, slots=True)
class Termination:
    """An audit log entry: Google took a node back at `at` (whole UTC seconds).

    `path` is the node's full name. Google's entry has no uid (reference/cloud-tpu-api.md section
    3.1), and needs none here: we never give a name twice.
    """

    path: str
    at: int
    reason: str = ""


def due_windows(asked: int | None, now: int) -> tuple[Window, ...]:
    """The windows of usage ends about which the audit log is queried now. `asked` is the previous
    query.

    No state is kept per usage. Windows that were missed while no daemon ran are due at once.
    """
    if asked is None or asked > now:
        return (Window(now - FIRST_QUERY_SECONDS, now + 1),)
    if asked == now:
        return ()
    return tuple(Window(asked - after + 1, now - after + 1) for after in QUERIED_AFTER)


def is_end_uncertain(usage: Usage) -> bool:
    """Whether the audit log can improve the end of usage: only two polls bound it so far.

    False for usage that no poll saw. An entry says when usage ended, not whether there was any.
    """
    return (
        usage.end is not None
        and usage.end_lo is not None
        and usage.end_lo < usage.end
        and usage.end_evidence is Evidence.OBSERVED
        and usage.start_evidence is not Evidence.UNSEEN
    )


def window_of(open_usage: Iterable[Usage]) -> Window:
    """The seconds of the audit log that contain the ends of all these usages, at least one."""
    ends = [(usage.end_lo, usage.end) for usage in open_usage]
    first = min(low for low, _ in ends if low is not None)
    last = max(high for _, high in ends if high is not None)
    return Window(first - CLOCK_TOLERANCE, last + CLOCK_TOLERANCE + 1)


def find_termination(usage: Usage, terminations: Iterable[Termination]) -> Termination | None:
    """The audit log entry that ended this usage, among those of its node; None if there is none.

    An entry outside the two polls contradicts them and is ignored. The earliest entry counts: a
    node that was taken back is never READY again, so a later entry repeats it, or is about another
    node of the same name.
    """
    fitting = [entry for entry in terminations if is_possible_end(usage, entry.at)]
    return min(fitting, key=lambda entry: entry.at, default=None)


def is_possible_end(usage: Usage, at: int) -> bool:
    """Whether usage may have ended at the instant of an audit log entry, within CLOCK_TOLERANCE."""
    return (
        usage.end is not None
        and usage.end_lo is not None
        and usage.end_lo - CLOCK_TOLERANCE < at <= usage.end + CLOCK_TOLERANCE
    )


def latest_start(usage: Usage, first_believed: int) -> int:
    """The latest possible start of usage for a correction by the audit log. `first_believed` is the
    bound when the usage was opened.

    A preemption that may fall in the first minute makes the whole usage uncertain: `start_hi` then
    is its end. `first_believed` is the bound from before that.
    """
    return usage.start if usage.start_evidence is Evidence.OPERATION else first_believed


def needs_creation_time(usage: Usage, began: int, entry: Termination) -> bool:
    """Whether the creation time decides the price of usage that the audit log ends. The first
    minute of a node may be free."""
    return _clamp_to_bounds(usage, entry.at) - began < free_if_preempted_within(entry.at)


def correct_end(usage: Usage, entry: Termination, began: int, created_at: int | None) -> Usage:
    """The usage with its end from the audit log, kept between the two polls that bound it.

    `began` is the latest possible start. `created_at` is the creation time of the node (None: not
    known); the rule of the free first minute is applied again with it.
    """
    at = _clamp_to_bounds(usage, entry.at)
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
    if created_at is None and needs_creation_time(usage, began, entry):
        return replace(exact, start_hi=at)  # it may be free
    return with_first_minute_rule(exact, created_at)


def correct_earlier(
    after: Usage,
    created_at: int | None,
    earlier: Iterable[tuple[Usage, int]],
    *,
    is_created_at_needed: bool,
) -> Iterator[Usage]:
    """The earlier intervals of a placement that the audit log's correction of the last interval
    `after` changes.

    Each interval comes with its latest possible start. Before the correction the preemption may
    have fallen in the first minute, which made all intervals uncertain; now it does not.

    `created_at` is the creation time of the node. All intervals stay uncertain if it is not known
    although `is_created_at_needed`.
    """
    assert after.end is not None
    waiver = waiver_of(after.end, after.end, created_at)
    if is_created_at_needed and created_at is None:
        waiver = FirstMinuteWaiver.POSSIBLE
    for usage, began in earlier:
        if usage.end is None or usage.free:
            continue
        believed = replace(usage, start_hi=min(max(began, usage.start), usage.end))
        changed = with_waiver(believed, waiver)
        if changed != usage:
            yield changed


def _clamp_to_bounds(usage: Usage, at: int) -> int:
    assert usage.end is not None
    assert usage.end_lo is not None
    return min(max(at, usage.end_lo, usage.start), usage.end)


def describe_correction(before: Usage, after: Usage, entry: Termination, taken_back: int) -> str:
    """One sentence for an event on what the audit log changed. `taken_back` is nano-dollars."""
    assert before.end is not None
    assert after.end is not None
    by = f" ({entry.reason[:_LONGEST_REASON]})" if entry.reason else ""
    ended = f"ended at {to_rfc3339(after.end)} by Google's audit log{by}"
    money = f": {format_dollars(taken_back)}" if taken_back else ""
    if after.free and not before.free:
        return f"{ended}, {after.free}, which is free; the charge is credited{money}"
    seconds = before.end - after.end
    if not seconds or before.free:
        return f"{ended}; the charge does not change"
    return f"{ended}; the charge for {seconds:,} s more is credited{money}"
