"""Posts to the ledger what every closed hour should say and does not yet."""

from __future__ import annotations

from service.controllers.posting import post, post_unused
from service.domain.clock import HOUR, Clock, floor_to
from service.domain.lease import Lease
from service.store.pricebook import PriceShelf
from service.store.unit import Units

BATCH = 200


class MeteringController:
    """Running twice posts nothing; missing ten ticks posts the same."""

    name = "metering"

    def __init__(self, units: Units, prices: PriceShelf, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock

    def tick(self, lease: Lease) -> None:
        """Post in batches until nothing is left to post."""
        while self._post_some(lease) == BATCH:
            pass
        self._post_unused(lease)

    def _post_some(self, lease: Lease) -> int:
        now = self._clock()
        with self._units(lease) as unit:
            book = self._prices.book(unit)
            due = unit.usage.to_post(lease.project, floor_to(now, HOUR), BATCH)
            for usage in due:
                post(unit, usage, book, now)
        return len(due)

    def _post_unused(self, lease: Lease) -> None:
        """Of reservations, once what ran in them is posted."""
        now = self._clock()
        closed_hour = floor_to(now, HOUR)
        with self._units.reading() as unit:
            if not unit.usage.purchases_to_post(lease.project, closed_hour):
                return
        with self._units(lease) as unit:
            book = self._prices.book(unit)
            for bought in unit.usage.purchases_to_post(lease.project, closed_hour):
                post_unused(unit, bought, book, now)
