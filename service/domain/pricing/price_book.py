"""The price book: the price of a chip-hour by generation, model, region and date."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from service.domain.money import NANOS
from service.domain.pricing.discounts import Discount
from service.domain.pricing.purchases import Purchase, find_purchase

CHIP_HOUR = "chip_hour"
DEVICE_HOUR = "device_hour"
VM_HOUR = "vm_hour"
ON_DEMAND = "on_demand"
RESERVED = "reserved"
CALENDAR = "calendar"
"""The model of Google's list prices for calendar-mode reservations."""

CHIPS_PER_DEVICE = 4
"""A device of the v2 and v3 price lists is one host: four chips, eight cores."""

MAX_NANOS_PER_UNIT = 100_000 * NANOS
"""A sanity bound in nano-dollars per unit: no chip costs a hundred thousand dollars an hour."""

_MANUAL = "manual/"
_LESS = "+discount/"
_RESERVED_AS = "+reservation/"

_DEVICE_PRICED = frozenset({"v2", "v3"})
_SHARED_SERIES = {"preemptible": "spot"}
_GROUPS = {"us": "us", "europe": "europe", "asia": "asia-pacific", "australia": "asia-pacific"}
GROUPS = frozenset(_GROUPS.values())
"""The groups of regions in the price lists of 2018 and 2019."""


