"""What a period will have cost at its end: what is spent, what runs, and what may be launched."""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from operator import getitem
from random import Random

from service.domain.money import half_even
from service.domain.window import Window

DAYS = 28
"""Days of history that count: four of each weekday (reference/metering-idle-dashboard.md, 3)."""

ENOUGH = 7
"""Days of history below which no weekday is known, and there is only a run-rate."""

DRAWS = 400
"""Months that are drawn from history; the band moves by less than it rounds to with more."""


_KEPT_DRAWS = 64
"""Each takes less than a megabyte for a thousand nodes."""


class Method(StrEnum):
    """How the part that nobody has asked for yet was found."""

    WEEKDAYS = "weekday_launches"
    RUN_RATE = "run_rate"


@dataclass(frozen=True, slots=True)
class Band:
    """Nano-dollars that are exceeded nine times, five times and once in ten."""

    low: int
    mid: int
    high: int

    def over(self, nanos: int) -> Band:
        """The same, so much higher."""
        return Band(self.low + nanos, self.mid + nanos, self.high + nanos)


@dataclass(frozen=True, slots=True)
class Ahead:
    """One calendar day that is not over, and how many of its seconds are left within the period.
    Monday is 0."""

    weekday: int
    left: int
    whole: int


@dataclass(frozen=True)
class History:
    """What each node cost on each of the last days, the oldest first, today left out.

    `starts` are the first instants of the days, and of today; `weekdays` are those of the days. The
    first day only tells which nodes are older than all others. `costs` are (number of the day,
    node, nano-dollars), `today` the nano-dollars of today so far, which only a run-rate asks for.
    """

    starts: tuple[int, ...]
    weekdays: tuple[int, ...]
    costs: tuple[tuple[int, str, int], ...]
    today: int = 0

    @property
    def days(self) -> int:
        """Full days since the first cost, as far as they are looked at."""
        return 0 if self.first is None else len(self.weekdays) - max(1, self.first)

    @cached_property
    def first(self) -> int | None:
        """The number of the first day on which anything cost."""
        return min((day for day, _, _ in self.costs), default=None)

    @cached_property
    def span(self) -> Mapping[str, tuple[int, int]]:
        """For each node the numbers of the first and of the last day on which it cost anything."""
        found: dict[str, tuple[int, int]] = {}
        for day, node, _ in sorted(self.costs):
            found[node] = found.get(node, (day, day))[0], day
        return found

    @cached_property
    def launches(self) -> tuple[tuple[int, ...], ...]:
        """For each day what its launches cost on that day, on the next, and so on until today."""
        number = len(self.weekdays)
        found = [[0] * (number - day) for day in range(number)]
        for day, node, nanos in self.costs:
            began, _ = self.span[node]
            if began > 0:
                found[began][day - began] += nanos
        return tuple(map(tuple, found))

    @property
    def known_since(self) -> int:
        """The number of the first day whose launches are known."""
        return max(1, self.first or 0)


