"""Adds to the price book what the cloud's price list says; nothing is ever removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import structlog

from service.cloud.ports import PriceFeed
from service.domain.clock import DAY, Clock, to_rfc3339
from service.domain.lease import Lease
from service.domain.money import format_usd
from service.domain.pricing.feed import Change, find_changes
from service.domain.pricing.skus import SkusRead, read_skus
from service.store.pricebook import PriceBookCache
from service.store.unit import Units

log = structlog.get_logger()

MAX_TOLD = 50
"""Most SKUs that are logged one by one when they are not understood; all are counted."""


class PricesController:
    """Prices belong to no project: the first tick under any lease reads the list for all projects.

    A second read, by this daemon or another, adds nothing.
    """

    name = "prices"

    def __init__(
        self, units: Units, feed: PriceFeed, prices: PriceBookCache, clock: Clock, every: int = DAY
    ) -> None:
        self._units = units
        self._feed = feed
        self._prices = prices
        self._clock = clock
        self._every = every
        self._read_at: int | None = None

    def tick(self, lease: Lease) -> None:
        """Read the list if the last read was `every` seconds ago. A failed read is due at once."""
        began = self._clock()
        if self._read_at is not None and began < self._read_at + self._every:
            return
        reading = read_skus(self._feed.list_skus())
        with self._units(lease) as unit:
            unit.prices.lock_until_commit()  # with people who enter prices by hand
            found = find_changes(self._prices.get_book(unit), reading.quotes, self._clock())
            since: dict[str, int] = {}  # usage of a generation from here on is posted again
            for change in found:
                price = change.price
                unit.prices.add_from_feed(price)
                since[price.generation] = min(
                    price.effective_from, since.get(price.generation, price.effective_from)
                )
            unit.usage.mark_dirty(since)
        self._read_at = began
        _log_changes(reading, found)


def _log_changes(reading: SkusRead, found: Sequence[Change]) -> None:
    for change in found:
        price, before = change.price, change.before
        if before is None:
            continue  # new prices are only counted: the first read has many
        log.info(
            "price.changed",
            generation=price.generation,
            provisioning_model=price.model,
            region=price.region,
            unit=price.unit,
            usd=format_usd(price.nanos),
            usd_before=format_usd(before.nanos),
            effective_from=to_rfc3339(price.effective_from),
            source=price.source,
            replaces_manual=before.is_manual,
        )
    for sku in reading.refused[:MAX_TOLD]:
        log.warning(
            "price.not_understood", sku=sku.sku_id, description=sku.description, reason=sku.reason
        )
    write = log.info if reading.quotes else log.warning
    write(
        "prices.read",
        understood=len(reading.quotes),
        changed=sum(change.before is not None for change in found),
        new=sum(change.before is None for change in found),
        sold_in_other_ways=dict(Counter(sku.reason for sku in reading.look_alikes)),
        not_understood=len(reading.refused),
    )
