"""The price book: what a chip-hour costs, by generation, model, region and date."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

from service.domain.discount import Discount
from service.domain.money import NANOS, parse_usd
from service.domain.tables import rows

CHIP_HOUR = "chip_hour"
DEVICE_HOUR = "device_hour"
ON_DEMAND = "on_demand"
CHIPS_PER_DEVICE = 4
"""A device of the v2 and v3 price lists is one host: four chips, eight cores."""

MAX_NANOS_PER_UNIT = 100_000 * NANOS
"""A sanity bound in nano-dollars per unit: no chip costs a hundred thousand dollars an hour."""

_MANUAL = "manual/"
_LESS = "+discount/"

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

    @property
    def is_manual(self) -> bool:
        """Whether somebody entered it by hand."""
        return self.id.startswith(_MANUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscountedPrice(Price):
    """What is paid in place of the list price `listed` while `discount` is in force."""

    listed: Price
    discount: Discount


@dataclass(frozen=True, slots=True)
class Cut:
    """A stretch of seconds [start, end) at one price; `price` is None where none is known.

    `price` is what is paid, with its discount taken off. `listed` is what the same chips cost on
    demand at list price, without any: what savings are held against.
    """

    start: int
    end: int
    price: Price | None
    listed: Price | None = None


def group_of(region: str) -> str:
    """The group of regions that the price lists of 2018 and 2019 spoke of; empty where none was."""
    return _GROUPS.get(region.split("-", 1)[0], "")


def manual_id(key: str) -> str:
    """The id of a price that is entered by hand."""
    return f"{_MANUAL}{key}"


def discounted(price: Price, discount: Discount) -> DiscountedPrice:
    """The price less the discount, half-even to the nano-dollar for each chip and hour.

    The id and the source name both, so that a charge can be followed back to either; neither
    changes when the discount is ended early, as what was charged until then does not.
    """
    chips = CHIPS_PER_DEVICE if price.unit == DEVICE_HOUR else 1
    return DiscountedPrice(
        id=f"{price.id}{_LESS}{discount.id}",
        generation=price.generation,
        model=price.model,
        unit=price.unit,
        region=price.region,
        nanos=chips * discount.off(price.per_chip_hour),
        effective_from=max(price.effective_from, discount.effective_from),
        source=f"{price.source}; less {discount.percent} % ({discount.source})",
        confidence=price.confidence,
        recorded_at=max(price.recorded_at, discount.recorded_at),
        listed=price,
        discount=discount,
    )


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
    """Effective-dated prices, asked by SKU and instant, and the discounts on them.

    Immutable: a new price or discount makes a new book. `discounts` are those that stand; no two of
    them apply to one price at one second.
    """

    def __init__(self, prices: Iterable[Price], discounts: Iterable[Discount] = ()) -> None:
        self.discounts = tuple(discounts)
        self.prices = tuple(sorted(prices, key=lambda price: price.effective_from))
        series: dict[tuple[str, str, str, str], list[Price]] = defaultdict(list)
        # Of two that were entered within a second, the ids tell which is the later, for all.
        for price in sorted(self.prices, key=lambda p: (p.effective_from, p.recorded_at, p.id)):
            series[_series(price.generation, price.model, price.unit, price.region)].append(price)
        self._series = dict(series)
        self._starts = {key: [p.effective_from for p in found] for key, found in series.items()}

    def at(self, sku: Sku, instant: int) -> Price | None:
        """What is paid: the price in force less its discount. None when none is known."""
        listed = self.listed(sku, instant)
        return None if listed is None else self.paid(listed, instant)

    def paid(self, listed: Price, instant: int) -> Price:
        """What is paid at that second in place of a list price."""
        series = series_of(listed.model)
        for discount in self.discounts:
            if discount.is_in_force(instant) and discount.covers(listed.generation, series):
                return discounted(listed, discount)
        return listed

    def listed(self, sku: Sku, instant: int) -> Price | None:
        """The list price in force; the region's own before its group's. None when none is known."""
        for region in (sku.region, group_of(sku.region)):
            key = _series(sku.generation, sku.model, sku.unit, region)
            index = bisect_right(self._starts.get(key, ()), instant)
            if index:
                return self._series[key][index - 1]
        return None

    def cuts(self, sku: Sku, start: int, end: int) -> tuple[Cut, ...]:
        """[start, end) in stretches of one price each; empty when the stretch is."""
        on_demand = replace(sku, model=ON_DEMAND)
        changes = sorted({*self._changes(sku), *self._changes(on_demand)})
        edges = [start, *(t for t in changes if start < t < end), end]
        found: list[Cut] = []
        for left, right in pairwise(edges):
            cut = Cut(left, right, self.at(sku, left), self.listed(on_demand, left))
            if found and found[-1].price == cut.price and found[-1].listed == cut.listed:
                found[-1] = replace(found[-1], end=right)
            elif left < right:
                found.append(cut)
        return tuple(found)

    def cuts_of(self, price: Price, start: int, end: int) -> tuple[Cut, ...]:
        """[start, end) in stretches of one price each, for whatever `price` is the price of."""
        single = price.unit == DEVICE_HOUR
        return self.cuts(Sku(price.generation, price.model, price.region, single), start, end)

    def in_force(self, instant: int) -> Iterator[Price]:
        """For each generation, model, unit and region, the list price that counts at that
        instant."""
        for key, starts in self._starts.items():
            index = bisect_right(starts, instant)
            if index:
                yield self._series[key][index - 1]

    def with_id(self, price_id: str) -> Price | None:
        """The price of that id, be it a list price or what is left of one by a discount."""
        listed_id, _, discount_id = price_id.partition(_LESS)
        listed = next((price for price in self.prices if price.id == listed_id), None)
        if listed is None or not discount_id:
            return listed
        for discount in self.discounts:
            if discount.id == discount_id:
                return discounted(listed, discount)
        return None

    def _changes(self, sku: Sku) -> set[int]:
        instants: set[int] = set()
        for region in (sku.region, group_of(sku.region)):
            instants.update(
                self._starts.get(_series(sku.generation, sku.model, sku.unit, region), ())
            )
        for discount in self.discounts:
            if discount.covers(sku.generation, series_of(sku.model)):
                bounds = discount.effective_from, discount.effective_until
                instants.update(bound for bound in bounds if bound is not None)
        return instants


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
