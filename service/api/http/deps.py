"""Dependencies of the routes: the services, and the header If-Match."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Request

from service.application.attention.attention import AttentionService
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
    """The services of the application."""
    found: Services = request.app.state.services
    return found


def _from_services(choose: Callable[[Services], object]) -> Any:
    """A dependency that passes one of the services to a route."""

    # Asynchronous although it waits for nothing: a plain function would use a thread of its own.
    async def get_service(request: Request) -> object:
        return choose(services_of(request))

    return Depends(get_service)


async def _parse_if_match(
    if_match: Annotated[
        str | None,
        Header(
            max_length=80,
            description="The `ETag` of the resource as last read; 412 if it has changed since.",
            examples=['"3"'],
        ),
    ] = None,
) -> int | None:
    """The version that the caller has read. None without `If-Match`, and for `*`.

    Raises Rejected for a header that is no ETag, and StaleVersion for an ETag without a number.
    """
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


JobsDep = Annotated[JobService, _from_services(lambda services: services.jobs)]
NodesDep = Annotated[NodeService, _from_services(lambda services: services.nodes)]
ExplanationsDep = Annotated[
    ExplanationService, _from_services(lambda services: services.explanations)
]
StatementsDep = Annotated[StatementService, _from_services(lambda services: services.statements)]
CostsDep = Annotated[CostService, _from_services(lambda services: services.costs)]
EstimatesDep = Annotated[EstimateService, _from_services(lambda services: services.estimates)]
ExportsDep = Annotated[ExportService, _from_services(lambda services: services.exports)]
ForecastsDep = Annotated[ForecastService, _from_services(lambda services: services.forecasts)]
PricesDep = Annotated[PriceService, _from_services(lambda services: services.prices)]
BudgetsDep = Annotated[BudgetService, _from_services(lambda services: services.budgets)]
AttentionDep = Annotated[AttentionService, _from_services(lambda services: services.attention)]
HealthDep = Annotated[HealthService, _from_services(lambda services: services.health)]
CapacityDep = Annotated[CapacityService, _from_services(lambda services: services.capacity)]
CleanupDep = Annotated[CleanupService, _from_services(lambda services: services.cleanup)]
HeartbeatsDep = Annotated[HeartbeatService, _from_services(lambda services: services.heartbeats)]
KeepsDep = Annotated[KeepService, _from_services(lambda services: services.keeps)]
PoliciesDep = Annotated[PolicyService, _from_services(lambda services: services.policies)]
QuotasDep = Annotated[QuotaService, _from_services(lambda services: services.quotas)]
ReconciliationsDep = Annotated[
    ReconciliationService, _from_services(lambda services: services.reconciliations)
]
RecommendationsDep = Annotated[
    RecommendationService, _from_services(lambda services: services.recommendations)
]
ReservationsDep = Annotated[
    ReservationService, _from_services(lambda services: services.reservations)
]
CommitmentsDep = Annotated[CommitmentService, _from_services(lambda services: services.commitments)]
OrphansDep = Annotated[OrphanService, _from_services(lambda services: services.orphans)]
VersionDep = Annotated[int | None, Depends(_parse_if_match)]
