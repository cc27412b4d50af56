"""Posts to the ledger what every closed hour should say and does not yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from service.controllers.recording.posting import post, post_unused
from service.domain.clock import HOUR, Clock, floor_to
from service.domain.errors import StaleVersion, StewardError
from service.domain.lease import Lease
from service.domain.metering.meter import Usage
from service.domain.pricing.price_book import PriceBook
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

BATCH = 200

ASIDE_SECONDS = 900
"""An interval that cannot be posted is tried again so much later."""

log = structlog.get_logger()

Poster = Callable[[Unit, Usage, PriceBook, int], object]
"""Posts what is missing of an interval, as of an instant."""


class MeteringController:
    """Running twice posts nothing; missing ten ticks posts the same."""

    name = "metering"

    def __init__(self, units: Units, prices: PriceShelf, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock

    def tick(self, lease: Lease) -> None:
        """Post in batches until nothing is left to post. What cannot be posted is set aside, so
        each batch holds others."""
        while self._post_some(lease) == BATCH:
            pass
        self._post_unused(lease)

    def _post_some(self, lease: Lease) -> int:
        """Post of the nodes that are next; answers how many were."""
        now = self._clock()
        due: Sequence[Usage] = ()
        try:
            with self._units(lease) as unit:
                due = unit.usage.to_post(lease.project, now, BATCH)
                book = self._prices.book(unit)  # a price that comes later waits for what is locked
                for usage in due:
                    post(unit, usage, book, now)
        except StewardError:
            raise  # nothing else would fare better
        except Exception:
            log.exception("metering.batch_failed", project=lease.project)
            for usage in due:
                self._apart(post, usage, lease, now)
        return len(due)

    def _post_unused(self, lease: Lease) -> None:
        """Of reservations, once what ran in them is posted."""
        now = self._clock()
        with self._units.reading() as unit:
            due = unit.usage.purchases_to_post(lease.project, floor_to(now, HOUR))
        for bought in due:
            self._apart(post_unused, bought, lease, now)

    def _apart(self, poster: Poster, usage: Usage, lease: Lease, now: int) -> None:
        """Post one interval in a transaction of its own. It is read again, as an interval that was
        posted before it may have changed it."""
        try:
            with self._units(lease) as unit:
                poster(unit, unit.usage.get(usage.id), self._prices.book(unit), now)
        except StaleVersion as error:
            log.info("metering.overtaken", usage_id=usage.id, reason=str(error))
        except StewardError:
            raise  # nothing else would fare better
        except Exception:  # one that is poisoned must not keep the others from their turn
            log.exception("metering.failed", usage_id=usage.id, of=usage.node_id)
            self._set_aside(usage, lease, now)

    def _set_aside(self, usage: Usage, lease: Lease, now: int) -> None:
        try:
            with self._units(lease) as unit:
                unit.usage.set_aside(unit.usage.get(usage.id), now + ASIDE_SECONDS)
        except StaleVersion:
            """Another writer was first; the next tick tries the interval as it is then."""
