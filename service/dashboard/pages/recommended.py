"""The page of what to commit to: for each generation and region both terms, and the use behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from service.application.pricing.recommendations import CommitmentAdvice
from service.application.services import Services
from service.dashboard.kit.charts import Chart, count_labels, draw
from service.dashboard.kit.figures import Moment, count, exact, moment, money
from service.dashboard.pages.node import sentence
from service.domain.clock import DAY
from service.domain.commitments.recommendation import (
    CAUTION,
    FEWEST_DAYS,
    Recommendation,
    hours_a_day,
    too_few,
)

NOTHING = "\N{EN DASH}"
ALWAYS, PEAK = 5, 4
"""Places in the palette: what was in use all day, and the most at once."""

_LABELS = 6
"""Days that are named below a chart, where it is wide."""


@dataclass(frozen=True, slots=True)
class TermRow:
    """One term in words."""

    name: str
    chips: str
    price: str
    pays_from: str
    used: str
    saving: str
    interval: str
    best: str
    unused: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChartLevel:
    """A line in the chart: pixels from the top, and what it says."""

    y: float
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class DayRow:
    """One day: the fewest and the most chips at once."""

    day: str
    iso: str
    fewest: str
    most: str
    hint: str


@dataclass(frozen=True, slots=True)
class ChartDay:
    """A day that is named below its column; not where it is narrow, if it is `minor`."""

    column: int
    text: str
    minor: bool


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A generation in a region: both terms and the chart of its use."""

    name: str
    terms: tuple[TermRow, ...]
    picture: Chart | None
    levels: tuple[ChartLevel, ...]
    days: tuple[DayRow, ...]
    labels: tuple[ChartDay, ...]
    description: str


@dataclass(frozen=True, slots=True)
class RecommendedPage:
    """Everything on the page."""

    as_of: Moment
    start: Moment
    end: Moment
    days: str
    too_few: str
    caution: str
    places: tuple[PlaceRow, ...]


def recommended_of(services: Services) -> RecommendedPage:
    """The page, from as many days as there are."""
    found = services.recommendations.recommended()
    return RecommendedPage(
        as_of=moment(found.as_of),
        start=moment(found.start),
        end=moment(found.end),
        days=count(found.days, "full day"),
        too_few=sentence(too_few(found.days)) if found.days < FEWEST_DAYS else "",
        caution=CAUTION,
        places=tuple(map(_place, found.places)),
    )


def _place(advice: CommitmentAdvice) -> PlaceRow:
    extremes, name = advice.course.extremes, f"{advice.generation} in {advice.region}"
    picture = (
        draw([(low, high - low) for low, high in extremes], count_labels) if extremes else None
    )
    starts = range(advice.course.start, advice.course.start + len(extremes) * DAY, DAY)
    return PlaceRow(
        name=name,
        terms=tuple(map(_term, advice.terms)),
        picture=picture,
        levels=_levels(advice.terms, picture) if picture else (),
        days=tuple(_day(start, *one) for start, one in zip(starts, extremes, strict=True)),
        labels=_labels(starts),
        description=_description(name, extremes, advice.terms) if extremes else "",
    )


def _term(one: Recommendation) -> TermRow:
    rates, break_even = one.rates, one.rates.break_even
    low, high = money(one.saving_low), money(one.saving_high)
    return TermRow(
        name=count(rates.years, "year"),
        chips=count(one.chips, "chip") if one.chips else "nothing",
        price=NOTHING if rates.committed is None else exact(rates.committed),
        pays_from=NOTHING if break_even is None else f"{hours_a_day(break_even)} of a day",
        used=NOTHING if one.utilisation is None else _percent(one.utilisation),
        saving=money(one.saving) if one.chips else NOTHING,
        interval=f"{low} to {high}" if one.chips else "",
        best=_best(one),
        unused=money(one.cost_if_unused) if one.chips else NOTHING,
        reason=sentence(one.reason) if one.reason else "",
    )


def _best(one: Recommendation) -> str:
    """What would have been the cheapest, and where it lies in the draws."""
    if not one.best:
        return NOTHING
    return f"{one.best:,} ({one.low:,} to {one.high:,})"


def _percent(ppm: int) -> str:
    return f"{ppm // 10_000}.{ppm // 1_000 % 10} %"


def _levels(terms: Sequence[Recommendation], picture: Chart) -> tuple[ChartLevel, ...]:
    """A line for each number of chips that is recommended, for one term or for both."""
    years: dict[int, list[int]] = defaultdict(list)
    for one in terms:
        if one.chips:
            years[one.chips].append(one.rates.years)
    return tuple(
        ChartLevel(
            y=picture.level(chips),
            label=f"{chips:,} for {' or '.join(count(one, 'year') for one in some)}",
            kind="both" if len(some) > 1 else f"for-{some[0]}",
        )
        for chips, some in sorted(years.items())
    )


def _day(start: int, fewest: int, most: int) -> DayRow:
    at = _date(start)
    said = f"{at:%A} {moment(start).date} (UTC): {fewest:,} chips all day, {most:,} at most"
    return DayRow(f"{at:%a} {moment(start).date}", at.isoformat(), f"{fewest:,}", f"{most:,}", said)


def _labels(starts: Sequence[int]) -> tuple[ChartDay, ...]:
    """Some Mondays, evenly."""
    mondays = [number for number, start in enumerate(starts) if _date(start).weekday() == 0]
    mondays = [number for number in mondays if 2 <= number < len(starts) - 2]
    stride = max(1, -(-len(mondays) // _LABELS))
    return tuple(
        ChartDay(number, f"{_date(starts[number]).day} {_date(starts[number]):%b}", rank % 2 > 0)
        for rank, number in enumerate(mondays[::stride])
    )


def _description(
    name: str, extremes: Sequence[tuple[int, int]], terms: Sequence[Recommendation]
) -> str:
    most = max(high for _, high in extremes)
    said = "; ".join(
        f"{one.chips:,} chips are recommended for {count(one.rates.years, 'year')}" for one in terms
    )
    return (
        f"Columns, one for each of {len(extremes)} UTC days: chips of {name} on demand, at most"
        f" {most:,} at once. {said}."
    )


def _date(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()
