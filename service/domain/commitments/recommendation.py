"""How many chips to commit to for one and for three years, from our own hours of use. Pure.

A commitment is paid for every hour of its term, used or not. So the k-th chip pays where at least k
chips are in use for a larger share of the time than the committed price is of the price on demand:
70 % for many, 16.8 hours of a day (`pricing.md` 4). These shares are of exact seconds. An average
would be wrong: 16 chips for half of the time are no reason to commit to 8.

How sure that is, draws of whole weeks tell (a moving-block bootstrap): a draw is as many weeks as
there were, each begun on any of the days. The number recommended pays in nine of ten draws.
Chip-seconds, nano-dollars.
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
"""Full days that a recommendation stands on."""

TERMS = (1, 3)
"""Years that Google sells commitments for."""

DRAWS = 400
_TENTH = DRAWS // 10
_WEEK_DAYS = 7
MONTH_HOURS = 730
"""Hours of a month, as Google's price pages count them."""

YEAR_HOURS = 365 * 24

CAUTION = (
    "The past need not go on for a year or three. If the use stops, the whole fee is due to the end"
    " of the term."
)


class ChipSpan(NamedTuple):
    """Chips in use in the whole UTC seconds [start, end)."""

    start: int
    end: int
    chips: int


@dataclass(frozen=True, slots=True)
class DailyUse:
    """How many chips were in use on each of some full days that begin at `start`: for each day the
    (chips, seconds) for which so many were in use at once, 0 included, by the number of chips."""

    start: int
    days: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def extremes(self) -> list[tuple[int, int]]:
        """The fewest and the most chips at once of each day."""
        return [(day[0][0], day[-1][0]) for day in self.days]


def course_of(spans: Iterable[ChipSpan], start: int, days: int, committed: int = 0) -> DailyUse:
    """The use of some full days, without what `committed` chips take of it."""
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
    """What a chip-hour costs: on demand less discounts, and committed for `years`. None where the
    price book has no price."""

    years: int
    on_demand: int | None
    committed: int | None

    @property
    def break_even(self) -> int | None:
        """Parts per million of the time from which on a committed chip pays."""
        if self.on_demand is None or self.committed is None:
            return None
        return half_even(self.committed * MILLION, self.on_demand)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to commit to for a term. `chips` pays in nine of ten draws; `best` would have been the
    cheapest in these days. `low` and `high` are where it lies in eight of ten draws.

    `utilisation` is the share of the time (parts per million) for which the chips were in use, None
    where there are none. Savings are for a month of 730 hours: `saving` as in these days, and from
    `saving_low` to `saving_high` in eight of ten draws. `cost_if_unused` is the whole fee of the
    term. `reason` says why there are no chips.
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


def recommend(course: DailyUse, rates: CommitmentRates, asked: str = "") -> Recommendation:
    """What to commit to. `asked` says what that is of, such as `v6e us-east5`: together with the
    number of days it is what the draws follow from, so that the same data has the same answer, and
    more use of the same days never a smaller one."""
    days = len(course.days)
    if days < FEWEST_DAYS:
        return Recommendation(rates, days, reason=too_few(days))
    if rates.on_demand is None or rates.committed is None:
        return Recommendation(rates, days, reason=_no_price(rates))
    if rates.committed >= rates.on_demand:
        told = "committed chips cost no less than what you pay on demand"
        return Recommendation(rates, days, reason=told)
    return _recommended(_Weeks(course), rates, rates.on_demand, rates.committed, asked)


def too_few(days: int) -> str:
    """Why so few full days give no recommendation."""
    known = "1 full day of use is" if days == 1 else f"{days} full days of use are"
    return f"{known} known; a recommendation needs {FEWEST_DAYS}"


def _no_price(rates: CommitmentRates) -> str:
    if rates.on_demand is None:
        return "the price book has no on-demand price"
    return f"the price book has no price cud_{rates.years}y; enter one with: tpu-steward prices add"


