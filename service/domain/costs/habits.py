"""What past days say of those to come: how long nodes live, and what a day costs. In integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from service.domain.money import half_even

PPM = 1_000_000
"""Chances are in millionths."""

OLDER = 14
"""Days by which a node is taken to be older than the first day that is known, if it ran on that."""

_GOES = 200_000
"""The chance of a new node to go on a day, where nothing is known; at an age of `a` days it is this
over `a + 1`. It counts as much as one day of one node."""

_OF_ALL = 1
"""Days of a node for which all kinds together count, where one kind has few of its own."""

_LONG, _LATELY = 112, 28
"""Days back from which days count at all, the newest most: for what is usual, and for what was so
lately."""

_LAST = 14
"""Days that are looked at apart: a lab may have changed since."""

_SURE = 12
"""How many times what chance explains (both squared) the last days have to differ by before they
count more."""

_LAGS = 6
"""Days after which one day is taken to say nothing of another."""

_ALONE = 3
"""Tenths of what days vary by alone that sums of days vary by at least."""


class NodeDay(NamedTuple):
    """What one node cost on one day, in nano-dollars; days are numbered. `kind` says with which
    others it is compared."""

    day: int
    node: str
    kind: str
    nanos: int


class NodeLives:
    """How many days nodes of each kind live, and how much of what they cost is of young ones."""

    def __init__(
        self, days: Sequence[NodeDay], running: Collection[str], first: int, today: int
    ) -> None:
        """`first` is the number of the first day that is known of nodes, `today` that of today, of
        which nothing is known but what is `running`."""
        self._today = today
        self._born = _born(days, first)
        self._at_risk: _Counts = defaultdict(_buckets)
        self._gone: _Counts = defaultdict(_buckets)
        self._by_age: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._known: dict[tuple[str, int, int], tuple[int, ...]] = {}
        self._count(days, running, first)

    def _count(self, days: Sequence[NodeDay], running: Collection[str], first: int) -> None:
        last: dict[str, NodeDay] = {}
        for one in days:
            age = one.day - self._born[one.node]
            if one.day > first:
                self._by_age[one.kind][age] += one.nanos
            self._at_risk[one.kind][_bucket(age)] += 1
            self._at_risk[""][_bucket(age)] += 1
            last[one.node] = max(one, last.get(one.node, one))
        for one in last.values():
            if one.node not in running:
                bucket = _bucket(one.day - self._born[one.node])
                self._gone[one.kind][bucket] += 1
                self._gone[""][bucket] += 1

    def born(self, node: str) -> int:
        """The number of the day on which it began, as far as is known."""
        return self._born.get(node, self._today)

    def lasts(self, kind: str, age: int, days: int) -> tuple[int, ...]:
        """The chances of a node that is `age` days old to be there when each of so many days
        begins; of the first, which is today, it is certain."""
        asked = kind, age, days
        if asked not in self._known:
            chances = [PPM]
            for day in range(days - 1):
                chances.append(half_even(chances[-1] * (PPM - self._goes(kind, age + day)), PPM))
            self._known[asked] = tuple(chances)
        return self._known[asked]

    def _goes(self, kind: str, age: int) -> int:
        bucket = _bucket(age)
        gone, there = self._gone[""][bucket], self._at_risk[""][bucket]
        of_all = half_even(gone * PPM + _GOES // (age + 1), there + 1)
        gone, there = self._gone[kind][bucket], self._at_risk[kind][bucket]
        return min(PPM, half_even(gone * PPM + _OF_ALL * of_all, there + _OF_ALL))

    def new_by(self, kind: str, days: int) -> list[int]:
        """Of what the kind costs on each of so many days, the first of which is today, the share
        of nodes that are launched from now on."""
        by_age = self._by_age.get(kind, {})
        whole, so_far, found = sum(by_age.values()), 0, []
        for age in range(days):
            # Those of the day itself were there for half of it, as nobody knows at which hour.
            twice = 2 * so_far + by_age.get(age, 0)
            found.append(half_even(twice * PPM, 2 * whole) if whole else 0)
            so_far += by_age.get(age, 0)
        return found


_Counts = dict[str, list[int]]


def _buckets() -> list[int]:
    return [0] * 16


def _bucket(age: int) -> int:
    """Ages that are alike: 0, 1, 2 and 3, 4 to 7, and so on."""
    return age.bit_length()


def _born(days: Iterable[NodeDay], first: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in days:
        found[one.node] = min(one.day, found.get(one.node, one.day))
    return {node: day - OLDER if day == first else day for node, day in found.items()}


class UsualDay(NamedTuple):
    """What a day usually costs: one from Monday to Friday, and one of the weekend."""

    workday: int
    weekend: int

    def on(self, weekday: int) -> int:
        """The same of a weekday; Monday is 0."""
        return self.weekend if weekday >= _SATURDAY else self.workday

    @property
    def week(self) -> int:
        """What seven days cost."""
        return 5 * self.workday + 2 * self.weekend


_SATURDAY = 5


def usual(costs: Sequence[int], weekdays: Sequence[int]) -> UsualDay:
    """What a day usually costs, by past days, the oldest first.

    That is the mean of all of them, and goes towards the mean of the last few as far as these
    differ by more than chance explains (James and Stein's estimator): a rush week does not make a
    month, and a lab that has doubled is seen after two weeks. Chance is what days before and days
    of the last two weeks vary by, each for themselves: the change itself is no chance.
    """
    long, lately = (_mean(costs, weekdays, reach) for reach in (_LONG, _LATELY))
    apart = lately.week - long.week
    before, last = slice(-_LAST), slice(-_LAST, None)
    off = [
        nanos
        for part in (before, last)
        for nanos in _off(costs[part], weekdays[part], _mean(costs[part], weekdays[part], _LONG))
    ]
    by_chance = _together(off) * 7 * 7 * _SURE
    explained = len(costs) * min(len(costs), _LATELY * 3 // 4) * apart * apart
    trust = 0 if explained <= by_chance else PPM - half_even(PPM * by_chance, explained)
    return UsualDay(
        *(
            one + half_even(trust * (other - one), PPM)
            for one, other in zip(long, lately, strict=True)
        )
    )


def _mean(costs: Sequence[int], weekdays: Sequence[int], reach: int) -> UsualDay:
    """The newest day counts `reach` times, each before it once less, and those that are further
    back not at all."""
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
    """By how much (squared nano-dollars) so many seconds to come may differ from what is usual:
    days differ, and what is usual is known from so many of them only. `day` is the seconds of
    one."""
    number = len(costs)
    if not number:
        return 0
    together = _together(_off(costs, weekdays, usual(costs, weekdays)))
    return half_even(
        together * (seconds * day * number + seconds * seconds), number * number * day * day
    )


def _off(costs: Sequence[int], weekdays: Sequence[int], usually: UsualDay) -> list[int]:
    return [nanos - usually.on(day) for nanos, day in zip(costs, weekdays, strict=True)]


def _together(off: Sequence[int]) -> int:
    """The squares of by how much days were off, and of days that follow each other the products as
    well, which count the less the more days lie between (Bartlett): days that are off are so
    together."""
    alone, weighed = (
        sum((_LAGS + 1 - lag) * _product(off, lag) for lag in lags)
        for lags in (range(1), range(1, _LAGS + 1))
    )
    return max(_ALONE * alone // 10, alone + 2 * weighed) // (_LAGS + 1)


def _product(off: Sequence[int], lag: int) -> int:
    return sum(one * other for one, other in zip(off, off[lag:], strict=False))


def mean_and_doubt(costs: Sequence[int], chances: Sequence[int]) -> tuple[int, int]:
    """What a node may be expected to cost (nano-dollars), and the square of by how much that may be
    wrong. `costs` are those if it goes at the end of today, of the next day, and so on; `chances`
    those to be there when each of these days begins."""
    mean = squares = before = 0
    for place, cost in enumerate(costs):
        after = chances[place + 1] if place + 1 < len(costs) else 0
        mean += (cost - before) * chances[place]
        squares += (chances[place] - after) * cost * cost
        before = cost
    mean = half_even(mean, PPM)
    return mean, max(0, half_even(squares, PPM) - mean * mean)
