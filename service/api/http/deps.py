"""What routes ask for: the services, and the headers that several of them read."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header, Request

from service.application.budgets.budgets import BudgetService
from service.application.cleanup.cleanup import CleanupService
from service.application.cleanup.heartbeats import HeartbeatService
from service.application.cleanup.keeps import KeepService
from service.application.cleanup.policies import PolicyService
from service.application.costs.costs import CostService
from service.application.costs.explanations import ExplanationService
from service.application.costs.exports import ExportService
from service.application.costs.forecasts import ForecastService
from service.application.costs.statements import StatementService
from service.application.health import HealthService
from service.application.jobs.jobs import JobService
from service.application.nodes.nodes import NodeService
from service.application.orphans import OrphanService
from service.application.placement.capacity import CapacityService
from service.application.placement.quotas import QuotaService
from service.application.pricing.commitments import CommitmentService
from service.application.pricing.estimates import EstimateService
from service.application.pricing.prices import PriceService
from service.application.pricing.recommendations import RecommendationService
from service.application.pricing.reservations import ReservationService
from service.application.reconciliations import ReconciliationService
from service.application.services import Services
from service.domain.errors import Rejected, StaleVersion

_TAG = re.compile(r'(?:W/)?"([^"]{1,40})"')


def services_of(request: Request) -> Services:
    """The services that the app was made with."""
    found: Services = request.app.state.services
    return found


# Asynchronous although they wait for nothing: a plain function would cost a thread each.


async def _nodes(request: Request) -> NodeService:
    return services_of(request).nodes


async def _jobs(request: Request) -> JobService:
    return services_of(request).jobs


async def _costs(request: Request) -> CostService:
    return services_of(request).costs


async def _explanations(request: Request) -> ExplanationService:
    return services_of(request).explanations


async def _statements(request: Request) -> StatementService:
    return services_of(request).statements


async def _estimates(request: Request) -> EstimateService:
    return services_of(request).estimates


async def _exports(request: Request) -> ExportService:
    return services_of(request).exports


async def _forecasts(request: Request) -> ForecastService:
    return services_of(request).forecasts


async def _prices(request: Request) -> PriceService:
    return services_of(request).prices


async def _budgets(request: Request) -> BudgetService:
    return services_of(request).budgets


async def _cleanup(request: Request) -> CleanupService:
    return services_of(request).cleanup


async def _heartbeats(request: Request) -> HeartbeatService:
    return services_of(request).heartbeats


async def _keeps(request: Request) -> KeepService:
    return services_of(request).keeps


async def _policies(request: Request) -> PolicyService:
    return services_of(request).policies


async def _health(request: Request) -> HealthService:
    return services_of(request).health


async def _capacity(request: Request) -> CapacityService:
    return services_of(request).capacity


async def _quotas(request: Request) -> QuotaService:
    return services_of(request).quotas


async def _reconciliations(request: Request) -> ReconciliationService:
    return services_of(request).reconciliations


async def _recommendations(request: Request) -> RecommendationService:
    return services_of(request).recommendations


async def _reservations(request: Request) -> ReservationService:
    return services_of(request).reservations


async def _commitments(request: Request) -> CommitmentService:
    return services_of(request).commitments


async def _orphans(request: Request) -> OrphanService:
    return services_of(request).orphans


async def _version(
    if_match: Annotated[
        str | None,
        Header(
            max_length=80,
            description="The `ETag` of the resource as last read; 412 if it has changed since.",
            examples=['"3"'],
        ),
    ] = None,
) -> int | None:
    """The version that the caller saw; None when any will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None:
        raise Rejected(
            'If-Match must be an ETag from a response, such as "3", or *', field="If-Match"
        )
    if not (tag[1].isascii() and tag[1].isdigit()):
        raise StaleVersion(f"this resource never had the ETag {tag[1]!r}")
    return int(tag[1])


JobsDep = Annotated[JobService, Depends(_jobs)]
NodesDep = Annotated[NodeService, Depends(_nodes)]
ExplanationsDep = Annotated[ExplanationService, Depends(_explanations)]
StatementsDep = Annotated[StatementService, Depends(_statements)]
CostsDep = Annotated[CostService, Depends(_costs)]
EstimatesDep = Annotated[EstimateService, Depends(_estimates)]
ExportsDep = Annotated[ExportService, Depends(_exports)]
ForecastsDep = Annotated[ForecastService, Depends(_forecasts)]
PricesDep = Annotated[PriceService, Depends(_prices)]
BudgetsDep = Annotated[BudgetService, Depends(_budgets)]
HealthDep = Annotated[HealthService, Depends(_health)]
CapacityDep = Annotated[CapacityService, Depends(_capacity)]
CleanupDep = Annotated[CleanupService, Depends(_cleanup)]
HeartbeatsDep = Annotated[HeartbeatService, Depends(_heartbeats)]
KeepsDep = Annotated[KeepService, Depends(_keeps)]
PoliciesDep = Annotated[PolicyService, Depends(_policies)]
QuotasDep = Annotated[QuotaService, Depends(_quotas)]
ReconciliationsDep = Annotated[ReconciliationService, Depends(_reconciliations)]
RecommendationsDep = Annotated[RecommendationService, Depends(_recommendations)]
ReservationsDep = Annotated[ReservationService, Depends(_reservations)]
CommitmentsDep = Annotated[CommitmentService, Depends(_commitments)]
OrphansDep = Annotated[OrphanService, Depends(_orphans)]
VersionDep = Annotated[int | None, Depends(_version)]