@dataclass(frozen=True, slots=True)
class Lasting:
    """A node that runs and has no TTL: nano-dollars from now on, if it goes at the end of today, of
    the next day, and so on; the last is until the period's end."""

    node: str
    costs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Basis:
    """What a forecast stands on, in nano-dollars as of `now`.

    `committed` is what the nodes that run will cost until their TTL or the period's end; `lasting`
    are those of them without a TTL, `running` the names of all. `unpriced` nodes run at a price
    that nobody knows, and are in no figure.
    """

    window: Window
    now: int
    spent: int
    committed: int
    unpriced: int
    history: History
    ahead: tuple[Ahead, ...]
    lasting: tuple[Lasting, ...] = ()
    running: frozenset[str] = frozenset()

    @property
    def endless(self) -> int:
        """The part of what is committed that is of nodes without a TTL."""
        return sum(one.costs[-1] for one in self.lasting if one.costs)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the period will have cost (`total`): what is spent, what runs until its TTL, what the
    nodes without one will cost (`lasting`), and what new launches will cost by its end."""

    basis: Basis
    method: Method
    launches: Band
    lasting: Band
    total: Band

    @property
    def said(self) -> str:
        """The method, in a sentence."""
        if self.method is Method.WEEKDAYS:
            return (
                "What is spent, what runs until its TTL (without one, for as long as earlier nodes"
                " that had got as old), and new launches as on the same weekdays of the last"
                f" {self.basis.history.days} days; eight in ten of {DRAWS} draws from those lie"
                " within the band."
            )
        return (
            f"A run-rate only, as there are {self.basis.history.days} full days of history and"
            f" weekdays need {ENOUGH}: what was spent a second so far, carried on to the end of"
            " the period, and no less than what runs until its TTL. It has no band."
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A forecast as it was recorded on a UTC day: whose (`scope`: empty for everything, or as in
    `team:vision`), of which period, and after that what it came to (`actual`)."""

    scope: str
    window: Window
    day: int
    made_at: int
    band: Band
    method: Method
    actual: int | None = None
    scored_at: int | None = None

    @property
    def error(self) -> int | None:
        """Nano-dollars by which it was too high; below zero where it was too low."""
        return None if self.actual is None else self.band.mid - self.actual

    @property
    def permille(self) -> int | None:
        """The error in thousandths of what it came to; None where that was nothing."""
        if self.actual is None or self.actual <= 0:
            return None
        return half_even(1_000 * (self.band.mid - self.actual), self.actual)


def forecast(basis: Basis) -> Forecast:
    """What the period will have cost. The same basis always gives the same answer."""
    if basis.history.days >= ENOUGH:
        return _drawn(basis)
    # A node without a TTL is in the run-rate, as it was so far: to carry each of them on to the end
    # of the period would say ten times what a young fleet comes to.
    sure = basis.committed - basis.endless
    more = max(0, _run_rate(basis) - sure)
    bands = (Band(nanos, nanos, nanos) for nanos in (more, 0, basis.spent + sure + more))
    return Forecast(basis, Method.RUN_RATE, *bands)


def _run_rate(basis: Basis) -> int:
    """Nano-dollars until the period's end, at the pace since the first day on which anything
    cost."""
    history = basis.history
    first = len(history.weekdays) if history.first is None else history.first
    elapsed = basis.now - history.starts[first]
    if elapsed <= 0:
        return 0
    lately = history.today + sum(nanos for _, _, nanos in history.costs)
    return half_even(lately * max(0, basis.window.end - basis.now), elapsed)


def _drawn(basis: Basis) -> Forecast:
    """The launches of each day that is left are those of one of the same weekdays, and each node
    without a TTL lives as long as an earlier one, drawn anew for each of many months.

    Before each of them the weekdays to draw from are drawn themselves: four Mondays are not all
    Mondays, and a band that takes them for that is too narrow.
    """
    known = _weekdays(basis.history)
    ahead = [(day.weekday, _costs(basis, place, known)) for place, day in enumerate(basis.ahead)]
    ahead = [(weekday, costs) for weekday, costs in ahead if costs]
    lives, places = _lives(basis)
    drawn = _draws(
        _seed(basis),
        tuple((weekday, tuple(some)) for weekday, some in known.items()),
        tuple(weekday for weekday, _ in ahead),
        tuple(map(len, places)),
    )
    launches = [
        sum(costs[day] for (_, costs), day in zip(ahead, days, strict=True)) for days, _ in drawn
    ]
    lasting = [sum(map(getitem, lives, map(getitem, places, numbers))) for _, numbers in drawn]
    sure = basis.spent + basis.committed - basis.endless
    sums = [sum(both) for both in zip(launches, lasting, strict=True)]
    total = _band(sums).over(sure)
    return Forecast(basis, Method.WEEKDAYS, _band(launches), _band(lasting), total)


Draws = tuple[tuple[tuple[int, ...], Sequence[int]], ...]
"""For each month that is drawn, the past day of each day ahead, and the number of each life."""


