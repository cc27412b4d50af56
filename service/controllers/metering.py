"""Posts to the ledger what is missing for every closed hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from service.controllers.recording.posting import post_unused, post_usage
from service.domain.clock import HOUR, Clock, floor_to
from service.domain.errors import StaleVersion, StewardError
from service.domain.lease import Lease
from service.domain.metering.meter import Usage
from service.domain.pricing.price_book import PriceBook
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

BATCH = 200

ASIDE_SECONDS = 900
"""Seconds until an interval that cannot be posted is tried again."""

log = structlog.get_logger()

Poster = Callable[[Unit, Usage, PriceBook, int], object]
"""Posts what is missing for an interval, as of an instant."""


class MeteringController:
    """Running twice posts nothing; missing ten ticks posts the same."""

    name = "metering"

    def __init__(self, units: Units, prices: PriceBookCache, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock

    def tick(self, lease: Lease) -> None:
        """Post usage in batches until nothing is left, then the unused part of reservations.

        An interval that cannot be posted is set aside, so each batch holds other intervals.
        """
        while self._post_batch(lease) == BATCH:
            pass
        now = self._clock()
        with self._units.reading() as unit:
            purchases = unit.usage.list_purchases_to_post(lease.project, floor_to(now, HOUR))
        for purchase in purchases:
            self._post_alone(post_unused, purchase, lease, now)

    def _post_batch(self, lease: Lease) -> int:
        """Post the next intervals in one transaction; returns their number."""
        now = self._clock()
        due: Sequence[Usage] = ()
        try:
            with self._units(lease) as unit:
                due = unit.usage.list_to_post(lease.project, now, BATCH)
                book = self._prices.get_book(unit)  # a later price waits for the locked usage
                for usage in due:
                    post_usage(unit, usage, book, now)
        except StewardError:
            raise  # every other interval would fail too
        except Exception:
            log.exception("metering.batch_failed", project=lease.project)
            for usage in due:
                self._post_alone(post_usage, usage, lease, now)
        return len(due)

    def _post_alone(self, poster: Poster, usage: Usage, lease: Lease, now: int) -> None:
        """Post one interval in a transaction of its own. The interval is read again, because
        posting another interval may have changed it."""
        try:
            with self._units(lease) as unit:
                poster(unit, unit.usage.get(usage.id), self._prices.get_book(unit), now)
        except StaleVersion as error:
            log.info("metering.overtaken", usage_id=usage.id, reason=str(error))
        except StewardError:
            raise  # every other interval would fail too
        except Exception:  # one poisoned interval must not starve the others
            log.exception("metering.failed", usage_id=usage.id, of=usage.node_id)
            # If another writer was first, the next tick reads the interval again.
            with suppress(StaleVersion), self._units(lease) as unit:
                unit.usage.set_aside(unit.usage.get(usage.id), now + ASIDE_SECONDS)