class _Weeks:
    """The seconds for which at least so many chips were in use, by week and number of chips: for
    the whole at `whole`, and for the seven days that begin with each day."""

    def __init__(self, course: DailyUse) -> None:
        self.levels = sorted({level for day in course.days for level, _ in day if level})
        by_day = [self._at_least(dict(day)) for day in course.days]
        self.days = len(by_day)
        self.at_least = [
            _sums(by_day[first : first + _WEEK_DAYS]) for first in range(self.days - _WEEK_DAYS + 1)
        ]
        self.whole = _sums(by_day)

    def _at_least(self, seconds: dict[int, int]) -> list[int]:
        """For each number of chips that ever was in use."""
        downwards = accumulate(seconds.get(level, 0) for level in reversed(self.levels))
        return list(downwards)[::-1]

    def area(self, at_least: Sequence[int], number: int) -> int:
        """Chip-seconds in use of the first so many levels."""
        steps = zip([0, *self.levels], self.levels[:number], at_least, strict=False)
        return sum((level - before) * seconds for before, level, seconds in steps)

    def chips(self, number: int) -> int:
        """The chips of the first so many levels."""
        return self.levels[number - 1] if number else 0

    def draws(self, asked: str) -> Iterator[Sequence[int]]:
        """Days that the weeks of each draw begin with."""
        said = hashlib.sha256(repr((asked, self.days)).encode()).digest()
        random = Random(int.from_bytes(said[:8]))  # noqa: S311 - it has to be the same again
        starts = range(len(self.at_least))
        for _ in range(DRAWS):
            yield [random.choice(starts) for _ in range(self.days // _WEEK_DAYS)]


def _sums(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _paying(weeks: Sequence[Sequence[int]], seconds: int, on_demand: int, committed: int) -> int:
    """How many levels pay: those that are in use for more of the seconds than breaks even."""
    return bisect_left(
        range(len(weeks[0])),
        True,  # noqa: FBT003 - what is looked for
        key=lambda number: sum(week[number] for week in weeks) * on_demand <= committed * seconds,
    )


def _recommended(
    weeks: _Weeks, rates: CommitmentRates, on_demand: int, committed: int, asked: str
) -> Recommendation:
    seconds, drawn_seconds = weeks.days * DAY, weeks.days // _WEEK_DAYS * _WEEK_DAYS * DAY

    def monthly(used: int, number: int, of: int) -> int:
        """What so many levels save in a month, where so many chip-seconds of them were used."""
        saved = on_demand * used - committed * weeks.chips(number) * of
        return half_even(saved * MONTH_HOURS, of)

    drawn = list(weeks.draws(asked))
    numbers = sorted(
        _paying([weeks.at_least[day] for day in days], drawn_seconds, on_demand, committed)
        for days in drawn
    )
    low, high = numbers[_TENTH], numbers[-1 - _TENTH]
    best = _paying([weeks.whole], seconds, on_demand, committed)
    number = min(best, low)
    areas = [weeks.area(one, number) for one in weeks.at_least]
    savings = sorted(
        monthly(sum(areas[day] for day in days), number, drawn_seconds) for days in drawn
    )
    chips, used = weeks.chips(number), weeks.area(weeks.whole, number)
    return Recommendation(
        rates=rates,
        days=weeks.days,
        chips=chips,
        best=weeks.chips(best),
        low=weeks.chips(low),
        high=weeks.chips(high),
        utilisation=half_even(used * MILLION, chips * seconds) if chips else None,
        saving=monthly(used, number, seconds),
        saving_low=savings[_TENTH],
        saving_high=savings[-1 - _TENTH],
        best_saving=monthly(weeks.area(weeks.whole, best), best, seconds),
        reason="" if chips else _too_little(weeks.chips(best)),
    )


def _too_little(best: int) -> str:
    if not best:
        return "no chip was in use for more of the time than breaks even"
    return f"{best:,} would have paid in these days, but not in nine of ten draws of their weeks"


def hours_a_day(ppm: int) -> str:
    """A share of the time as hours and minutes of a day: 700000 is `16 h 48 min`."""
    minutes = half_even(ppm * DAY, MILLION * 60)
    hours, rest = divmod(minutes, HOUR // 60)
    return f"{hours} h" + (f" {rest} min" if rest else "")