@lru_cache(_KEPT_DRAWS)
def _draws(
    seed: int,
    known: tuple[tuple[int, tuple[int, ...]], ...],
    ahead: tuple[int, ...],
    sizes: tuple[int, ...],
) -> Draws:
    """What is drawn from a seed: by the numbers of past days by weekday, the weekdays ahead, and
    how many lives each node may have. It does not depend on any amount, so it is kept while these
    grow by the second."""
    random = Random(seed)  # noqa: S311 - it has to be the same again
    size_of_number = "H" if max(sizes, default=0) <= 1 << 16 else "L"
    found = []
    for _ in range(DRAWS):
        drawn = {day: [random.choice(some) for _ in some] for day, some in known}
        days = tuple(random.choice(drawn[weekday]) for weekday in ahead)
        found.append((days, array(size_of_number, [random.choice(range(size)) for size in sizes])))
    return tuple(found)


def _band(sums: Iterable[int]) -> Band:
    ordered = sorted(sums)
    low, mid, high = (ordered[(len(ordered) - 1) * percent // 100] for percent in (10, 50, 90))
    return Band(low, mid, high)


def _lives(basis: Basis) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
    """For each node without a TTL what it may cost yet, by the day on which it goes; and for each
    life that it may have, on which: as if it lived on for as many days as each of those did that
    had got as old; until the period's end where these run still, or where there are none."""
    today = len(basis.history.weekdays)
    by_age: dict[int, list[int | None]] = {}
    by_end: dict[tuple[int, int], list[int]] = {}
    costs: list[Sequence[int]] = []
    places: list[Sequence[int]] = []
    for one in basis.lasting:
        age, last = today - basis.history.span.get(one.node, (today, today))[0], len(one.costs) - 1
        if age not in by_age:
            by_age[age] = _days_left(basis, age) or [None]
        if one.costs:
            if (age, last) not in by_end:
                by_end[age, last] = [
                    last if left is None else min(left, last) for left in by_age[age]
                ]
            costs.append(one.costs)
            places.append(by_end[age, last])
    return costs, places


def _days_left(basis: Basis, age: int) -> list[int | None]:
    """For how many days more each node ran that had run for `age` days; None where it still does,
    so that nobody knows."""
    today = len(basis.history.weekdays)
    found: list[int | None] = []
    for node, (first, last) in basis.history.span.items():
        if node in basis.running:
            found += [None] if today - first >= age else []
        elif first > 0 and last - first >= age:
            found.append(last - first - age)
    return found


def _weekdays(history: History) -> dict[int, list[int]]:
    """The numbers of the days whose launches are known, by weekday."""
    known: dict[int, list[int]] = defaultdict(list)
    for number in range(history.known_since, len(history.weekdays)):
        known[history.weekdays[number]].append(number)
    return dict(known)


def _costs(basis: Basis, place: int, known: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """What the launches of one day ahead would cost by the period's end, by each of the same
    weekdays; of a day that is partly over only that part."""
    day = basis.ahead[place]
    horizon = len(basis.ahead) - place
    return {
        number: half_even(_until(basis.history, number, horizon) * day.left, day.whole)
        for number in known.get(day.weekday, ())
    }


def _until(history: History, number: int, days: int) -> int:
    """What the launches of a past day cost in so many days. What they have not lived through yet
    is taken from the same weekday one or more weeks before."""
    total = 0
    for age in range(days):
        donor = number
        while donor >= history.known_since and age >= len(history.launches[donor]):
            donor -= 7
        if donor < history.known_since:
            break
        total += history.launches[donor][age]
    return total


def _seed(basis: Basis) -> int:
    """From the data alone, so that the same question has the same answer wherever it is asked."""
    history = basis.history
    said = repr((basis.window, history.starts[0], history.launches, len(basis.ahead)))
    return int.from_bytes(hashlib.sha256(said.encode()).digest()[:8])


def nearest(snapshots: Sequence[Snapshot], instant: int) -> Snapshot | None:
    """The one that was made closest to an instant, the earlier of two."""
    return min(snapshots, key=lambda one: (abs(one.made_at - instant), one.made_at), default=None)


def middle(window: Window) -> int:
    """The instant at which half of a period is over: whoever forecasts is judged by then."""
    return (window.start + window.end) // 2
