"""Markers of a chart of costs: what happened on a day that explains its cost. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, floor_to
from service.domain.money import format_dollars
from service.domain.pricing.price_book import Price, PriceBook, group_of, series_of
from service.domain.time_window import Window


@dataclass(frozen=True, slots=True)
class CostMarker:
    """What happened on the UTC day that begins at the second `day`, as a sentence without a full
    stop."""

    day: int
    text: str


@dataclass(frozen=True, slots=True)
class UsedHardware:
    """A generation that ran under a provisioning model in a zone."""

    generation: str
    model: str
    zone: str


def list_markers(
    window: Window,
    book: PriceBook,
    used: Collection[UsedHardware],
    preempted_at: Iterable[int],
    corrected: Mapping[int, int],
) -> Sequence[CostMarker]:
    """Return the markers of a window, by day: list prices of `used` hardware that changed,
    preemptions, and corrections of months that are closed.

    `preempted_at` are UTC seconds; `corrected` has the nano-dollars by the day of the posting.
    """
    numbers = Counter(floor_to(at, DAY) for at in preempted_at)
    markers = [
        *_list_price_changes(window, book, used),
        *(
            CostMarker(day, "1 preemption" if number == 1 else f"{number:,} preemptions")
            for day, number in numbers.items()
        ),
        *(
            CostMarker(day, f"earlier months are corrected by {format_dollars(nanos)}")
            for day, nanos in corrected.items()
        ),
    ]
    return sorted(markers, key=lambda marker: (marker.day, marker.text))


def _list_price_changes(
    window: Window, book: PriceBook, used: Collection[UsedHardware]
) -> Iterator[CostMarker]:
    for price in book.prices:
        at = price.effective_from
        if not window.start <= at < window.end or not any(_is_of(price, each) for each in used):
            continue
        before = _find_before(book, price)
        if before is not None and before.nanos != price.nanos:
            what = f"{price.generation} {price.model} in {price.region}"
            change = f"{format_dollars(before.nanos)} to {format_dollars(price.nanos)}"
            yield CostMarker(floor_to(at, DAY), f"the list price of {what} changes from {change}")


def _is_of(price: Price, used: UsedHardware) -> bool:
    region = region_of(used.zone)
    return (
        price.generation == used.generation
        and price.model == series_of(used.model)
        and price.region in {region, group_of(region)}
    )


def _find_before(book: PriceBook, price: Price) -> Price | None:
    """The price of the same product in force a second before."""
    product = price.generation, price.model, price.unit, price.region
    return next(
        (
            each
            for each in book.in_force(price.effective_from - 1)
            if (each.generation, each.model, each.unit, each.region) == product
        ),
        None,
    )
