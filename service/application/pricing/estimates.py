"""What a node would cost, before it is requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from service.domain.budgets.budget import Budget
from service.domain.catalog import catalog, provisioning_modes
from service.domain.catalog.accelerators import AcceleratorType
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR, Clock, to_rfc3339
from service.domain.errors import Rejected
from service.domain.nodes import request
from service.domain.nodes.request import RequestedNode
from service.domain.pricing import sizing
from service.domain.pricing.estimate import PriceOffer, list_offers
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.sizing import Need, Option
from service.store.pricebook import PriceBookCache
from service.store.unit import Units

_ASKED_FOR = (
    ProvisioningModel.ON_DEMAND,
    ProvisioningModel.SPOT,
    ProvisioningModel.PREEMPTIBLE,
    ProvisioningModel.RESERVED,
    ProvisioningModel.FLEX_START,
)


_PLANNED = tuple(model for model in _ASKED_FOR if model is not ProvisioningModel.PREEMPTIBLE)
"""Preemptible is spot with a limit of 24 hours, at the same price: plans contain it only on
request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The payer that an estimate is for; empty fields were not given."""

    project: str = ""
    team: str = ""
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OfferShare:
    """What an offer would take of one budget in its current period, which ends at `ends` (UTC
    seconds). In nano-dollars: `used` is what is spent and set aside of it (None if one of its
    prices is unknown), `cost` is what would be added. `held` is what would be set aside (None if a
    future price is unknown): a node may outlive its time by as long as a deletion takes, at the
    highest price."""

    budget: Budget
    ends: int
    used: int | None
    cost: int
    held: int | None

    @property
    def left(self) -> int | None:
        """What would be left of the budget at the end; below zero if the offer does not fit."""
        return None if self.used is None else self.budget.amount - self.used - self.cost

    @property
    def room(self) -> int | None:
        """What would be left beside everything that is set aside; None if that is unknown."""
        if self.used is None or self.held is None:
            return None
        return self.budget.amount - self.used - self.held

    @property
    def fits(self) -> bool | None:
        """Whether there is room for what would be set aside; None if that is unknown."""
        return None if self.room is None else self.room >= 0


class BudgetKeeper(Protocol):
    """Knows the budgets of a caller."""

    def list_shares(self, caller: Caller, offer: PriceOffer, now: int) -> Sequence[OfferShare]:
        """What an offer would take of each budget that covers the caller, the tightest first."""
        ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """The offers of the hardware by place, cheapest first, for a duration in seconds and for all
    `slices` together.

    `shares` are of the cheapest offer with a known price; empty unless they were requested.
    """

    accelerator: AcceleratorType
    seconds: int
    offers: tuple[PriceOffer, ...]
    as_of: int
    shares: tuple[OfferShare, ...] = ()
    slices: int = 1


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """The limits of a plan: one generation, one model, some regions, or any if None. `deadline` is
    an instant in UTC seconds."""

    generation: str | None = None
    model: ProvisioningModel | None = None
    regions: tuple[str, ...] = ()
    deadline: int | None = None


@dataclass(frozen=True, slots=True)
class HardwarePlan:
    """The hardware that fits the need, best first."""

    need: Need
    options: tuple[Option, ...]
    as_of: int


class EstimateService:
    """Looks up the prices of every place that a request allows."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        shares: BudgetKeeper | None = None,
        project: str = "",
    ) -> None:
        """`project` is that of callers who name none, as for requests: its reservations are looked
        at, and the budgets of the payer."""
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
        """The offers of all slices by zone and model (None: every model, flex-start if it is sold
        for so long).

        Raises Rejected as a request would.
        """
        wanted = replace(wanted, provisioning_model=model or ProvisioningModel.ON_DEMAND)
        accelerator = request.resolve_hardware(wanted, catalog.load_catalog())
        zones = request.candidate_zones(wanted, accelerator, catalog.load_catalog())
        models = _ASKED_FOR if model is None else (model,)
        provisioning_modes.run_limit(
            provisioning_modes.ProvisioningTerms(wanted.provisioning_model, ttl_seconds=seconds)
        )
        flexible = _where_flexible(accelerator, seconds)
        now = self._clock()
        places = [
            (zone, str(model))
            for zone in zones
            for model in models
            if model is not ProvisioningModel.FLEX_START or zone in flexible
        ]
        if caller is not None:
            caller = replace(caller, project=caller.project or self._project)
        project = self._project if caller is None else caller.project
        whole = replace(accelerator, chips=accelerator.chips * wanted.slices)
        found = tuple(list_offers(whole, places, self._read_book(), now, seconds, project))
        shares: tuple[OfferShare, ...] = ()
        cheapest = next((offer for offer in found if offer.cost is not None), None)
        if self._shares is not None and caller is not None and cheapest is not None:
            shares = tuple(self._shares.list_shares(caller, cheapest, now))
        return Estimate(accelerator, seconds, found, now, shares, wanted.slices)

    def plan_hardware(self, need: Need, terms: PlanTerms) -> HardwarePlan:
        """The hardware that fits a need, and its cost by model at the cheapest place.

        Raises Rejected for an invalid need, or if nothing can meet it.
        """
        now = self._clock()
        if terms.deadline is not None:
            if terms.deadline <= now:
                raise Rejected(
                    f"the deadline has passed: it is {to_rfc3339(now)}", field="deadline"
                )
            need = replace(need, available=terms.deadline - now)
        known = catalog.load_catalog()
        if terms.generation is not None:
            known.get_generation(terms.generation)
        options = sizing.list_options(
            need,
            known.list_served(terms.generation),
            known.generations,
            partial(_list_cheapest, self._read_book(), terms, now, self._project),
        )
        return HardwarePlan(need, tuple(options), now)

    def _read_book(self) -> PriceBook:
        with self._units.reading() as unit:
            return self._prices.get_book(unit)


def _list_cheapest(
    book: PriceBook,
    terms: PlanTerms,
    now: int,
    project: str,
    accelerator: AcceleratorType,
    seconds: int,
) -> list[PriceOffer]:
    """The cheapest offer of a type for each model, if the model is sold for so long or is
    reserved."""
    models = _PLANNED if terms.model is None else (terms.model,)
    within = catalog.load_catalog().zones_in(terms.regions) if terms.regions else None
    found: list[PriceOffer] = []
    for model in models:
        zones = (
            _where_flexible(accelerator, seconds)
            if model is ProvisioningModel.FLEX_START
            else catalog.load_catalog().zones_for(accelerator, model)
        )
        places = [(zone, str(model)) for zone in zones if within is None or zone in within]
        cheapest = list_offers(accelerator, places, book, now, seconds, project)[:1]
        found += [offer for offer in cheapest if offer.seconds == seconds]
    return found


def _where_flexible(accelerator: AcceleratorType, seconds: int) -> tuple[str, ...]:
    """The zones that sell the hardware as flex-start for so long."""
    if seconds > provisioning_modes.MAX_FLEX_SECONDS:
        return ()
    return catalog.load_catalog().zones_for(accelerator, ProvisioningModel.FLEX_START)
