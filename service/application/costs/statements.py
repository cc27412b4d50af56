"""Months: the total of each, and whether it may still change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from service.application.answers import Answers
from service.domain.billing_period import BillingMonth, PeriodState, period_named, period_of
from service.domain.clock import MINUTE, Clock
from service.store.statements import StatementLine
from service.store.unit import Unit, Units

MOST_MONTHS = 120

_KEPT = 128
_MOST_LINES = 2_000


@dataclass(frozen=True, slots=True)
class MonthToDate:
    """What is billed in a month so far, from what is posted: nano-dollars, chip-seconds, and
    seconds of users' own machines."""

    period: BillingMonth
    state: PeriodState
    amount: int
    chip_seconds: int
    vm_seconds: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A month and the lines that add up to it."""

    month: MonthToDate
    lines: Sequence[StatementLine]


class StatementService:
    """Reads the ledger by the month in which its lines are billed."""

    def __init__(self, units: Units, clock: Clock) -> None:
        self._units = units
        self._clock = clock
        self._answers = Answers(_KEPT)

    def list_months(self) -> Sequence[MonthToDate]:
        """Every month since the first charge, the latest first."""
        now, found = self._clock(), list[MonthToDate]()
        with self._units.reading() as unit:
            first, fresh = unit.statements.find_first_hour(), _fresh_key(unit, now)
            period = period_of(now)
            while first is not None and period.end > first and len(found) < MOST_MONTHS:
                read = partial(unit.statements.sum_month, period)
                total = self._answers.get_or_make(("total", period, fresh), read)
                found.append(MonthToDate(period, period.state_at(now), *total))
                period = period_of(period.start - 1)
        return found

    def get_statement(self, name: str) -> Statement:
        """The month of that name, `2026-11`, line by line. Raises Rejected for an invalid name."""
        period, now = period_named(name), self._clock()
        with self._units.reading() as unit:
            read = partial(unit.statements.list_lines, period)
            key = "lines", period, _fresh_key(unit, now)
            lines = self._answers.get_or_make(key, read, lambda found: len(found) <= _MOST_LINES)
        month = MonthToDate(
            period,
            period.state_at(now),
            amount=sum(line.amount for line in lines),
            chip_seconds=sum(line.chip_seconds for line in lines),
            vm_seconds=sum(line.vm_seconds for line in lines),
        )
        return Statement(month, lines)


def _fresh_key(unit: Unit, now: int) -> tuple[int, int]:
    """What sums of the ledger depend on; for the minute see `service.application.costs.costs`."""
    return unit.revisions.read_current().books, now // MINUTE
