"""All application services in one object."""

from __future__ import annotations

from dataclasses import dataclass, field

from service.application.answers import Answers, LatestAnswers
from service.application.attention.attention import AttentionService
from service.application.budgets.budgets import BudgetService
from service.application.cleanup.cleanup import CleanupService
from service.application.cleanup.heartbeats import HeartbeatService
from service.application.cleanup.keeps import KeepService
from service.application.cleanup.links import LinkService
from service.application.cleanup.policies import PolicyService
from service.application.costs.costs import CostService
from service.application.costs.explanations import ExplanationService
from service.application.costs.exports import ExportService
from service.application.costs.forecasts import ForecastService
from service.application.costs.statements import StatementService
from service.application.health import HealthService, ReadinessService
from service.application.jobs.jobs import JobService
from service.application.jobs.logs import JobLogService
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
from service.domain.clock import MINUTE

_KEPT_PAGES = 32


@dataclass(frozen=True, slots=True)
class Services:
    """What the API and the dashboard are built on."""

    nodes: NodeService
    jobs: JobService
    job_logs: JobLogService
    costs: CostService
    statements: StatementService
    explanations: ExplanationService
    estimates: EstimateService
    exports: ExportService
    forecasts: ForecastService
    prices: PriceService
    budgets: BudgetService
    capacity: CapacityService
    cleanup: CleanupService
    quotas: QuotaService
    recommendations: RecommendationService
    reconciliations: ReconciliationService
    reservations: ReservationService
    commitments: CommitmentService
    orphans: OrphanService
    health: HealthService
    readiness: ReadinessService
    heartbeats: HeartbeatService
    keeps: KeepService
    links: LinkService
    policies: PolicyService
    attention: AttentionService
    pages: Answers = field(default_factory=lambda: Answers(_KEPT_PAGES))
    """Pages that were worked out, by all that they depend on."""
    latest_pages: LatestAnswers = field(
        default_factory=lambda: LatestAnswers(Answers(_KEPT_PAGES), MINUTE)
    )
    """The pages of large fleets, which may be a minute old."""
