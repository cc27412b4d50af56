"""How the fleet stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.clock import Clock
from service.domain.metering.line_items import lines_of
from service.domain.metering.meter import Usage
from service.domain.pricing.estimate import hourly
from service.domain.pricing.price_book import PriceBook, ReservedPrice
from service.store.fleet_counts import FleetCount, OverdueDeletion
from service.store.pricebook import PriceShelf
from service.store.revisions import Revision
from service.store.unit import Unit, Units

STALE_SECONDS = 120
"""After so long without a look at the cloud, what is shown may no longer be so."""


@dataclass(frozen=True, slots=True)
class ProjectLook:
    """When a project was last looked at as a whole (0: never), and who is in charge of it."""

    project: str
    looked_at: int
    holder: str


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """The fleet as of now. `burn` is nano-dollars an hour for what is READY and priced, and for the
    reservations that are paid whatever runs in them, of which there are `reserved`; `unused` is the
    part of it that is paid for reserved chips which no node uses; `unpriced` the
    nodes that are READY with unknown price, `unpriced_vms` such VMs of their users,
    `unpriced_reserved` such reservations; `overdue` the deletions that do not end; `aside` the
    intervals of usage that could not be posted to the ledger, and are tried again later."""

    counts: Sequence[FleetCount]
    ready: int
    chips: int
    burn: int
    reserved: int
    unpriced: int
    overdue: int
    sights: Sequence[ProjectLook]
    as_of: int
    unpriced_reserved: int = 0
    unpriced_vms: int = 0
    aside: int = 0
    unused: int = 0

    @property
    def stale(self) -> bool:
        """Whether any project has gone unseen for too long, or has nobody in charge."""
        return any(
            not sight.holder or self.as_of - sight.looked_at > STALE_SECONDS
            for sight in self.sights
        )


@dataclass(frozen=True, slots=True)
class OverviewStamp:
    """All that the first page depends on. Two pages with the same stamp are the same page."""

    now: int
    revision: Revision
    sights: tuple[ProjectLook, ...]


@dataclass(frozen=True, slots=True)
class LateDeletion:
    """A deletion that does not come to its end. `hourly` is nano-dollars an hour for what is still
    billed of it, 0 where nothing is; None where nobody knows the price."""

    overdue: OverdueDeletion
    hourly: int | None


class HealthService:
    """Answers gauges and the dashboard; none of it calls the cloud."""

    def __init__(
        self,
        units: Units,
        prices: PriceShelf,
        clock: Clock,
        projects: Sequence[str],
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = tuple(projects)

    def fleet(self) -> FleetHealth:
        """How many nodes are in which state, and what they burn."""
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.book(unit)
            counts = unit.fleet.counts()
            sights = self._sights(unit)
            running, bought = unit.fleet.running(), unit.usage.purchases(now)
            overdue, aside = unit.fleet.overdue_number(), unit.usage.aside_number()
        burn = bought_rate = used = reserved = 0
        unpriced = unpriced_vms = unpriced_reserved = 0
        for one in running:
            price = book.at(one.sku, now)
            tpus = hourly(one.chips, price)
            vms = None if one.vm is None else hourly(one.vms, book.at(one.vm, now))
            burn += (tpus or 0) + (vms or 0)
            used += (tpus or 0) if isinstance(price, ReservedPrice) else 0
            unpriced += one.nodes if tpus is None else 0
            unpriced_vms += one.vms if vms is None else 0
        for usage in bought:
            if usage.start <= now < usage.until(now + 1) and not usage.free:
                rate = hourly(usage.chips, book.at(usage.sku, now))
                reserved, unpriced_reserved = reserved + 1, unpriced_reserved + (rate is None)
                bought_rate += rate or 0
        unused = max(0, bought_rate - used)
        return FleetHealth(
            counts=counts,
            ready=sum(one.nodes for one in running),
            chips=sum(one.chips for one in running),
            burn=burn + unused,
            reserved=reserved,
            unpriced=unpriced,
            overdue=overdue,
            sights=sights,
            as_of=now,
            unpriced_reserved=unpriced_reserved,
            unpriced_vms=unpriced_vms,
            aside=aside,
            unused=unused,
        )

    def stamp(self) -> OverviewStamp:
        """What second it is, how often everything was written, and who looks at the cloud."""
        with self._units.reading() as unit:
            sights = self._sights(unit)
            return OverviewStamp(self._clock(), unit.revisions.now(), tuple(sights))

    def _sights(self, unit: Unit) -> list[ProjectLook]:
        return [ProjectLook(project, *unit.leases.sight(project)) for project in self._projects]

    def overdue(self, limit: int) -> tuple[int, Sequence[LateDeletion]]:
        """How many deletions do not come to their end, and the oldest of them."""
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.book(unit)
            number, found = unit.fleet.overdue(limit)
            return number, [
                LateDeletion(one, _hourly(book, unit.usage.running_of(one.node_id), now))
                for one in found
            ]


def _hourly(book: PriceBook, running: Sequence[Usage], now: int) -> int | None:
    lines = (line for one in running for line in lines_of(one))
    rates = [hourly(one.units, book.at(one.sku, now)) for one in lines]
    return None if None in rates else sum(rate or 0 for rate in rates)
