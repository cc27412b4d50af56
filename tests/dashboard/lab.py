"""A lab whose nodes ran for a while: what the pages are shown over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.app import create_app
from service.application.attention.attention import AttentionService
from service.application.budgets.budgets import BudgetService
from service.application.budgets.shares import BudgetShares
from service.application.cleanup.cleanup import CleanupService, IdleMode
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
from service.application.nodes.requests import NodeRequests
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
from service.cloud.ports import WorkerLogs
from service.controllers.recording.posting import post_usage
from service.dashboard.routes import add_dashboard
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY
from service.domain.costs.focus import Account
from service.domain.event import Event
from service.domain.metering.reservation import Reservation
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.placement import Outcome, Placement
from service.domain.orphans.orphan import Orphan
from service.domain.pricing.driver_vm import UserVm
from service.domain.pricing.price_book import Sku
from service.store.pricebook import PriceBookCache
from service.store.probe import DatabaseProbe
from service.store.unit import Units
from tests import factories
from tests.fake_jobs import NoLogs
from tests.hands import HandClock

DRIVER = UserVm("n1-standard-8")
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; object-src 'none';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The one that the API's middleware sends with every answer."""


class _Policy:
    """Sends the policy with every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = (b"content-security-policy", POLICY.encode())
                message["headers"] = [*message["headers"], named]
            await send(message)

        await self._app(scope, receive, answer)


class Lab:
    """A database, a clock, the services over them, and the dashboard over those."""

    def __init__(
        self,
        units: Units,
        clock: HandClock,
        projects: Sequence[str],
        logs: WorkerLogs | None = None,
    ) -> None:
        shared = units, PriceBookCache(), clock
        budgets = BudgetService(*shared, CostService(*shared))
        self.units = units
        self.clock = clock
        self.prices = shared[1]
        self.services = Services(
            nodes=NodeService(*shared, projects),
            jobs=JobService(*shared, NodeRequests(*shared, projects), projects),
            job_logs=JobLogService(self.units, logs or NoLogs(), self.clock),
            costs=CostService(*shared),
            explanations=ExplanationService(units, shared[1]),
            statements=StatementService(units, clock),
            estimates=EstimateService(*shared, BudgetShares(budgets), next(iter(projects), "")),
            exports=ExportService(*shared, Account.from_settings("", "steward")),
            forecasts=ForecastService(*shared, CostService(*shared)),
            prices=PriceService(*shared),
            budgets=budgets,
            capacity=CapacityService(units, clock),
            cleanup=CleanupService(*shared, projects, IdleMode()),
            quotas=QuotaService(units, clock, projects),
            reconciliations=ReconciliationService(units, clock, projects),
            recommendations=RecommendationService(*shared),
            reservations=ReservationService(*shared, projects),
            commitments=CommitmentService(*shared, projects),
            orphans=OrphanService(*shared, projects),
            health=HealthService(*shared, projects),
            attention=AttentionService(*shared, projects),
            readiness=ReadinessService(DatabaseProbe("postgresql:///nowhere"), projects),
            heartbeats=HeartbeatService(units, clock),
            keeps=KeepService(*shared),
            links=LinkService(*shared, NodeService(*shared, projects)),
            policies=PolicyService(*shared, projects, IdleMode()),
        )

    def app(self) -> FastAPI:
        """The dashboard alone, behind the policy."""
        made = FastAPI(middleware=[Middleware(_Policy)])
        made.state.services = self.services
        add_dashboard(made)
        return made

    def whole(self) -> FastAPI:
        """The dashboard and the API, over the same services, as they are served."""
        made = create_app(self.services, None)
        add_dashboard(made)
        return made

    def looked_at(self, seconds_ago: int = 10, *, held: bool = True) -> None:
        """Have the cloud been looked at then, by a daemon that still holds the lease, or not."""
        with self.units() as unit:
            for _ in range(2):
                unit.leases.take(factories.PROJECT, "daemon", 3_600, self.clock.now - seconds_ago)
            if not held:
                unit.leases.take(factories.PROJECT, "daemon", -60)

    def asked_for(self, **changes: Any) -> Node:
        """A node that was asked for and never came up."""
        node = factories.node(created_at=self.clock.now, **changes)
        with self.units() as unit:
            unit.nodes.add(node)
        return node

    def found(self, *orphans: Orphan) -> None:
        """What the last look at the cloud has shown, and no record of ours accounts for."""
        with self.units() as unit:
            for orphan in orphans:
                unit.orphans.add(orphan)

    def tried(self, node: Node, *attempts: tuple[int, Outcome, int | None]) -> None:
        """Attempts at a node: seconds ago when each began, how it ended five seconds after that or
        after it came up, and after how many seconds it came up."""
        for number, (ago, outcome, ready) in enumerate(attempts, start=1):
            began = self.clock.now - ago
            ready_at = None if ready is None else began + ready
            running = outcome in (Outcome.OPEN, Outcome.READY)
            one = Placement(
                node.id,
                number,
                node.zone,
                node.spec.provisioning_model,
                f"c-{node.id[-6:]}-{number}",
                began,
                outcome,
                ended_at=None if running else (ready_at or began) + 5,
                project=node.spec.project,
                accelerator_type=node.spec.accelerator_type,
                generation=node.spec.generation,
                ready_at=ready_at,
            )
            with self.units() as unit:
                unit.placements.add(one)
                unit.nodes.save(unit.nodes.get(node.id))

    def ran(self, start: int, end: int | None = None, **changes: Any) -> Node:
        """A node that was READY since `start`, until `end` if there is one; posted up to now."""
        fields: dict[str, Any] = {
            "created_at": start - 300,
            "ready_at": start,
            "ended_at": end,
            "state": NodeState.READY if end is None else NodeState.DELETED,
            "state_since": start if end is None else end,
            "attempt": 1,
        }
        node = factories.node(**(fields | changes))
        node = replace(node, cloud_id=f"{node.name[:20]}-{node.id[-6:]}")
        placement = Placement(
            node.id, 1, node.zone, node.spec.provisioning_model, node.cloud_id, start - 290
        )
        with self.units() as unit:
            unit.nodes.add(node)
            unit.placements.add(replace(placement, outcome=Outcome.READY))
            unit.nodes.save(node)
            unit.events.add(Event(node.id, start, "state", "the node is READY", "steward"))
            usage = factories.usage(
                node_id=node.id,
                zone=node.zone,
                accelerator_type=node.spec.accelerator_type,
                chips=node.spec.chips,
                sku=Sku(
                    node.spec.generation,
                    node.spec.provisioning_model,
                    region_of(node.zone),
                    node.spec.hosts == 1,
                ),
                start=start,
                end=end,
                dirty=end is not None,
                vm="" if node.spec.vm is None else node.spec.vm.machine_type,
                vm_model="" if node.spec.vm is None else node.spec.vm.provisioning_model,
            )
            usage = unit.usage.save(usage)
            unit.usage_versions.add(usage, start)
            post_usage(unit, usage, self.prices.get_book(unit), self.clock.now)
        return node

    def bought(self, **changes: Any) -> Reservation:
        """64 v5p chips in Delhi, bought for two days from now on and written down."""
        base = Reservation(
            id="",
            name="autumn",
            project=factories.PROJECT,
            zone="asia-south2-a",
            generation="v5p",
            chips=64,
            start=self.clock.now,
            end=self.clock.now + 2 * DAY,
            team="infra",
        )
        return self.services.reservations.record(replace(base, **changes)).shown.reservation

    def ran_legacy(
        self, start: int, end: int | None = None, vm: UserVm | None = DRIVER, **changes: Any
    ) -> Node:
        """A legacy TPU Node that did, driven by that VM."""
        fields: dict[str, Any] = {
            "accelerator_type": "v2-8",
            "generation": "v2",
            "chips": 4,
            "zone": "us-central1-b",
            "architecture": Architecture.NODE,
        }
        return self.ran(start, end, vm=vm, **(fields | changes))

    def learned(self, node: Node, **changes: Any) -> None:
        """More became known now of the interval in which a node was used."""
        with self.units() as unit:
            usage = replace(unit.usage.list_by_node(node.id)[0], dirty=True, **changes)
            usage = unit.usage.save(usage)
            unit.usage_versions.add(usage, self.clock.now)
            post_usage(unit, usage, self.prices.get_book(unit), self.clock.now)

    def lives_a_month(self) -> None:
        """Four generations, two teams, both models, over a month, and three nodes that still
        run."""
        kinds = (
            {"generation": "v4", "accelerator_type": "v4-32", "chips": 16, "hosts": 4},
            {"generation": "v5e", "accelerator_type": "v5litepod-8", "chips": 8, "hosts": 1},
            {"generation": "v5p", "accelerator_type": "v5p-64", "chips": 32, "hosts": 8},
            {"generation": "v6e", "accelerator_type": "v6e-8", "chips": 8, "hosts": 1},
        )
        zones = ("us-central2-b", "us-west4-a", "us-east5-a", "us-east1-d")
        for day in range(32):
            start = self.clock.now - day * DAY - 7_777 - 131 * day
            changes: dict[str, Any] = {**kinds[day % 4], "zone": zones[day % 4]}
            changes["team"] = ("vision", "language")[day % 2]
            changes["provisioning_model"] = tuple(ProvisioningModel)[day % 2]
            self.ran(start, None if day < 3 else start + 3_601 + 977 * day, **changes)
        self.clock.pass_(777)
