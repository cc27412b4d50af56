"""Recommends how many chips to commit to for one and for three years, by recorded usage. Pure.

A commitment is paid for every hour of its term, used or not. So the k-th chip pays if at least k
chips are in use for a larger share of the time than the ratio of the committed price to the
on-demand price: 70 % for many, 16.8 hours of a day (`pricing.md` 4). The shares are of exact
seconds. An average would be wrong: 16 chips for half of the time do not justify committing to 8.

The certainty is estimated by draws of whole weeks (a moving-block bootstrap). A draw has as many
weeks as the history, each beginning on any of its days. The recommended number pays in nine of ten
draws. Units are chip-seconds and nano-dollars.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from typing import NamedTuple

from service.domain.clock import DAY, HOUR
from service.domain.money import half_even
from service.domain.pricing.discounts import MILLION

FEWEST_DAYS, MOST_DAYS = 28, 90
"""Fewest and most full days of usage for a recommendation."""

TERMS = (1, 3)
"""Terms in years for which Google sells commitments."""

DRAWS = 400
_TENTH = DRAWS // 10
_WEEK_DAYS = 7
MONTH_HOURS = 730
"""Hours of a month on Google's price pages."""

YEAR_HOURS = 365 * 24

CAUTION = (
    "Future use can differ from past use. If the use stops, the fee is still due until the end of"
    " the term."
)


class ChipSpan(NamedTuple):
    """Chips in use in the whole UTC seconds [start, end)."""

    start: int
    end: int
    chips: int


@dataclass(frozen=True, slots=True)
class DailyUse:
    """The chips in use on each of some full days, the first beginning at `start`.

    Each day has (chips, seconds) for every number of chips in use at once, 0 included, in order.
    """

    start: int
    days: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def extremes(self) -> list[tuple[int, int]]:
        """The smallest and the largest number of chips at once, for each day."""
        return [(day[0][0], day[-1][0]) for day in self.days]