@dataclass(frozen=True, slots=True)
class Sku:
    """A product with a price. `single_device` matters for v2 and v3 alone, which have two price
    systems: per device for the one-host types (v2-8, v3-8), per chip for slices of a pod. `pool` is
    the source of reserved capacity (`pool_of`). A virtual machine has its machine type in place of
    a generation, and `is_vm`.
    """

    generation: str
    model: str
    region: str
    single_device: bool = False
    pool: str = ""
    is_vm: bool = False

    @property
    def unit(self) -> str:
        """The unit in which Google lists the product."""
        if self.is_vm:
            return VM_HOUR
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
        """Nano-dollars for one chip for one hour, or for one machine. The division is exact:
        `check_price` refuses other prices."""
        return self.nanos // CHIPS_PER_DEVICE if self.unit == DEVICE_HOUR else self.nanos

    @property
    def is_manual(self) -> bool:
        """Whether the price was entered by hand."""
        return self.id.startswith(_MANUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscountedPrice(Price):
    """The price that is paid in place of the list price `listed` while `discount` is in force."""

    listed: Price
    discount: Discount


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedPrice(Price):
    """The price of a reservation, and of its nodes, in place of `plain`."""

    plain: Price
    reservation_id: str


@dataclass(frozen=True, slots=True)
class PriceStretch:
    """A stretch of seconds [start, end) at one price; `price` is None where it is unknown.

    `price` is the price that is paid, less its discount. `listed` is the list price of the same
    chips on demand; savings are relative to it.
    """

    start: int
    end: int
    price: Price | None
    listed: Price | None = None


def group_of(region: str) -> str:
    """Return the group of a region in the price book. The price lists of 2018 and 2019 have such
    groups; empty without a group."""
    return _GROUPS.get(region.split("-", 1)[0], "")


def manual_id(key: str) -> str:
    """Return the id of a price that is entered by hand into the price book."""
    return f"{_MANUAL}{key}"


def with_discount(price: Price, discount: Discount) -> DiscountedPrice:
    """Return a price of the price book less the discount, half-even to the nano-dollar. The price
    of a chip-hour is rounded.

    The id and the source name the price and the discount, so that a charge can be traced to both.
    They do not change when the discount is ended early, as past charges do not change.
    """
    chips = CHIPS_PER_DEVICE if price.unit == DEVICE_HOUR else 1
    return DiscountedPrice(
        id=f"{price.id}{_LESS}{discount.id}",
        generation=price.generation,
        model=price.model,
        unit=price.unit,
        region=price.region,
        nanos=chips * discount.take_off(price.per_chip_hour),
        effective_from=max(price.effective_from, discount.effective_from),
        source=f"{price.source}; less {discount.percent} % ({discount.source})",
        confidence=price.confidence,
        recorded_at=max(price.recorded_at, discount.recorded_at),
        listed=price,
        discount=discount,
    )


def with_reservation(price: Price, purchase: Purchase) -> ReservedPrice:
    """Return the price of the price book for a reservation, as its nodes pay it. The id names the
    reservation, so that a charge can be traced to the purchase."""
    return ReservedPrice(
        id=f"{price.id}{_RESERVED_AS}{purchase.id}",
        generation=price.generation,
        model=price.model,
        unit=price.unit,
        region=price.region,
        nanos=price.nanos,
        effective_from=max(price.effective_from, purchase.start),
        source=f"{price.source}; in the reservation {purchase.name}",
        confidence=price.confidence,
        recorded_at=price.recorded_at,
        plain=price,
        reservation_id=purchase.id,
    )


def reservation_in(price_id: str) -> str:
    """Return the id of the reservation that the id of its price names. Empty for another price of
    the price book."""
    return price_id.partition(_RESERVED_AS)[2]


def check_price(price: Price) -> None:
    """Raise ValueError for a price that the price book must not hold: later figures would be
    wrong."""
    if price.nanos <= 0:
        raise ValueError("a price must be more than zero; leave it out if it is unknown")
    if price.unit not in (CHIP_HOUR, DEVICE_HOUR, VM_HOUR):
        raise ValueError(f"a price is per {CHIP_HOUR}, per {DEVICE_HOUR} or per {VM_HOUR}")
    if price.unit == DEVICE_HOUR and price.generation not in _DEVICE_PRICED:
        raise ValueError(f"only v2 and v3 are priced per device, not {price.generation}")
    if price.unit == DEVICE_HOUR and price.nanos % CHIPS_PER_DEVICE:
        raise ValueError("a device price must be a whole number of nano-dollars per chip")


def without_reservation(price: Price) -> Price:
    """Return the plain price in the price book for a price of a reservation; another price
    unchanged."""
    return price.plain if isinstance(price, ReservedPrice) else price


def row_of(price: Price) -> Price:
    """Return the row of the price book from which a price was made."""
    plain = without_reservation(price)
    return plain.listed if isinstance(plain, DiscountedPrice) else plain


def unpriced_in(cuts: Iterable[PriceStretch], start: int, end: int) -> int:
    """Return the seconds of [start, end) for which the price book has no price. Their cost is
    unknown, not zero."""
    return seconds_in((cut for cut in cuts if cut.price is None), start, end)


def seconds_in(cuts: Iterable[PriceStretch], start: int, end: int) -> int:
    """Return the seconds of [start, end) that lie in these stretches of a price."""
    return sum(max(0, min(end, cut.end) - max(start, cut.start)) for cut in cuts)


_Steady = tuple[list[int], list[tuple[Price | None, Price | None]]]

_MOST_STEADY = 4_096
"""SKUs whose price changes a book remembers."""


class PriceBook:
    """Effective-dated prices by SKU and instant, with their discounts.

    Immutable: a new price or discount makes a new book. `discounts` are the valid discounts, of
    which at most one applies to a price at one second. `purchases` are the valid reservations.
    """

    def __init__(
        self,
        prices: Iterable[Price],
        discounts: Iterable[Discount] = (),
        purchases: Iterable[Purchase] = (),
    ) -> None:
        self.discounts = tuple(discounts)
        self.purchases = tuple(purchases)
        self.prices = tuple(sorted(prices, key=lambda price: price.effective_from))
        series: dict[tuple[str, str, str, str], list[Price]] = defaultdict(list)
        # Prices that were entered in the same second are ordered by their ids.
        for price in sorted(
            self.prices, key=lambda price: (price.effective_from, price.recorded_at, price.id)
        ):
            key = _series_key(price.generation, price.model, price.unit, price.region)
            series[key].append(price)
        self._series = dict(series)
        self._steady: dict[Sku, _Steady] = {}
        self._starts = {
            key: [price.effective_from for price in found] for key, found in series.items()
        }

    def find_price(self, sku: Sku, instant: int) -> Price | None:
        """Return the price that is paid: the price in force less its discount. None where it is
        unknown.

        A calendar-mode reservation has its own price, or else the price that was entered for
        reserved capacity.
        """
        purchase = (
            find_purchase(self.purchases, sku.pool, sku.generation, instant) if sku.pool else None
        )
        if purchase is not None:
            listed = self.find_listed(replace(sku, model=CALENDAR), instant) or self.find_listed(
                sku, instant
            )
            return (
                None
                if listed is None
                else with_reservation(self.paid_price(listed, instant), purchase)
            )
        listed = self.find_listed(sku, instant)
        return None if listed is None else self.paid_price(listed, instant)

    def paid_price(self, listed: Price, instant: int) -> Price:
        """Return the price that is paid at that second in place of a list price."""
        series = series_of(listed.model)
        for discount in self.discounts:
            product = listed.generation, series, listed.unit
            if discount.is_in_force(instant) and _covers_product(discount, *product):
                return with_discount(listed, discount)
        return listed

    def find_listed(self, sku: Sku, instant: int) -> Price | None:
        """Return the list price in force: the region's own, or else its group's. None where it is
        unknown."""
        for region in (sku.region, group_of(sku.region)):
            key = _series_key(sku.generation, sku.model, sku.unit, region)
            index = bisect_right(self._starts.get(key, ()), instant)
            if index:
                return self._series[key][index - 1]
        return None

    def list_cuts(self, sku: Sku, start: int, end: int) -> tuple[PriceStretch, ...]:
        """Return [start, end) in stretches of one price each; none where `end` is not after
        `start`."""
        # The instants at which prices change, and between these the paid price and the list price
        # on demand. They are cached, as each interval of usage needs them.
        known = self._steady.get(sku)
        if known is None:
            on_demand = replace(sku, model=ON_DEMAND)
            instants = sorted({*self._list_changes(sku), *self._list_changes(on_demand)})
            firsts = [instants[0] - 1 if instants else 0, *instants]
            known = (
                instants,
                [(self.find_price(sku, at), self.find_listed(on_demand, at)) for at in firsts],
            )
            if len(self._steady) >= _MOST_STEADY:
                self._steady.clear()  # safe with other threads: each reads the cache only once
            self._steady[sku] = known
        changes, steady = known
        found: list[PriceStretch] = []
        number = bisect_right(changes, start)
        while start < end:
            until = min(end, changes[number]) if number < len(changes) else end
            price, listed = steady[number]
            if found and found[-1].price == price and found[-1].listed == listed:
                found[-1] = replace(found[-1], end=until)
            else:
                found.append(PriceStretch(start, until, price, listed))
            start, number = until, number + 1
        return tuple(found)

    def steady_since(self, sku: Sku, instant: int) -> int:
        """Return the instant since which the price of `instant` has been paid without a break."""
        return max((at for at in self._list_changes(sku) if at <= instant), default=instant)

    def cuts_of(self, price: Price, start: int, end: int) -> tuple[PriceStretch, ...]:
        """Return [start, end) in stretches of one price each, for the product of `price`."""
        single, is_vm = price.unit == DEVICE_HOUR, price.unit == VM_HOUR
        sku = Sku(price.generation, price.model, price.region, single, is_vm=is_vm)
        return self.list_cuts(sku, start, end)

    def in_force(self, instant: int) -> Iterator[Price]:
        """Yield the list price in force at `instant` for each generation, model, unit and
        region."""
        for key, starts in self._starts.items():
            index = bisect_right(starts, instant)
            if index:
                yield self._series[key][index - 1]

    def with_id(self, price_id: str) -> Price | None:
        """Return the price with this id: a list price, a discounted price or a price of a
        reservation. None without it."""
        plain_id, _, reservation_id = price_id.partition(_RESERVED_AS)
        if reservation_id:
            plain = self.with_id(plain_id)
            purchase = next(
                (purchase for purchase in self.purchases if purchase.id == reservation_id), None
            )
            return plain if plain is None or purchase is None else with_reservation(plain, purchase)
        listed_id, _, discount_id = price_id.partition(_LESS)
        listed = next((price for price in self.prices if price.id == listed_id), None)
        if listed is None or not discount_id:
            return listed
        for discount in self.discounts:
            if discount.id == discount_id:
                return with_discount(listed, discount)
        return None

    def _list_changes(self, sku: Sku) -> set[int]:
        instants: set[int] = set()
        if sku.pool:
            for purchase in self.purchases:
                if purchase.serves_pool(sku.pool, sku.generation):
                    instants.update((purchase.start, purchase.end))
            instants |= self._list_changes(replace(sku, model=CALENDAR, pool=""))
        for region in (sku.region, group_of(sku.region)):
            key = _series_key(sku.generation, sku.model, sku.unit, region)
            instants.update(self._starts.get(key, ()))
        for discount in self.discounts:
            if _covers_product(discount, sku.generation, series_of(sku.model), sku.unit):
                bounds = discount.effective_from, discount.effective_until
                instants.update(bound for bound in bounds if bound is not None)
        return instants


def series_of(model: str) -> str:
    """Return the series of prices of a model in the price book. Preemptible and spot capacity have
    one SKU at Google, and one series."""
    return _SHARED_SERIES.get(model, model)


def _covers_product(discount: Discount, generation: str, series: str, unit: str) -> bool:
    """Whether the discount covers the product. A discount for every generation covers TPUs only: a
    machine type has to be named."""
    if unit == VM_HOUR and not discount.generation:
        return False
    return discount.covers_series(generation, series)


def _series_key(generation: str, model: str, unit: str, region: str) -> tuple[str, str, str, str]:
    return generation, series_of(model), unit, region
