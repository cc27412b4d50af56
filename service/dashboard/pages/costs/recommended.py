"""The page of recommended commitments: both terms for each generation and region, and past use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from service.application.pricing.recommendations import CommitmentAdvice
from service.application.services import Services
from service.dashboard.kit.charts import Chart, count_labels, draw_chart
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_exact,
    format_money,
    to_moment,
    utc_date,
)
from service.dashboard.kit.visible_text import to_sentence
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
"""Places in the palette of the chips that were in use all day, and of the most at once."""

_LABELS = 6
"""The most days that are named below a wide chart."""


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
    """A line in the chart: pixels from the top, and its label."""

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
    """A day that is named below its column; a `minor` one is left out in a narrow chart."""

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
    """Everything on the page. `last` is in the last day whose use counts."""

    as_of: Moment
    start: Moment
    last: Moment
    days: str
    too_few: str
    caution: str
    places: tuple[PlaceRow, ...]


def build_recommended_page(services: Services) -> RecommendedPage:
    """The page, from the days that there are."""
    found = services.recommendations.list_advices()
    return RecommendedPage(
        as_of=to_moment(found.as_of),
        start=to_moment(found.start),
        last=to_moment(found.end - DAY),
        days=format_count(found.days, "full day"),
        too_few=to_sentence(too_few(found.days)) if found.days < FEWEST_DAYS else "",
        caution=CAUTION,
        places=tuple(map(_build_place_row, found.places)),
    )


def _build_place_row(advice: CommitmentAdvice) -> PlaceRow:
    extremes, name = advice.course.extremes, f"{advice.generation} in {advice.region}"
    picture, description = None, ""
    if extremes:
        picture = draw_chart([(low, high - low) for low, high in extremes], count_labels)
        highest = max(high for _, high in extremes)
        numbers = "; ".join(
            f"{term.chips:,} chips are recommended for {format_count(term.rates.years, 'year')}"
            for term in advice.terms
        )
        description = (
            f"Columns, one for each of {len(extremes)} UTC days: chips of {name} on demand, at most"
            f" {highest:,} at once. {numbers}."
        )
    starts = range(advice.course.start, advice.course.start + len(extremes) * DAY, DAY)
    days = []
    for start, (fewest, most) in zip(starts, extremes, strict=True):
        day, date = utc_date(start), to_moment(start).date
        hint = f"{day:%A} {date} (UTC): {fewest:,} chips all day, {most:,} at most"
        days.append(DayRow(f"{day:%a} {date}", day.isoformat(), f"{fewest:,}", f"{most:,}", hint))
    # Some Mondays at equal distances, none of them close to an edge of the chart.
    dates = list(map(utc_date, starts))
    mondays = [
        number
        for number, day in enumerate(dates)
        if day.weekday() == 0 and 2 <= number < len(dates) - 2
    ]
    stride = max(1, -(-len(mondays) // _LABELS))
    labels = tuple(
        ChartDay(number, f"{dates[number].day} {dates[number]:%b}", rank % 2 > 0)
        for rank, number in enumerate(mondays[::stride])
    )
    return PlaceRow(
        name=name,
        terms=tuple(map(_build_term_row, advice.terms)),
        picture=picture,
        levels=_list_levels(advice.terms, picture) if picture else (),
        days=tuple(days),
        labels=labels,
        description=description,
    )


def _build_term_row(term: Recommendation) -> TermRow:
    rates, break_even = term.rates, term.rates.break_even
    low, high = format_money(term.saving_low), format_money(term.saving_high)
    used = NOTHING
    if term.utilisation is not None:  # in parts per million
        used = f"{term.utilisation // 10_000}.{term.utilisation // 1_000 % 10} %"
    return TermRow(
        name=format_count(rates.years, "year"),
        chips=format_count(term.chips, "chip") if term.chips else "nothing",
        price=NOTHING if rates.committed is None else format_exact(rates.committed),
        pays_from=NOTHING if break_even is None else f"{hours_a_day(break_even)} a day",
        used=used,
        saving=format_money(term.saving) if term.chips else NOTHING,
        interval=f"{low} to {high}" if term.chips else "",
        # the number of chips that would have been cheapest, and its range in the draws
        best=f"{term.best:,} ({term.low:,} to {term.high:,})" if term.best else NOTHING,
        unused=format_money(term.cost_if_unused) if term.chips else NOTHING,
        reason=to_sentence(term.reason) if term.reason else "",
    )


def _list_levels(terms: Sequence[Recommendation], picture: Chart) -> tuple[ChartLevel, ...]:
    """A line for each recommended number of chips, for one term or for both."""
    years: dict[int, list[int]] = defaultdict(list)
    for term in terms:
        if term.chips:
            years[term.chips].append(term.rates.years)
    return tuple(
        ChartLevel(
            y=picture.y_at(chips),
            label=f"{chips:,} for {' or '.join(format_count(number, 'year') for number in some)}",
            kind="both" if len(some) > 1 else f"for-{some[0]}",
        )
        for chips, some in sorted(years.items())
    )
