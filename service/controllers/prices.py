"""Brings the price book to what the cloud's price list says; it only ever adds to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import structlog

from service.cloud.ports import PriceFeed
from service.domain.clock import DAY, Clock, rfc3339
from service.domain.lease import Lease
from service.domain.money import usd
from service.domain.pricing.feed import Change, changes
from service.domain.pricing.skus import SkusRead, read
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

log = structlog.get_logger()

MAX_TOLD = 50
"""So many SKUs that are not understood are named one by one; all are counted."""


class PricesController:
    """Prices are of no project: whichever lease comes first reads the list for all of them.

    Read twice, by this daemon or by two, it adds nothing the second time.
    """

    name = "prices"

    def __init__(
        self, units: Units, feed: PriceFeed, prices: PriceShelf, clock: Clock, every: int = DAY
    ) -> None:
        self._units = units
        self._feed = feed
        self._prices = prices
        self._clock = clock
        self._every = every
        self._read_at: int | None = None

    def tick(self, lease: Lease) -> None:
        """Read the list if that was not done for `every` seconds. What fails is due at once."""
        began = self._clock()
        if self._read_at is not None and began < self._read_at + self._every:
            return
        reading = read(self._feed.skus())
        with self._units(lease) as unit:
            unit.prices.take_turns()  # with those who enter prices by hand
            found = changes(self._prices.book(unit), reading.quotes, self._clock())
            _write(unit, found)
        self._read_at = began
        _tell(reading, found)


def _write(unit: Unit, found: Sequence[Change]) -> None:
    """Add what is new, and have what ran since then posted at the new prices."""
    since: dict[str, int] = {}
    for change in found:
        price = change.price
        unit.prices.add_from_feed(price)
        since[price.generation] = min(
            price.effective_from, since.get(price.generation, price.effective_from)
        )
    unit.usage.reconsider(since)


def _tell(reading: SkusRead, found: Sequence[Change]) -> None:
    for change in found:
        price, before = change.price, change.before
        if before is None:
            continue  # that a gap was filled is told by their number: at first there are many
        log.info(
            "price.changed",
            generation=price.generation,
            provisioning_model=price.model,
            region=price.region,
            unit=price.unit,
            usd=usd(price.nanos),
            usd_before=usd(before.nanos),
            effective_from=rfc3339(price.effective_from),
            source=price.source,
            replaces_manual=before.is_manual,
        )
    for one in reading.refused[:MAX_TOLD]:
        log.warning(
            "price.not_understood", sku=one.sku_id, description=one.description, reason=one.reason
        )
    tell = log.info if reading.quotes else log.warning
    tell(
        "prices.read",
        understood=len(reading.quotes),
        changed=sum(change.before is not None for change in found),
        new=sum(change.before is None for change in found),
        sold_in_other_ways=dict(Counter(one.reason for one in reading.look_alikes)),
        not_understood=len(reading.refused),
    )
