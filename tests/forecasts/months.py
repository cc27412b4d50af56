"""A month of a lab, drawn from a seed: who launches what and when, for how long, with which TTL.

Labs differ in all of it: services that stay for months, training runs that last for hours or days,
notebooks that are opened on workdays and sometimes forgotten, sweeps of many nodes at once, and
levels of activity that change from one day to the next. Nothing here knows how a forecast is made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

from service.domain.clock import DAY, HOUR, floor_to
from service.domain.costs.forecast import (
    DAYS,
    NODE_DAYS,
    CostHistory,
    DayAhead,
    ForecastBasis,
    RunningNode,
)
from service.domain.costs.habits import NodeDay
from service.domain.money import NANOS, half_even
from service.domain.time_window import Window

MONTH = Window(1_793_491_200, 1_796_083_200)
"""November 2026, which begins on a Sunday and has 30 days."""

TYPES = ("v5litepod-8", "v5litepod-16", "v5p-8", "v6e-8", "v6e-8")
MODELS = ("on_demand", "on_demand", "spot")

BEFORE = 105
"""Days of life before the month, so that what lasts for long has had the time to begin."""


@dataclass(frozen=True, slots=True)
class Life:
    """One node: billed in [start, end), gone by itself at `ttl_end` where it has a TTL; `rate` in
    nano-dollars an hour. Its `kind` is of its team, type and price model, as in the service."""

    rate: int
    start: int
    end: int
    ttl_end: int | None = None
    name: str = ""
    kind: str = ""

    def cost(self, start: int, end: int) -> int:
        """Nano-dollars of the part that lies in [start, end)."""
        seconds = min(end, self.end) - max(start, self.start)
        return half_even(self.rate * seconds, HOUR) if seconds > 0 else 0

    def days(self, since: int, until: int) -> Iterator[tuple[int, int]]:
        """The first instant of each day within [since, until) that it cost anything on, and how
        much."""
        first = floor_to(max(self.start, since), DAY)
        for day in range(first, min(self.end, until), DAY):
            if nanos := self.cost(day, day + DAY):
                yield day, nanos


@dataclass(frozen=True, slots=True)
class Month:
    """The nodes of a lab, and the instant at which somebody asks what the month will cost."""

    lives: tuple[Life, ...]
    now: int

    def spent(self, start: int, end: int) -> int:
        """Nano-dollars of everything in [start, end)."""
        return sum(life.cost(start, end) for life in self.lives)

    @property
    def actual(self) -> int:
        """What the month came to."""
        return self.spent(MONTH.start, MONTH.end)

    def pace(self) -> int:
        """What the month comes to if the rest of it costs a second what the last week did."""
        week = self.spent(self.now - 7 * DAY, self.now)
        return self.spent(MONTH.start, self.now) + half_even(week * (MONTH.end - self.now), 7 * DAY)

    def same_weekdays(self) -> int:
        """What it comes to if each day costs what the last of the same weekday did that is over."""
        today, total = floor_to(self.now, DAY), self.spent(MONTH.start, self.now)
        for day in range(today, MONTH.end, DAY):
            past = day - 7 * DAY * ((day - today) // (7 * DAY) + 1)
            left = day + DAY - max(day, self.now)
            total += half_even(self.spent(past, past + DAY) * left, DAY)
        return total

    def basis(self) -> ForecastBasis:
        """What a forecast may know at that instant."""
        today = floor_to(self.now, DAY)
        seen = [life for life in self.lives if life.start < self.now]
        running = [_planned(life) for life in seen if life.end > self.now]
        return ForecastBasis(
            window=MONTH,
            now=self.now,
            spent=self.spent(MONTH.start, self.now),
            committed=sum(life.cost(self.now, MONTH.end) for life in running),
            unpriced=0,
            history=_history(seen, today),
            ahead=tuple(
                DayAhead(_weekday(day), day + DAY - max(day, self.now), DAY)
                for day in range(today, MONTH.end, DAY)
            ),
            running=tuple(
                RunningNode(
                    life.name,
                    life.kind,
                    tuple(_by_end_of_day(life, self.now)),
                    life.ttl_end is not None,
                )
                for life in running
            ),
            names=frozenset(life.name for life in running),
        )


def _history(lives: list[Life], today: int) -> CostHistory:
    starts = tuple(today - DAY * (DAYS - number) for number in range(DAYS + 1))
    levels: dict[str, list[int]] = defaultdict(lambda: [0] * DAYS)
    nodes = []
    for life in lives:
        for day, nanos in life.days(starts[0], today):
            number = (day - starts[0]) // DAY
            levels[life.kind][number] += nanos
            if number >= DAYS - NODE_DAYS - 1:
                nodes.append(NodeDay(number, life.name, life.kind, nanos))
    return CostHistory(
        starts,
        tuple(map(_weekday, starts[:-1])),
        {kind: tuple(costs) for kind, costs in sorted(levels.items())},
        tuple(nodes),
    )


def _planned(life: Life) -> Life:
    """A life as far as its TTL, or the end of the month: nobody knows when it really ends."""
    end = MONTH.end if life.ttl_end is None else min(life.ttl_end, MONTH.end)
    return replace(life, end=end)


def _by_end_of_day(life: Life, now: int) -> Iterator[int]:
    for day in range(floor_to(now, DAY), MONTH.end, DAY):
        yield life.cost(now, day + DAY)


def _weekday(instant: int) -> int:
    return datetime.fromtimestamp(instant, UTC).weekday()


def month_of(seed: int) -> Month:
    """The month of a seed. Its instant is anywhere after the first day and before the last."""
    random = Random(seed)
    first = MONTH.start - BEFORE * DAY
    if random.random() < 0.2:  # a young lab, with at least a week of history
        first = MONTH.start - random.randint(7, 30) * DAY
    lives: list[Life] = []
    for team in range(random.randint(1, 4)):
        lives += _team(random, f"t{team}", first)
    now = random.randrange(max(MONTH.start + DAY, first + 8 * DAY), MONTH.end - DAY)
    return Month(tuple(lives), now - now % 60)


def _team(random: Random, name: str, first: int) -> Iterator[Life]:
    """The nodes of one team, each of its habits drawn anew."""
    level = _levels(random, first)
    weekend = random.uniform(0.1, 1.0)
    habits = random.sample(
        [_services, _training, _notebooks, _sweeps], random.choices([2, 3, 4], [4, 4, 2])[0]
    )
    for place, habit in enumerate(habits):
        kind = f"{name}/{random.choice(TYPES)}/{random.choice(MODELS)}"
        for number, life in enumerate(habit(random, first, level, weekend)):
            yield replace(
                life, name=f"{name}-{place}-{number}", kind=f"{kind}/{life.rate.bit_length()}"
            )


def _levels(random: Random, first: int) -> dict[int, float]:
    """How active a team is on each day: it drifts, now and then it changes for good, and before a
    deadline there is more of everything for some days."""
    drift = random.gauss(0, 0.004)
    jumps, size, now = random.uniform(40, 400), random.uniform(0.1, 0.5), 0.0
    rush, every, until = random.uniform(1.0, 3.0), random.uniform(20, 90), 0
    found = {}
    for day in range(first, MONTH.end, DAY):
        now += drift
        if random.random() < 1 / jumps:
            now = 0.5 * now + random.gauss(0, size)
        if random.random() < 1 / every:
            until = day + random.randint(3, 10) * DAY
        found[day] = math.exp(max(-2.0, min(2.0, now))) * (rush if day < until else 1.0)
    return found


def _rate(random: Random) -> int:
    """Nano-dollars an hour, from one small node to a slice."""
    return int(math.exp(random.uniform(0.2, 4.0)) * NANOS)


def _poisson(random: Random, mean: float) -> int:
    """A number of events that do not know of each other."""
    limit, product, number = math.exp(-min(mean, 500)), random.random(), 0
    while product > limit:
        number += 1
        product *= random.random()
    return number


def _services(
    random: Random, first: int, level: dict[int, float], weekend: float
) -> Iterator[Life]:
    """Nodes that stay for weeks or months, and are followed by others."""
    del level, weekend
    for _ in range(random.randint(1, 4)):
        rate, mean = _rate(random), random.uniform(15, 120)
        at = first + random.randrange(20 * DAY)
        while at < MONTH.end:
            end = at + int(random.expovariate(1 / mean) * DAY) + HOUR
            yield Life(rate, at, end)
            at = end + int(random.expovariate(1 / random.uniform(0.1, 12)) * DAY)


def _training(
    random: Random, first: int, level: dict[int, float], weekend: float
) -> Iterator[Life]:
    """Runs that last for hours or days, many of them with a TTL."""
    rate, often = _rate(random), math.exp(random.uniform(-1.8, 1.4))
    median, spread = math.exp(random.uniform(0.7, 4.4)), random.uniform(0.4, 1.3)
    with_ttl = random.random()
    for day in range(first, MONTH.end, DAY):
        usual = weekend if _weekday(day) >= 5 else 1.0
        for _ in range(_poisson(random, often * level[day] * usual)):
            start = day + int(random.triangular(0, 24, 14) * HOUR)
            lasts = max(600, int(median * math.exp(random.gauss(0, spread)) * HOUR))
            ttl = int(lasts * random.uniform(0.8, 3)) if random.random() < with_ttl else None
            end = start + (lasts if ttl is None else min(lasts, ttl))
            size = random.choice([1, 1, 1, 2, 4])
            yield Life(rate * size, start, end, None if ttl is None else start + ttl)


def _notebooks(
    random: Random, first: int, level: dict[int, float], weekend: float
) -> Iterator[Life]:
    """Opened in the morning of workdays and closed in the evening, unless they are forgotten."""
    rate, people = _rate(random) // 4, random.uniform(0.5, 8)
    forgets = random.uniform(0, 0.15)
    for day in range(first, MONTH.end, DAY):
        usual = 0.3 * weekend if _weekday(day) >= 5 else 1.0
        for _ in range(_poisson(random, people * level[day] * usual)):
            start = day + int(random.triangular(7, 20, 9) * HOUR)
            lasts = int(random.triangular(0.5, 12, 6) * HOUR)
            if random.random() < forgets:
                lasts += int(random.expovariate(1 / 3) * DAY)
            yield Life(rate, start, start + lasts)


def _sweeps(random: Random, first: int, level: dict[int, float], weekend: float) -> Iterator[Life]:
    """Many nodes at once, on some days."""
    rate, often = _rate(random) // 2, random.uniform(0.03, 0.3)
    size, median = random.uniform(3, 25), math.exp(random.uniform(0.0, 3.2))
    with_ttl = random.random()
    for day in range(first, MONTH.end, DAY):
        usual = weekend if _weekday(day) >= 5 else 1.0
        if random.random() > often * level[day] * usual:
            continue
        start = day + int(random.triangular(0, 24, 15) * HOUR)
        lasts = median * math.exp(random.gauss(0, 0.4))
        for _ in range(1 + _poisson(random, size)):
            mine = max(600, int(lasts * random.uniform(0.6, 1.4) * HOUR))
            ttl = int(mine * random.uniform(1, 3)) if random.random() < with_ttl else None
            yield Life(rate, start, start + mine, None if ttl is None else start + ttl)
