"""What a node would cost, before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from service.domain.budgets.budget import Budget
from service.domain.catalog import catalog, provisioning_modes
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR, Clock, rfc3339
from service.domain.errors import Rejected
from service.domain.nodes import request
from service.domain.nodes.request import RequestedNode
from service.domain.pricing import sizing
from service.domain.pricing.estimate import PriceOffer, offers
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.sizing import Need, Option
from service.store.pricebook import PriceShelf
from service.store.unit import Units

_ASKED_FOR = (
    ProvisioningModel.ON_DEMAND,
    ProvisioningModel.SPOT,
    ProvisioningModel.PREEMPTIBLE,
    ProvisioningModel.RESERVED,
    ProvisioningModel.FLEX_START,
)


_PLANNED = tuple(one for one in _ASKED_FOR if one is not ProvisioningModel.PREEMPTIBLE)
"""Preemptible is spot with a limit of 24 hours, at the same price: nobody plans with it unasked."""


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom something is estimated; what is empty was not said."""

    project: str = ""
    team: str = ""
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OfferShare:
    """What an offer would take of one budget in its present period, which ends at `ends` (UTC
    seconds). In nano-dollars: `used` is what is spent and set aside of it (None where one of its
    prices is not known), `cost` what would be added, and `held` what would be set aside for it
    (None where a price to come is not known): a node may outlive its time by as long as a deletion
    takes, at the highest price."""

    budget: Budget
    ends: int
    used: int | None
    cost: int
    held: int | None

    @property
    def left(self) -> int | None:
        """What would be left in the end; below zero where it does not fit."""
        return None if self.used is None else self.budget.amount - self.used - self.cost

    @property
    def room(self) -> int | None:
        """What would be left beside all that is set aside; None where nobody knows."""
        if self.used is None or self.held is None:
            return None
        return self.budget.amount - self.used - self.held

    @property
    def fits(self) -> bool | None:
        """Whether there is room for what would be set aside; None where nobody knows."""
        return None if self.room is None else self.room >= 0


class BudgetKeeper(Protocol):
    """Whoever keeps the budgets."""

    def share(self, caller: Caller, offer: PriceOffer, now: int) -> Sequence[OfferShare]:
        """What an offer would take of each budget that the caller spends, the tightest first."""
        ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """The places where the hardware is offered, cheapest first, for a duration in seconds.

    `shares` are of the cheapest offer whose price is known; none where nobody asked for them.
    """

    accelerator: AcceleratorType
    seconds: int
    offers: tuple[PriceOffer, ...]
    as_of: int
    shares: tuple[OfferShare, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """Of what a plan may be made: one generation, one model, some regions, or any where None.
    `deadline` is an instant in UTC seconds."""

    generation: str | None = None
    model: ProvisioningModel | None = None
    regions: tuple[str, ...] = ()
    deadline: int | None = None


@dataclass(frozen=True, slots=True)
class HardwarePlan:
    """What fits the need, best first."""

    need: Need
    options: tuple[Option, ...]
    as_of: int


class EstimateService:
    """Looks prices up for every place that a wish allows."""

    def __init__(
        self,
        units: Units,
        prices: PriceShelf,
        clock: Clock,
        shares: BudgetKeeper | None = None,
        project: str = "",
    ) -> None:
        """`project` is that of callers who name none, as it is when they ask for a node: its
        reservations are looked at, and the budgets of those who say for whom it is."""
        self._units = units
        self._prices = prices
        self._clock = clock
        self._shares = shares
        self._project = project

    def estimate(
        self,
        wanted: RequestedNode,
        model: ProvisioningModel | None,
        seconds: int = HOUR,
        caller: Caller | None = None,
    ) -> Estimate:
        """By zone and model (where None: every model, flex-start where it is sold for so long).

        Raises Rejected as a request would.
        """
        wanted = replace(wanted, provisioning_model=model or ProvisioningModel.ON_DEMAND)
        accelerator = request.hardware(wanted, catalog.load())
        zones = request.candidates(wanted, accelerator, catalog.load())
        models = _ASKED_FOR if model is None else (model,)
        provisioning_modes.run_limit(
            provisioning_modes.ProvisioningTerms(wanted.provisioning_model, ttl_seconds=seconds)
        )
        flexible = _where_flexible(accelerator, seconds)
        now = self._clock()
        places = [
            (zone, str(one))
            for zone in zones
            for one in models
            if one is not ProvisioningModel.FLEX_START or zone in flexible
        ]
        if caller is not None:
            caller = replace(caller, project=caller.project or self._project)
        project = self._project if caller is None else caller.project
        found = tuple(offers(accelerator, places, self._book(), now, seconds, project))
        return Estimate(accelerator, seconds, found, now, self._of_budgets(caller, found, now))

    def plan(self, need: Need, terms: PlanTerms) -> HardwarePlan:
        """What fits a need, and what it costs by each model at the cheapest place.

        Raises Rejected where the need makes no sense, or nothing can meet it.
        """
        now = self._clock()
        if terms.deadline is not None:
            if terms.deadline <= now:
                raise Rejected(f"the deadline has passed: it is {rfc3339(now)}", field="deadline")
            need = replace(need, available=terms.deadline - now)
        known = catalog.load()
        if terms.generation is not None:
            known.generation(terms.generation)
        options = sizing.plan(
            need,
            known.served(terms.generation),
            known.generations,
            partial(_cheapest, self._book(), terms, now, self._project),
        )
        return HardwarePlan(need, tuple(options), now)

    def _book(self) -> PriceBook:
        with self._units.reading() as unit:
            return self._prices.book(unit)

    def _of_budgets(
        self, caller: Caller | None, found: Sequence[PriceOffer], now: int
    ) -> tuple[OfferShare, ...]:
        cheapest = next((offer for offer in found if offer.cost is not None), None)
        if self._shares is None or caller is None or cheapest is None:
            return ()
        return tuple(self._shares.share(caller, cheapest, now))


def _cheapest(
    book: PriceBook,
    terms: PlanTerms,
    now: int,
    project: str,
    accelerator: AcceleratorType,
    seconds: int,
) -> list[PriceOffer]:
    """For each model its cheapest offer of a type, where it is sold that way for so long, or is
    reserved."""
    models = _PLANNED if terms.model is None else (terms.model,)
    within = catalog.load().zones_in(terms.regions) if terms.regions else None
    found: list[PriceOffer] = []
    for model in models:
        zones = _sold_in(accelerator, model, seconds)
        places = [(zone, str(model)) for zone in zones if within is None or zone in within]
        cheapest = offers(accelerator, places, book, now, seconds, project)[:1]
        found += [one for one in cheapest if one.seconds == seconds]
    return found


def _sold_in(
    accelerator: AcceleratorType, model: ProvisioningModel, seconds: int
) -> tuple[str, ...]:
    if model is ProvisioningModel.FLEX_START:
        return _where_flexible(accelerator, seconds)
    return catalog.load().zones_for(accelerator, model)


def _where_flexible(accelerator: AcceleratorType, seconds: int) -> tuple[str, ...]:
    """The zones that sell the hardware as flex-start for so long."""
    if seconds > provisioning_modes.MAX_FLEX_SECONDS:
        return ()
    return catalog.load().zones_for(accelerator, ProvisioningModel.FLEX_START)
