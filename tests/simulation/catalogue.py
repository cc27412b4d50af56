"""The cloud's price list: it changes now and then, and the service adds what it says to its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from sqlalchemy import Engine

from service.cloud.google.prices import GooglePrices, catalog_client
from service.cloud.google.retries import ONCE
from service.cloud.ports import PriceFeed
from service.domain.billing_period import open_since
from service.domain.clock import HOUR, parse_rfc3339, to_rfc3339
from service.domain.errors import CloudError
from service.domain.lease import Lease
from service.domain.pricing.price_book import Price, group_of
from service.domain.pricing.shipped_prices import embedded_prices
from service.domain.pricing.skus import PriceTier, SkuFacts, read_skus
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.world.world import World
from service.store.unit import Unit
from tests.simulation.clock import Agenda
from tests.simulation.crash_points import CrashPoints, SeamedUnits
from tests.simulation.invariants import Violation
from tests.simulation.reference_ledger import Ware

PRICES_SECONDS = 900
"""How often a daemon reads it."""
DUE_SECONDS = PRICES_SECONDS // 3
"""How often a daemon asks whether that is due."""
READ_SECONDS = PRICES_SECONDS + DUE_SECONDS + 60
"""Within that a daemon that nothing happens to has read it, and written down what it says."""
LATE_SECONDS = (0, 0, 60, 1_200)
"""How long after it counts a price may be published."""
CHANGED_AT_ONCE = 40


@dataclass
class Catalogue:
    """What the cloud publishes, and what a daemon may have written down of it."""

    agenda: Agenda
    world: World
    luck: Random
    per_hour: float
    entered: list[Price]
    """By hand, and by daemons from here: each that was published is added."""
    _changed: dict[str, SkuFacts] = field(default_factory=dict)
    _said: set[tuple[str, str, int]] = field(default_factory=set)
    """The id of a SKU, since when and at how many nano-dollars: all that was ever published."""

    def begin(self, hours: float) -> None:
        """Prices change from now on, for so long."""
        when = self.luck.expovariate(self.per_hour) if self.per_hour else hours
        while when < hours:
            self.agenda.after(when * HOUR, self._change)
            when += self.luck.expovariate(self.per_hour)

    def feed(self, seams: CrashPoints) -> PriceFeed:
        """The list, as a daemon reads it."""
        return SeamedFeed(self, seams)

    def list_skus(self) -> list[SkuFacts]:
        """What it says now."""
        channel = LocalChannel(self.world, self.agenda.pass_)
        facts = [
            self._changed.get(sku.id, sku)
            for sku in GooglePrices(catalog_client(channel), ONCE).list_skus()
        ]
        for quote in read_skus(facts).quotes:
            self._said.add((quote.sku_id, to_rfc3339(quote.effective_at), quote.nanos))
        return facts

    def check(self, price: Price) -> None:
        """A price that a daemon adds was published, and counts from when that said, or from now."""
        now, told = self.agenda.seconds(), price.id.split("/")
        if (told[1], told[3], price.nanos) not in self._said:
            raise Violation(f"the price {price.id} was never published")
        since = max(parse_rfc3339(told[3]), open_since(now))
        is_superseded = any(since < other.effective_from for other in self._of(_ware(price)))
        if price.effective_from != since and not (is_superseded and price.effective_from <= now):
            raise Violation(f"{price.id} counts from {to_rfc3339(price.effective_from)} on")
        self.entered.append(price)

    def at_rest(self) -> None:
        """What it says is what is charged, unless somebody entered another price since."""
        if unread := self.find_unread():
            raise Violation(unread)

    def find_unread(self) -> str:
        """A price that it says and that is not charged, in words; else empty."""
        if not self.per_hour:
            return ""
        now = self.agenda.seconds()
        for quote in read_skus(self.list_skus()).quotes:
            sku = quote.sku
            ware = Ware(sku.generation, sku.model, sku.unit, sku.region)
            known = [price for price in self._of(ware) if price.effective_from <= now]
            latest = max(known, key=lambda one: one.effective_from, default=None)
            if latest is None or (not latest.is_manual and latest.nanos != quote.nanos):
                return f"{quote} was published, and {latest} is charged"
        return ""

    def _of(self, ware: Ware) -> list[Price]:
        regions = {ware.region, group_of(ware.region)}
        return [
            price
            for price in (*embedded_prices(), *self.entered)
            if price.region in regions and _ware(price)[:3] == ware[:3]
        ]

    def _change(self) -> None:
        try:
            known = self.list_skus()
        except CloudError:
            return  # a storm is on: it is not published today
        since = self.agenda.seconds() - self.luck.choice(LATE_SECONDS)
        for facts in self.luck.sample(known, min(CHANGED_AT_ONCE, len(known))):
            nanos = self.luck.randint(1, 999_999_999)
            tiers = tuple(
                PriceTier(tier.starts_at, tier.currency, self.luck.randint(0, 3), nanos)
                for tier in facts.tiers
            )
            self._changed[facts.id] = replace(facts, tiers=tiers, effective_at=since)


@dataclass
class SeamedFeed:
    """The list, to be read at the same risk as everything of the cloud."""

    catalogue: Catalogue
    seams: CrashPoints

    def list_skus(self) -> Sequence[SkuFacts]:
        facts: Sequence[SkuFacts] = self.seams.call("skus", self.catalogue.list_skus)
        return facts


class CatalogueUnits(SeamedUnits):
    """Units of work of which the prices that they write down are known."""

    def __init__(self, engine: Engine, seams: CrashPoints, catalogue: Catalogue) -> None:
        super().__init__(engine, seams, lambda *_: self._tell())
        self._catalogue = catalogue
        self._added: list[Price] = []

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        self._added = []
        with super().__call__(lease) as unit:
            add = unit.prices.add_from_feed
            known: set[str] | None = None

            def adding(price: Price) -> None:
                nonlocal known
                if known is None:
                    known = {price.id for price in unit.prices.list_all()}
                add(price)
                if price.id not in known:
                    self._added.append(price)

            unit.prices.add_from_feed = adding  # type: ignore[method-assign]
            yield unit

    def _tell(self) -> None:
        for price in self._added:
            self._catalogue.check(price)


def _ware(price: Price) -> Ware:
    return Ware(price.generation, price.model, price.unit, price.region)
