"""Billing periods: calendar months in UTC that are open, then provisional, then closed forever."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from service.domain.clock import HOUR, to_rfc3339
from service.domain.errors import Rejected

MONTH = r"(19[7-9][0-9]|[2-8][0-9]{3})-(0[1-9]|1[0-2])"
"""The regular expression of month names, from 1970 to 8999; Python and ECMA-262 read it alike."""

GRACE = 72 * HOUR
"""Seconds after the end of a month in which late corrections still go into it."""


class PeriodState(StrEnum):
    """What may still become of a month's sum."""

    OPEN = "open"
    """The month is not over."""

    PROVISIONAL = "provisional"
    """The month is over; late corrections still go into it."""

    CLOSED = "closed"
    """The sum never changes again: corrections go into the month in which they are made."""


@dataclass(frozen=True, slots=True)
class BillingMonth:
    """One month: the half-open seconds [start, end)."""

    start: int
    end: int

    @property
    def name(self) -> str:
        """The name, as in `2026-11`."""
        return datetime.fromtimestamp(self.start, UTC).strftime("%Y-%m")

    def state_at(self, now: int) -> PeriodState:
        """The state at `now`; it depends on the clock only."""
        if now < self.end:
            return PeriodState.OPEN
        return PeriodState.PROVISIONAL if now < self.end + GRACE else PeriodState.CLOSED


def period_of(instant: int) -> BillingMonth:
    """The billing period, a calendar month in UTC, that contains an instant."""
    first = datetime.fromtimestamp(instant, UTC).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return BillingMonth(int(first.timestamp()), int(following.timestamp()))


def period_named(name: str) -> BillingMonth:
    """The billing period of a month's name, such as `2026-11`. Raises Rejected if the name is
    invalid."""
    match = re.fullmatch(MONTH, name)
    if match is None:
        raise Rejected(f"{name[:80]!r} is not a month; write it as 2026-11", field="period")
    return period_of(int(datetime(int(match[1]), int(match[2]), 1, tzinfo=UTC).timestamp()))


def billed_in(charged: int, now: int) -> int | None:
    """The first second of the billing period of a charge of the instant `charged`, posted `now`.

    None in the usual case that the billing month is the month of the charge itself.
    """
    own = period_of(charged)
    if own.state_at(now) is not PeriodState.CLOSED:
        return None
    return period_of(now).start


def open_since(now: int) -> int:
    """The first second of the first billing period that is not closed. Nothing changes before
    it."""
    month = period_of(now)
    before = period_of(month.start - 1)
    return month.start if before.state_at(now) is PeriodState.CLOSED else before.start


def check_open(instant: int, now: int, field: str) -> None:
    """Raise Rejected for an instant in a closed billing period."""
    month = period_of(instant)
    if month.state_at(now) is PeriodState.CLOSED:
        raise Rejected(
            f"{month.name} is closed and cannot change; the first open month is"
            f" {period_of(open_since(now)).name}",
            field=field,
            period=month.name,
        )


def check_not_past(instant: int, now: int, what: str, field: str) -> None:
    """Raise Rejected for an instant in the past, or in a closed billing period. Past charges do not
    change."""
    check_open(instant, now, field)
    if instant < now:
        raise Rejected(
            f"{what} cannot change the past, and {to_rfc3339(instant)} is over; set it to"
            f" {to_rfc3339(now)} or later",
            field=field,
        )
