"""Recommendations for commitments, from the usage and the price book."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from service.application.answers import Answers
from service.domain.clock import DAY, Clock, floor_to
from service.domain.commitments.recommendation import (
    MOST_DAYS,
    TERMS,
    ChipSpan,
    CommitmentRates,
    DailyUse,
    Recommendation,
    daily_use,
    recommend_commitment,
)
from service.domain.pricing.price_book import CHIP_HOUR, ON_DEMAND, PriceBook, Sku
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

_KEPT = 4
Place = tuple[str, str]
"""Generation and region."""


@dataclass(frozen=True, slots=True)
class CommitmentAdvice:
    """The recommendation for one generation in one region: one for each term, of which one is
    chosen, and the use that they follow from."""

    generation: str
    region: str
    course: DailyUse
    terms: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True)
class CommitmentAdvices:
    """Everything that was used on demand in the full UTC days [start, end), by generation and
    region."""

    as_of: int
    start: int
    end: int
    places: tuple[CommitmentAdvice, ...]

    @property
    def days(self) -> int:
        """The number of full days behind the recommendation."""
        return (self.end - self.start) // DAY


class RecommendationService:
    """Recommendations are computed once a day, unless usage or prices change."""

    def __init__(self, units: Units, prices: PriceBookCache, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._answers = Answers(_KEPT)

    def list_advices(self, days: int = MOST_DAYS) -> CommitmentAdvices:
        """What to commit to, from the last full days, or from all days if there are fewer. Recorded
        commitments are subtracted."""
        now = self._clock()
        with self._units.reading() as unit:
            taken: dict[Place, int] = defaultdict(int)  # chips that are paid for now or later
            for commitment in unit.commitments.list_standing():
                if now < commitment.end:
                    place = commitment.generation, commitment.region
                    taken[place] += commitment.chips
            book, books = self._prices.get_book(unit), unit.revisions.read_current().books
            key = books, book, floor_to(now, DAY), days, tuple(sorted(taken.items()))
            return self._answers.get_or_make(
                key, lambda: _build_advices(unit, book, days, taken, now)
            )


def _build_advices(
    unit: Unit, book: PriceBook, days: int, committed: Mapping[Place, int], now: int
) -> CommitmentAdvices:
    end, first = floor_to(now, DAY), unit.usage.find_first_start()
    known = 0 if first is None else max(0, end + floor_to(-first, DAY)) // DAY
    number = min(days, known)
    start = end - number * DAY
    used: dict[Place, list[ChipSpan]] = defaultdict(list)
    for sku, span in unit.usage.iter_on_demand_spans(start, end):
        if sku.unit == CHIP_HOUR:  # commitments are sold by the chip, not by the device
            used[sku.generation, sku.region].append(span)
    courses = {
        place: daily_use(spans, start, number, committed.get(place, 0))
        for place, spans in sorted(used.items())
    }
    advice = (_advise_place(book, place, course, now) for place, course in courses.items())
    return CommitmentAdvices(now, start, end, tuple(advice))


def _advise_place(book: PriceBook, place: Place, course: DailyUse, now: int) -> CommitmentAdvice:
    def hourly_rate(model: str) -> int | None:
        price = book.find_price(Sku(place[0], model, place[1]), now)
        return None if price is None else price.per_chip_hour

    on_demand = hourly_rate(ON_DEMAND)
    rates = [CommitmentRates(years, on_demand, hourly_rate(f"cud_{years}y")) for years in TERMS]
    asked = " ".join(place)
    return CommitmentAdvice(
        *place, course, tuple(recommend_commitment(course, rate, asked) for rate in rates)
    )
