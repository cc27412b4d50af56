"""Markers of a chart of costs: what happened on a day that explains its cost. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, floor_to
from service.domain.money import format_dollars
from service.domain.pricing.price_book import Price, PriceBook, Sku, row_of
from service.domain.time_window import Window


@dataclass(frozen=True, slots=True)
class CostMarker:
    """An event that explains the cost of a UTC day, as a sentence without a full stop. The day
    begins at the second `day`."""

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
    """Return the markers of a window by day: changes of list prices, preemptions, and corrections
    of closed months. Only prices of `used` hardware count.

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
    """The changes of list prices that `used` hardware had. A price that was never in force is no
    change. A price that counts in several zones is listed once."""
    changes: dict[tuple[str, int], tuple[Price, Price]] = {}
    skus: set[Sku] = set()
    for hardware in used:  # sold as chips, as whole devices, or as a machine type
        plain = Sku(hardware.generation, hardware.model, region_of(hardware.zone))
        skus |= {plain, replace(plain, single_device=True), replace(plain, is_vm=True)}
    for sku in skus:
        # A change at the first second of the window shows only beside the second before.
        for before, after in pairwise(book.list_cuts(sku, window.start - 1, window.end)):
            if before.price is not None and after.price is not None:
                old, new = row_of(before.price), row_of(after.price)
                changes[new.id, after.start] = old, new
    for (_, at), (old, new) in changes.items():
        if old.nanos != new.nanos:
            what = f"{new.generation} {new.model} in {new.region}"
            change = f"{format_dollars(old.nanos)} to {format_dollars(new.nanos)}"
            yield CostMarker(floor_to(at, DAY), f"the list price of {what} changes from {change}")
