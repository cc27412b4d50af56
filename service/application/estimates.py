"""What a node would cost, before it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain import catalog, tiers, wish
from service.domain.accelerators import AcceleratorType
from service.domain.clock import HOUR, Clock
from service.domain.estimate import Offer, offers
from service.domain.node import ProvisioningModel
from service.domain.wish import Wish
from service.store.pricebook import PriceShelf
from service.store.unit import Units

_ASKED_FOR = (
    ProvisioningModel.ON_DEMAND,
    ProvisioningModel.SPOT,
    ProvisioningModel.PREEMPTIBLE,
    ProvisioningModel.RESERVED,
    ProvisioningModel.FLEX_START,
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The places where the hardware is offered, cheapest first, for a duration in seconds."""

    accelerator: AcceleratorType
    seconds: int
    offers: tuple[Offer, ...]
    as_of: int


class EstimateService:
    """Looks prices up for every place that a wish allows."""

    def __init__(self, units: Units, prices: PriceShelf, clock: Clock) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock

    def estimate(
        self, wanted: Wish, model: ProvisioningModel | None, seconds: int = HOUR
    ) -> Estimate:
        """By zone and model (where None: every model, flex-start where it is sold for so long).

        Raises Rejected as a request would.
        """
        wanted = replace(wanted, provisioning_model=model or ProvisioningModel.ON_DEMAND)
        accelerator = wish.hardware(wanted, catalog.load())
        zones = wish.candidates(wanted, accelerator, catalog.load())
        models = _ASKED_FOR if model is None else (model,)
        tiers.run_limit(tiers.Terms(wanted.provisioning_model, ttl_seconds=seconds))
        flexible = _where_flexible(accelerator, seconds)
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.book(unit)
        places = [
            (zone, str(one))
            for zone in zones
            for one in models
            if one is not ProvisioningModel.FLEX_START or zone in flexible
        ]
        return Estimate(
            accelerator, seconds, tuple(offers(accelerator, places, book, now, seconds)), now
        )


def _where_flexible(accelerator: AcceleratorType, seconds: int) -> tuple[str, ...]:
    """The zones that sell the hardware as flex-start for so long."""
    if seconds > tiers.MAX_FLEX_SECONDS:
        return ()
    return catalog.load().zones_for(accelerator, ProvisioningModel.FLEX_START)
