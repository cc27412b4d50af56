"""Everything that callers may ask, in one hand."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.capacity import CapacityService
from service.application.costs import CostService
from service.application.estimates import EstimateService
from service.application.health import HealthService
from service.application.nodes import NodeService
from service.application.orphans import OrphanService
from service.application.prices import PriceService
from service.application.quotas import QuotaService


@dataclass(frozen=True, slots=True)
class Services:
    """What the API and the dashboard are built on."""

    nodes: NodeService
    costs: CostService
    estimates: EstimateService
    prices: PriceService
    capacity: CapacityService
    quotas: QuotaService
    orphans: OrphanService
    health: HealthService