def daily_use(spans: Iterable[ChipSpan], start: int, days: int, committed: int = 0) -> DailyUse:
    """The use of some full days, for a recommendation, less the use that `committed` chips
    cover."""
    end = start + days * DAY
    changes: dict[int, int] = defaultdict(int)
    for span in spans:
        if max(span.start, start) < min(span.end, end):
            changes[max(span.start, start)] += span.chips
            changes[min(span.end, end)] -= span.chips
    edges = sorted({*changes, *range(start, end + 1, DAY)})
    found: list[dict[int, int]] = [defaultdict(int) for _ in range(days)]
    level = 0
    for left, right in pairwise(edges):
        level += changes.get(left, 0)
        found[(left - start) // DAY][max(0, level - committed)] += right - left
    return DailyUse(start, tuple(tuple(sorted(day.items())) for day in found))


@dataclass(frozen=True, slots=True)
class CommitmentRates:
    """The price of a chip-hour on demand, less discounts, and committed for `years`.

    None if the price book has no price.
    """

    years: int
    on_demand: int | None
    committed: int | None

    @property
    def break_even(self) -> int | None:
        """The share of the time, in parts per million, above which a committed chip pays."""
        if self.on_demand is None or self.committed is None:
            return None
        return half_even(self.committed * MILLION, self.on_demand)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The recommended number of chips for a term.

    `chips` pays in nine of ten draws; `best` would have been the cheapest in these days. The
    cheapest number is between `low` and `high` in eight of ten draws. `utilisation` is the share of
    the time (parts per million) for which the chips were in use; None without chips. Savings are
    for a month of 730 hours: `saving` as in these days, and `saving_low` to `saving_high` in eight
    of ten draws. `cost_if_unused` is the whole fee of the term. `reason` says why there are no
    chips.
    """

    rates: CommitmentRates
    days: int
    chips: int = 0
    best: int = 0
    low: int = 0
    high: int = 0
    utilisation: int | None = None
    saving: int = 0
    saving_low: int = 0
    saving_high: int = 0
    best_saving: int = 0
    reason: str = ""

    @property
    def cost_if_unused(self) -> int:
        """The whole fee of the chips to the end of the term."""
        return self.chips * (self.rates.committed or 0) * YEAR_HOURS * self.rates.years

    @property
    def monthly_fee(self) -> int:
        """The fee of the chips for a month of 730 hours."""
        return self.chips * (self.rates.committed or 0) * MONTH_HOURS


def recommend_commitment(
    course: DailyUse, rates: CommitmentRates, asked: str = ""
) -> Recommendation:
    """The recommendation of a commitment for one term.

    `asked` names the hardware, such as `v6e us-east5`. The draws depend only on it and on the
    number of days. So the same data has the same answer, and more use on the same days never has a
    smaller one.
    """
    days = len(course.days)
    if days < FEWEST_DAYS:
        return Recommendation(rates, days, reason=too_few(days))
    if rates.on_demand is None:
        return Recommendation(rates, days, reason="the price book has no on-demand price")
    if rates.committed is None:
        price = f"cud_{rates.years}y"
        told = f"the price book has no price {price}; add it with POST /v1/prices"
        return Recommendation(rates, days, reason=told)
    if rates.committed >= rates.on_demand:
        told = "committed chips cost no less than what you pay on demand"
        return Recommendation(rates, days, reason=told)
    weeks = _Weeks(course)
    return _recommend_by_draws(weeks, rates, rates.on_demand, rates.committed, asked)


def too_few(days: int) -> str:
    """The reason that so few full days give no recommendation."""
    known = "1 full day of use is" if days == 1 else f"{days} full days of use are"
    return f"{known} known; a recommendation needs {FEWEST_DAYS}"


class _Weeks:
    """The seconds with at least so many chips in use, by number of chips.

    `whole` has them for all days, `at_least` for the seven days from each day on.
    """

    def __init__(self, course: DailyUse) -> None:
        self.levels = sorted({level for day in course.days for level, _ in day if level})
        by_day = []
        for day in course.days:
            seconds = dict(day)
            downwards = accumulate(seconds.get(level, 0) for level in reversed(self.levels))
            by_day.append(list(downwards)[::-1])
        self.days = len(by_day)
        self.at_least = [
            _sum_columns(by_day[first : first + _WEEK_DAYS])
            for first in range(self.days - _WEEK_DAYS + 1)
        ]
        self.whole = _sum_columns(by_day)

    def used_chip_seconds(self, at_least: Sequence[int], number: int) -> int:
        """Chip-seconds in use of the first `number` levels."""
        steps = zip([0, *self.levels], self.levels[:number], at_least, strict=False)
        return sum((level - before) * seconds for before, level, seconds in steps)

    def chips_of(self, number: int) -> int:
        """The chips of the first `number` levels."""
        return self.levels[number - 1] if number else 0

    def draw_weeks(self, asked: str) -> Iterator[Sequence[int]]:
        """For each draw, the days with which its weeks begin."""
        said = hashlib.sha256(repr((asked, self.days)).encode()).digest()
        random = Random(int.from_bytes(said[:8]))  # noqa: S311 - it must be reproducible
        starts = range(len(self.at_least))
        for _ in range(DRAWS):
            yield [random.choice(starts) for _ in range(self.days // _WEEK_DAYS)]


def _sum_columns(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _count_paying(
    weeks: Sequence[Sequence[int]], seconds: int, on_demand: int, committed: int
) -> int:
    """The number of levels that pay: they are in use for more of the seconds than breaks even."""
    return bisect_left(
        range(len(weeks[0])),
        True,  # noqa: FBT003 - the searched value
        key=lambda number: sum(week[number] for week in weeks) * on_demand <= committed * seconds,
    )


def _recommend_by_draws(
    weeks: _Weeks, rates: CommitmentRates, on_demand: int, committed: int, asked: str
) -> Recommendation:
    seconds, drawn_seconds = weeks.days * DAY, weeks.days // _WEEK_DAYS * _WEEK_DAYS * DAY

    def monthly_saving(used: int, number: int, of: int) -> int:
        """The saving of `number` levels in a month, if they used so many chip-seconds."""
        saved = on_demand * used - committed * weeks.chips_of(number) * of
        return half_even(saved * MONTH_HOURS, of)

    drawn = list(weeks.draw_weeks(asked))
    numbers = sorted(
        _count_paying([weeks.at_least[day] for day in days], drawn_seconds, on_demand, committed)
        for days in drawn
    )
    low, high = numbers[_TENTH], numbers[-1 - _TENTH]
    best = _count_paying([weeks.whole], seconds, on_demand, committed)
    number = min(best, low)
    by_week = [weeks.used_chip_seconds(week, number) for week in weeks.at_least]
    savings = sorted(
        monthly_saving(sum(by_week[day] for day in days), number, drawn_seconds) for days in drawn
    )
    chips, used = weeks.chips_of(number), weeks.used_chip_seconds(weeks.whole, number)
    best_used = weeks.used_chip_seconds(weeks.whole, best)
    reason, most = "", weeks.chips_of(best)
    if not chips and not most:
        reason = "no chip was in use for long enough to save money"
    elif not chips:
        noun = "chip" if most == 1 else "chips"
        reason = (
            f"{most:,} {noun} would have saved money in these days, but not in nine of ten random"
            " samples of their weeks"
        )
    return Recommendation(
        rates=rates,
        days=weeks.days,
        chips=chips,
        best=most,
        low=weeks.chips_of(low),
        high=weeks.chips_of(high),
        utilisation=half_even(used * MILLION, chips * seconds) if chips else None,
        saving=monthly_saving(used, number, seconds),
        saving_low=savings[_TENTH],
        saving_high=savings[-1 - _TENTH],
        best_saving=monthly_saving(best_used, best, seconds),
        reason=reason,
    )


def hours_a_day(ppm: int) -> str:
    """A share of time, for a recommendation, as hours and minutes of a day. 700000 is `16 h 48
    min`."""
    minutes = half_even(ppm * DAY, MILLION * 60)
    hours, rest = divmod(minutes, HOUR // 60)
    return f"{hours} h" + (f" {rest} min" if rest else "")
