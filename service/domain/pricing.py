"""The price book: what a chip-hour costs, by generation, model, region and date."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

from service.domain.money import parse_usd
from service.domain.tables import rows

CHIP_HOUR = "chip_hour"
DEVICE_HOUR = "device_hour"
CHIPS_PER_DEVICE = 4
"""A device of the v2 and v3 price lists is one host: four chips, eight cores."""

_DEVICE_PRICED = frozenset({"v2", "v3"})
_SHARED_SERIES = {"preemptible": "spot"}
_GROUPS = {"us": "us", "europe": "europe", "asia": "asia-pacific", "australia": "asia-pacific"}


@dataclass(frozen=True, slots=True)
class Sku:
    """What is priced. `single_device` matters for v2 and v3 alone, which have two price systems:
    per device for the one-host types (v2-8, v3-8), per chip for slices of a pod.
    """

    generation: str
    model: str
    region: str
    single_device: bool = False

    @property
    def unit(self) -> str:
        """The unit in which Google lists it."""
        by_device = self.single_device and self.generation in _DEVICE_PRICED
        return DEVICE_HOUR if by_device else CHIP_HOUR


@dataclass(frozen=True, slots=True)
class Price:
    """One row of the price book. `nanos` are nano-dollars per `unit`; times are whole UTC seconds.

    `region` is a region, or in the old price lists a group of them (`us`, `europe`,
    `asia-pacific`).
    """

    id: str
    generation: str
    model: str
    unit: str
    region: str
    nanos: int
    effective_from: int
    source: str
    confidence: str = ""
    recorded_at: int = 0

    @property
    def per_chip_hour(self) -> int:
        """Nano-dollars for one chip for one hour; exact, because nothing else is let in."""
        return self.nanos // CHIPS_PER_DEVICE if self.unit == DEVICE_HOUR else self.nanos


@dataclass(frozen=True, slots=True)
class Cut:
    """A stretch of seconds [start, end) at one price; `price` is None where none is known."""

    start: int
    end: int
    price: Price | None


def group_of(region: str) -> str:
    """The group of regions that the price lists of 2018 and 2019 spoke of; empty where none was."""
    return _GROUPS.get(region.split("-", 1)[0], "")


def check_price(price: Price) -> None:
    """ValueError when a price cannot be right: it would make every figure after it wrong."""
    if price.nanos <= 0:
        raise ValueError("a price is more than zero; leave it out when it is not known")
    if price.unit not in (CHIP_HOUR, DEVICE_HOUR):
        raise ValueError(f"a price is per {CHIP_HOUR} or per {DEVICE_HOUR}")
    if price.unit == DEVICE_HOUR and price.generation not in _DEVICE_PRICED:
        raise ValueError(f"only v2 and v3 are priced per device, not {price.generation}")
    if price.unit == DEVICE_HOUR and price.nanos % CHIPS_PER_DEVICE:
        raise ValueError("a device price must be a whole number of nano-dollars per chip")


class PriceBook:
    """Effective-dated prices, asked by SKU and instant. Immutable: a new price makes a new book."""

    def __init__(self, prices: Iterable[Price]) -> None:
        self.prices = tuple(sorted(prices, key=lambda price: price.effective_from))
        series: dict[tuple[str, str, str, str], list[Price]] = defaultdict(list)
        for price in sorted(
            self.prices, key=lambda price: (price.effective_from, price.recorded_at)
        ):
            series[_series(price.generation, price.model, price.unit, price.region)].append(price)
        self._series = dict(series)
        self._starts = {key: [p.effective_from for p in found] for key, found in series.items()}

    def at(self, sku: Sku, instant: int) -> Price | None:
        """The price in force; the region's own before its group's. None when none is known."""
        for region in (sku.region, group_of(sku.region)):
            key = _series(sku.generation, sku.model, sku.unit, region)
            index = bisect_right(self._starts.get(key, ()), instant)
            if index:
                return self._series[key][index - 1]
        return None

    def cuts(self, sku: Sku, start: int, end: int) -> tuple[Cut, ...]:
        """[start, end) in stretches of one price each; empty when the stretch is."""
        edges = [start, *(t for t in self._changes(sku) if start < t < end), end]
        found: list[Cut] = []
        for left, right in pairwise(edges):
            price = self.at(sku, left)
            if found and found[-1].price == price:
                found[-1] = Cut(found[-1].start, right, price)
            elif left < right:
                found.append(Cut(left, right, price))
        return tuple(found)

    def cuts_of(self, price: Price, start: int, end: int) -> tuple[Cut, ...]:
        """[start, end) in stretches of one price each, for whatever `price` is the price of."""
        single = price.unit == DEVICE_HOUR
        return self.cuts(Sku(price.generation, price.model, price.region, single), start, end)

    def in_force(self, instant: int) -> Iterator[Price]:
        """For each generation, model, unit and region, the row that counts at that instant."""
        for key, starts in self._starts.items():
            index = bisect_right(starts, instant)
            if index:
                yield self._series[key][index - 1]

    def _changes(self, sku: Sku) -> list[int]:
        instants: set[int] = set()
        for region in (sku.region, group_of(sku.region)):
            instants.update(
                self._starts.get(_series(sku.generation, sku.model, sku.unit, region), ())
            )
        return sorted(instants)


def series_of(model: str) -> str:
    """Preemptible and spot capacity are one SKU at Google, so they are one series of prices."""
    return _SHARED_SERIES.get(model, model)


def _series(generation: str, model: str, unit: str, region: str) -> tuple[str, str, str, str]:
    return generation, series_of(model), unit, region


@cache
def embedded_prices() -> tuple[Price, ...]:
    """The prices that ship with the service, each with its source (`service/data/prices.csv`)."""
    return tuple(_read(row) for row in rows("prices"))


def _read(row: dict[str, str]) -> Price:
    moment = datetime.fromisoformat(row["effective_from"]).replace(tzinfo=UTC)
    price = Price(
        id="/".join(
            row[k] for k in ("generation", "price_model", "unit", "region", "effective_from")
        ),
        generation=row["generation"],
        model=row["price_model"],
        unit=row["unit"],
        region=row["region"],
        nanos=parse_usd(row["usd"]),
        effective_from=int(moment.timestamp()),
        source=row["source"],
        confidence=row["confidence"],
    )
    check_price(price)
    return price
