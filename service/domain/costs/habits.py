"""Estimates from past days how long nodes live and what a day costs. In integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from service.domain.money import half_even

PPM = 1_000_000
"""The unit of chances: millionths."""

OLDER = 14
"""Assumed age in days, on the first known day, of a node that ran on that day."""

_GOES = 200_000
"""The prior chance of a new node to end on a day; at an age of `a` days it is divided by `a + 1`.
Its weight is one day of one node."""

_OF_ALL = 1
"""Weight of all kinds together, in days of a node, in the estimate for one kind."""

_LONG, _LATELY = 112, 28
"""Days back that count at all, with linear weights: for the long-term mean, and for the recent
one."""

_LAST = 14
"""Last days whose variance is computed separately: a lab may have changed before them."""

_SURE = 12
"""Factor on the variance that chance explains. The last days count more only if their squared
difference is larger than the product."""

_LAGS = 6
"""Largest lag, in days, at which days are taken to be correlated."""

_ALONE = 3
"""Lower limit of the variance of sums of days, in tenths of the variance without correlation."""


class NodeDay(NamedTuple):
    """The cost of one node on one day, in nano-dollars; days are numbered.

    A node is compared with the nodes of its `kind`.
    """

    day: int
    node: str
    kind: str
    nanos: int


class NodeLives:
    """How many days nodes of each kind live, and which share of the cost is of young nodes."""

    def __init__(
        self, days: Sequence[NodeDay], running: Collection[str], first: int, today: int
    ) -> None:
        """`first` is the number of the first known day of nodes, `today` the number of today.

        Of today it is only known which nodes are `running`.
        """
        self._today = today
        born: dict[str, int] = {}
        for day in days:
            born[day.node] = min(day.day, born.get(day.node, day.day))
        self._born = {node: at - OLDER if at == first else at for node, at in born.items()}
        self._at_risk: _Counts = defaultdict(_empty_buckets)
        self._gone: _Counts = defaultdict(_empty_buckets)
        self._by_age: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._known: dict[tuple[str, int, int], tuple[int, ...]] = {}
        last: dict[str, NodeDay] = {}
        for day in days:
            age = day.day - self._born[day.node]
            if day.day > first:
                self._by_age[day.kind][age] += day.nanos
            self._at_risk[day.kind][_age_bucket(age)] += 1
            self._at_risk[""][_age_bucket(age)] += 1
            last[day.node] = max(day, last.get(day.node, day))
        for day in last.values():
            if day.node not in running:
                bucket = _age_bucket(day.day - self._born[day.node])
                self._gone[day.kind][bucket] += 1
                self._gone[""][bucket] += 1

    def birth_day(self, node: str) -> int:
        """The number of the day on which a node began; today for an unknown node."""
        return self._born.get(node, self._today)

    def survival_chances(self, kind: str, age: int, days: int) -> tuple[int, ...]:
        """The chances of a node that is `age` days old to be there when each day begins.

        `days` is the number of days; the first is today, with certainty.
        """
        asked = kind, age, days
        if asked not in self._known:
            chances = [PPM]
            for day in range(days - 1):
                bucket = _age_bucket(age + day)
                gone, there = self._gone[""][bucket], self._at_risk[""][bucket]
                of_all = half_even(gone * PPM + _GOES // (age + day + 1), there + 1)
                gone, there = self._gone[kind][bucket], self._at_risk[kind][bucket]
                ends = min(PPM, half_even(gone * PPM + _OF_ALL * of_all, there + _OF_ALL))
                chances.append(half_even(chances[-1] * (PPM - ends), PPM))
            self._known[asked] = tuple(chances)
        return self._known[asked]

    def launched_shares(self, kind: str, days: int) -> list[int]:
        """The share of nodes launched from now on in the cost of a kind, for each of `days` days.

        The first day is today.
        """
        by_age = self._by_age.get(kind, {})
        whole, so_far, found = sum(by_age.values()), 0, []
        for age in range(days):
            # The hour of a launch is unknown: nodes count for half of their first day.
            twice = 2 * so_far + by_age.get(age, 0)
            found.append(half_even(twice * PPM, 2 * whole) if whole else 0)
            so_far += by_age.get(age, 0)
        return found


_Counts = dict[str, list[int]]


def _empty_buckets() -> list[int]:
    return [0] * 16


def _age_bucket(age: int) -> int:
    """The bucket of an age in days: 0, 1, 2 and 3, 4 to 7, and so on."""
    return age.bit_length()


class UsualDay(NamedTuple):
    """The usual cost of a day from Monday to Friday, and of one on a weekend."""

    workday: int
    weekend: int

    def cost_on(self, weekday: int) -> int:
        """The usual cost of a weekday; Monday is 0."""
        return self.weekend if weekday >= _SATURDAY else self.workday

    @property
    def week(self) -> int:
        """The usual cost of seven days."""
        return 5 * self.workday + 2 * self.weekend


_SATURDAY = 5


def usual_day(costs: Sequence[int], weekdays: Sequence[int]) -> UsualDay:
    """The usual cost of a day by the habits of past days, the oldest first.

    The result is the mean of all days. It moves towards the mean of the last days as far as these
    differ by more than chance explains (James and Stein's estimator). So one busy week does not
    change the estimate, and a lab that has doubled is visible after two weeks. Chance is the
    variance within the last two weeks and within the days before, so the change itself is excluded.
    """
    long, lately = (_weighted_mean(costs, weekdays, reach) for reach in (_LONG, _LATELY))
    apart = lately.week - long.week
    before, last = slice(-_LAST), slice(-_LAST, None)
    off = [
        nanos
        for part in (before, last)
        for nanos in _deviations(
            costs[part], weekdays[part], _weighted_mean(costs[part], weekdays[part], _LONG)
        )
    ]
    by_chance = _correlated_variance(off) * 7 * 7 * _SURE
    explained = len(costs) * min(len(costs), _LATELY * 3 // 4) * apart * apart
    trust = 0 if explained <= by_chance else PPM - half_even(PPM * by_chance, explained)
    return UsualDay(
        *(
            usually + half_even(trust * (recent - usually), PPM)
            for usually, recent in zip(long, lately, strict=True)
        )
    )


def _weighted_mean(costs: Sequence[int], weekdays: Sequence[int], reach: int) -> UsualDay:
    """The mean with linear weights: `reach` for the newest day, one less for each day before."""
    sums, weights = [0, 0], [0, 0]
    for age, (nanos, weekday) in enumerate(zip(reversed(costs), reversed(weekdays), strict=True)):
        weight, place = max(0, reach - age), int(weekday >= _SATURDAY)
        sums[place] += weight * nanos
        weights[place] += weight
    if not sum(weights):
        return UsualDay(0, 0)
    means = (
        half_even(sums[place], weights[place])
        if weights[place]
        else half_even(sum(sums), sum(weights))
        for place in (0, 1)
    )
    return UsualDay(*means)


def doubt_of_days(costs: Sequence[int], weekdays: Sequence[int], seconds: int, day: int) -> int:
    """The variance (squared nano-dollars) of the cost of seconds to come, by the habits of past
    days.

    Days differ, and the usual cost is estimated from few days. `day` is the seconds of a day.
    """
    number = len(costs)
    if not number:
        return 0
    together = _correlated_variance(_deviations(costs, weekdays, usual_day(costs, weekdays)))
    return half_even(
        together * (seconds * day * number + seconds * seconds), number * number * day * day
    )


def _deviations(costs: Sequence[int], weekdays: Sequence[int], usually: UsualDay) -> list[int]:
    return [nanos - usually.cost_on(day) for nanos, day in zip(costs, weekdays, strict=True)]


def _correlated_variance(off: Sequence[int]) -> int:
    """The sum of squared deviations, plus the products of days that follow each other.

    The weight of a product falls with the number of days between the two (Bartlett): deviations of
    neighbouring days are correlated.
    """
    alone, weighed = (
        sum(
            (_LAGS + 1 - lag)
            * sum(first * later for first, later in zip(off, off[lag:], strict=False))
            for lag in lags
        )
        for lags in (range(1), range(1, _LAGS + 1))
    )
    return max(_ALONE * alone // 10, alone + 2 * weighed) // (_LAGS + 1)


def mean_and_doubt(costs: Sequence[int], chances: Sequence[int]) -> tuple[int, int]:
    """The expected cost of a node by the habits of past nodes (nano-dollars), and its variance.

    `costs` are the costs if the node ends today, the next day, and so on; `chances` are those to be
    there when each of these days begins.
    """
    mean = squares = before = 0
    for place, cost in enumerate(costs):
        after = chances[place + 1] if place + 1 < len(costs) else 0
        mean += (cost - before) * chances[place]
        squares += (chances[place] - after) * cost * cost
        before = cost
    mean = half_even(mean, PPM)
    return mean, max(0, half_even(squares, PPM) - mean * mean)
