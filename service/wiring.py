"""The composition root: it builds all parts from the settings. No other module does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

from fastapi import FastAPI
from sqlalchemy import Engine

from service.api.app import create_app
from service.application.answers import Answers, LatestAnswers
from service.application.attention.attention import AttentionService
from service.application.budgets.budgets import BudgetService, MessageReach
from service.application.budgets.shares import BudgetShares
from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.daemon import DaemonActs
from service.application.cleanup.heartbeats import HeartbeatService
from service.application.cleanup.keeps import KeepService
from service.application.cleanup.links import LinkService
from service.application.cleanup.policies import PolicyService
from service.application.costs.costs import CostService
from service.application.costs.explanations import ExplanationService
from service.application.costs.exports import ExportService
from service.application.costs.forecasts import KEPT_FORECASTS, LARGE_STEP, ForecastService
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
from service.application.reconciliations import MEGABYTE, ReconciliationService
from service.application.services import Services
from service.application.timekeeping import Timekeeper
from service.cloud.ports import (
    OperationHistory,
    PriceFeed,
    Registry,
    Telemetry,
    TpuCloud,
    WorkerLogs,
)
from service.cloud.rate_limit import Pace, ReadPace, ReportPace
from service.cloud.registry import OciRegistry
from service.controllers.base import Controller
from service.controllers.budgets.budgets import BudgetController
from service.controllers.budgets.forecast import ForecastsController
from service.controllers.idle.idle import IdleController, IdleSettings
from service.controllers.idle.readings import Start, TelemetryReader, on_a_thread
from service.controllers.idle.report_reads import ReportReader
from service.controllers.inventory.audit_log import EvidenceController
from service.controllers.inventory.inventory import InventoryController
from service.controllers.jobs.jobs import JobsController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.controllers.notifications import NotificationController
from service.controllers.orphans.orphans import OrphanController
from service.controllers.prices import PricesController
from service.daemon.daemon import Daemon
from service.dashboard.routes import add_dashboard
from service.domain.budgets.budget import Budget
from service.domain.clock import HOUR, Clock, wall_clock
from service.domain.costs.focus import Account
from service.domain.database_clock import AgreedClock
from service.domain.errors import Rejected
from service.domain.idle.assess import IdleTimes
from service.domain.idle.policy import Action
from service.domain.jobs.log import LogCursor, LogLine, LogPage
from service.domain.lease import Lease
from service.domain.notifications.notification import Channel
from service.domain.time_window import Window
from service.notify.mail import MailMessenger, parse_relay
from service.notify.ports import Messenger
from service.notify.webhook import WebhookMessenger
from service.outbound import dial
from service.settings import Settings
from service.store.engine import make_engine, set_clock
from service.store.migrate import check_migrated
from service.store.pricebook import PriceBookCache
from service.store.probe import DatabaseProbe
from service.store.unit import Units


@dataclass(frozen=True, slots=True)
class Foundation:
    """The parts that all others are built on."""

    settings: Settings
    engine: Engine
    units: Units
    prices: PriceBookCache
    clock: Clock


@dataclass(frozen=True, slots=True)
class CloudPorts:
    """The cloud and its other services, as the daemon reaches them."""

    tpus: TpuCloud
    prices: PriceFeed
    audit_log: OperationHistory
    monitoring: Telemetry
    registry: Registry


@dataclass(frozen=True, slots=True)
class Pacing:
    """The monotonic clock of the controllers in seconds, and how their reads in the background are
    started. Without `has_threads`, each controller works on one thread, that of its caller."""

    monotonic: Callable[[], float] = time.monotonic
    start: Start = on_a_thread
    has_threads: bool = True


def open_foundation(
    settings: Settings,
    clock: Clock = wall_clock,
    database_clock: Callable[[], float] | None = None,
) -> Foundation:
    """Open the database. Raises StoreUnavailable, with a message of one line, if the
    database cannot be used. `database_clock` replaces the clock of an SQLite database."""
    engine = make_engine(settings.database_url)
    if database_clock is not None:
        set_clock(engine, database_clock)
    check_migrated(engine)
    units = Units(engine)
    with units() as unit:
        unit.leases.try_to_write()
    return Foundation(settings, engine, units, PriceBookCache(), clock)


def build_services(base: Foundation, timekeeper: Timekeeper | None = None) -> Services:
    """The services behind the API and the dashboard."""
    shared = base.units, base.prices, base.clock
    projects, mode = base.settings.projects, idle_mode(base.settings)
    least = mode.times.least_idle
    account = Account.from_settings(
        base.settings.billing_account, base.settings.install, base.settings.billing_account_name
    )
    costs = CostService(*shared, base.settings.idle_warmup_seconds)
    latest = LatestAnswers(Answers(KEPT_FORECASTS), LARGE_STEP)
    forecasts = ForecastService(*shared, costs, latest)
    limits = build_budget_service(base, costs, forecasts)
    return Services(
        nodes=NodeService(*shared, projects, least, mode.ceiling),
        jobs=JobService(*shared, NodeRequests(*shared, projects, least), projects),
        job_logs=JobLogService(base.units, _LateLogs(base.settings), base.clock),
        costs=costs,
        explanations=ExplanationService(base.units, base.prices),
        statements=StatementService(base.units, base.clock),
        estimates=EstimateService(*shared, BudgetShares(limits), next(iter(projects), "")),
        exports=ExportService(*shared, account),
        forecasts=forecasts,
        prices=PriceService(*shared),
        budgets=limits,
        capacity=CapacityService(base.units, base.clock),
        cleanup=CleanupService(*shared, projects, idle_mode(base.settings)),
        quotas=QuotaService(base.units, base.clock, projects),
        reconciliations=ReconciliationService(
            base.units, base.clock, projects, base.settings.bill_megabytes * MEGABYTE
        ),
        recommendations=RecommendationService(*shared),
        reservations=ReservationService(*shared, projects),
        commitments=CommitmentService(*shared, projects),
        orphans=OrphanService(*shared, projects),
        health=HealthService(*shared, projects),
        attention=AttentionService(*shared, projects),
        readiness=ReadinessService(DatabaseProbe(base.settings.database_url), projects, timekeeper),
        heartbeats=HeartbeatService(base.units, base.clock),
        keeps=KeepService(*shared),
        links=LinkService(
            *shared, NodeService(*shared, projects, least), idle_mode(base.settings).times
        ),
        policies=PolicyService(
            *shared, projects, idle_mode(base.settings), _message_reach(base.settings)
        ),
    )


def idle_mode(settings: Settings) -> IdleMode:
    """The strongest action on idle nodes, and the times."""
    return IdleMode(
        Action(settings.idle_mode),
        IdleTimes(
            settings.idle_warmup_seconds,
            settings.idle_telemetry_seconds,
            settings.idle_start_seconds,
            settings.idle_seconds,
        ),
    )


def build_idle_controller(
    base: Foundation, cloud: CloudPorts, pacing: Pacing, is_shrunk: Callable[[Lease], bool]
) -> IdleController:
    """The controller of idle nodes. It reads Cloud Monitoring and the reports of workers.
    `is_shrunk` is that of the collector of orphans."""
    mode = idle_mode(base.settings)
    overlap = mode.times.telemetry + mode.times.period
    reader = TelemetryReader(cloud.monitoring, base.clock, overlap, pacing.start)
    reports = ReportReader(cloud.tpus, base.clock, mode.times, pacing.start)
    idle = IdleSettings(mode.times, mode.ceiling, pacing.monotonic, reports, is_shrunk)
    acts = DaemonActs(base.settings.public_url, mode.times)
    return IdleController(base.units, base.prices, base.clock, reader, acts, idle)


def build_budget_service(
    base: Foundation, costs: CostService, forecaster: ForecastService
) -> BudgetService:
    """The budgets, over the same costs and forecasts that callers are shown."""

    def expect_cost(budget: Budget, window: Window, _now: int) -> int:
        return forecaster.forecast_window(budget.scope.cost_filter, window, budget.tz).total.mid

    shared = base.units, base.prices, base.clock
    return BudgetService(*shared, costs, expect_cost, _message_reach(base.settings))


def _message_reach(settings: Settings) -> MessageReach:
    return MessageReach(settings.webhook_allow_private, settings.smtp_url is not None)


def build_messengers(settings: Settings) -> dict[Channel, Messenger]:
    """A messenger for each channel of notifications; mail only if a mail server is set."""
    webhook = WebhookMessenger(allow_private=settings.webhook_allow_private)
    found: dict[Channel, Messenger] = {Channel.WEBHOOK: webhook}
    if settings.smtp_url is not None:
        relay = parse_relay(settings.smtp_url.get_secret_value())
        found[Channel.MAIL] = MailMessenger(relay, settings.smtp_from)
    return found


def build_app(base: Foundation, timekeeper: Timekeeper | None = None) -> FastAPI:
    """The API and the dashboard over the same services."""
    token = base.settings.admin_token
    made = create_app(
        build_services(base, timekeeper), None if token is None else token.get_secret_value()
    )
    # The key that signs the forms is the same in every process and replica. Without a key and a
    # token in the settings, one process makes its own.
    form_key = None
    if base.settings.form_key is not None:
        form_key = base.settings.form_key.get_secret_value().encode()
    elif token is not None:
        form_key = sha256(b"forms:" + token.get_secret_value().encode()).digest()
    add_dashboard(made, form_key)
    return made


def connect_google(settings: Settings) -> TpuCloud:
    """Google's TPU API, or the emulator's, through the same client."""
    from service.cloud.google.channel import (  # noqa: PLC0415 - costs a second
        TPU_HOST,
        legacy_client,
        open_channel,
        rest_session,
        tpu_client,
    )
    from service.cloud.google.flex import FlexStart  # noqa: PLC0415 - and the API needs none of it
    from service.cloud.google.legacy import LegacyTpus  # noqa: PLC0415
    from service.cloud.google.tpus import GoogleTpus  # noqa: PLC0415

    emulator = settings.emulator
    address = f"http://{settings.emulator_rest}" if emulator else f"https://{TPU_HOST}"
    flex = FlexStart(lambda: rest_session(emulator), address)
    has_rest = not emulator or settings.emulator_rest
    pace = Pace(time.monotonic)
    channel = open_channel(emulator)
    return GoogleTpus(
        tpu_client(channel),
        pace,
        flex=flex if has_rest else None,
        legacy=LegacyTpus(legacy_client(channel)),
        report_pace=ReportPace(time.monotonic),
    )


def connect_price_feed(settings: Settings) -> PriceFeed:
    """Google's price list, or the emulator's."""
    from service.cloud.google.channel import open_channel  # noqa: PLC0415 - the API needs none of it
    from service.cloud.google.prices import (  # noqa: PLC0415
        BILLING_HOST,
        GooglePrices,
        catalog_client,
    )

    return GooglePrices(catalog_client(open_channel(settings.emulator, BILLING_HOST)))


def connect_audit_log(settings: Settings, pace: ReadPace) -> OperationHistory:
    """Google's audit log, or the emulator's."""
    from service.cloud.google.channel import open_channel  # noqa: PLC0415 - the API needs none of it
    from service.cloud.google.history import (  # noqa: PLC0415
        LOGGING_HOST,
        GoogleHistory,
        logging_client,
    )

    return GoogleHistory(logging_client(open_channel(settings.emulator, LOGGING_HOST)), pace=pace)


def connect_monitoring(settings: Settings) -> Telemetry:
    """Google's Cloud Monitoring, or the emulator's."""
    from service.cloud.google.channel import open_channel  # noqa: PLC0415 - the API needs none of it
    from service.cloud.google.telemetry import (  # noqa: PLC0415
        MONITORING_HOST,
        GoogleTelemetry,
        monitoring_client,
    )

    return GoogleTelemetry(monitoring_client(open_channel(settings.emulator, MONITORING_HOST)))


def connect_worker_logs(settings: Settings, pace: ReadPace) -> WorkerLogs:
    """The output of jobs, from Google's log or the emulator's."""
    from service.cloud.google.channel import open_channel  # noqa: PLC0415 - the API needs none of it
    from service.cloud.google.history import LOGGING_HOST, logging_client  # noqa: PLC0415
    from service.cloud.google.logs import GoogleWorkerLogs  # noqa: PLC0415

    return GoogleWorkerLogs(
        logging_client(open_channel(settings.emulator, LOGGING_HOST)), pace=pace
    )


AUDIT_READS, JOB_READS = 10, 30
"""Reads of a project's log a minute, by the daemon and by the API: this service limits itself to 40
in all. The processes of one `serve` share those of the API."""


class _LateLogs:
    """`WorkerLogs` that connects at the first read: most users of the API never read logs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._logs: WorkerLogs | None = None

    def read_page(self, project: str, job: str, since: LogCursor, limit: int) -> LogPage:
        return self._connect_once().read_page(project, job, since, limit)

    def read_last_lines(self, project: str, job: str, since: int, limit: int) -> Sequence[LogLine]:
        return self._connect_once().read_last_lines(project, job, since, limit)

    def _connect_once(self) -> WorkerLogs:
        with self._lock:
            if self._logs is None:
                share = max(1, JOB_READS // self._settings.workers)
                pace = ReadPace(time.monotonic, per_minute=share, kept=0)
                self._logs = connect_worker_logs(self._settings, pace)
            return self._logs


def connect_registry(settings: Settings) -> Registry:
    """The image registries, or the emulator in their place."""
    if settings.emulator:
        # Without a REST port of the emulator, no registry answers.
        base = f"http://{settings.emulator_rest or '127.0.0.1:9'}/_emulator/registry/v2"
        return OciRegistry(partial(dial, allow_private=True), base=base)
    from service.cloud.google.channel import access_tokens  # noqa: PLC0415 - costs a second

    return OciRegistry(access_token=access_tokens())


def connect_cloud(settings: Settings) -> CloudPorts:
    """Google Cloud, or the emulator in its place."""
    return CloudPorts(
        connect_google(settings),
        connect_price_feed(settings),
        connect_audit_log(settings, ReadPace(time.monotonic, per_minute=AUDIT_READS)),
        connect_monitoring(settings),
        connect_registry(settings),
    )


def build_controllers(
    base: Foundation, cloud: CloudPorts, pacing: Pacing | None = None
) -> dict[int, Sequence[Controller]]:
    """The controllers by their period in seconds."""
    settings, pacing = base.settings, pacing or Pacing()
    shared = base.units, cloud.tpus, base.prices, base.clock
    installation = Installation(settings.install, settings.lifecycle_seconds)
    orphans = OrphanController(*shared, Installation(settings.install, settings.inventory_seconds))
    books = base.units, base.prices, base.clock
    costs = CostService(*books)
    forecaster = ForecastService(*books, costs)
    delivery = NotificationController(base.units, build_messengers(settings), base.clock)
    requests = NodeRequests(*books, settings.projects, idle_mode(settings).times.least_idle)
    jobs = JobsController(
        base.units, cloud.tpus, cloud.registry, requests, base.clock, settings.lifecycle_seconds
    )
    late = EvidenceController(base.units, cloud.tpus, cloud.audit_log, base.prices, base.clock)
    steps = Steps(StepContext(*shared, installation))
    lifecycle = LifecycleController(*shared, steps)
    lifecycle.monotonic = steps.records.monotonic = pacing.monotonic
    if not pacing.has_threads:
        lifecycle.workers = jobs.workers = 1
    periods: dict[int, list[Controller]] = {}
    for period, controller in (
        (settings.inventory_seconds, InventoryController(*shared, onlookers=(orphans,))),
        (settings.inventory_seconds, orphans),
        (settings.inventory_seconds, late),
        (settings.lifecycle_seconds, lifecycle),
        (settings.lifecycle_seconds, jobs),
        (settings.metering_seconds, MeteringController(base.units, base.prices, base.clock)),
        (
            settings.metering_seconds,
            BudgetController(*books, build_budget_service(base, costs, forecaster)),
        ),
        (settings.lifecycle_seconds, delivery),
        (
            settings.idle_seconds,
            build_idle_controller(base, cloud, pacing, orphans.is_shrunk),
        ),
        (settings.metering_seconds, ForecastsController(base.units, forecaster, base.clock)),
    ):
        periods.setdefault(period, []).append(controller)
    if settings.prices_seconds:
        # The controller runs more often than it reads, so that a failed read is retried within an
        # hour.
        prices = PricesController(
            base.units, cloud.prices, base.prices, base.clock, settings.prices_seconds
        )
        periods.setdefault(min(HOUR, settings.prices_seconds), []).append(prices)
    return dict(periods)


def build_daemon(base: Foundation) -> Daemon:
    """The daemon over every project. Raises Rejected if no project is set."""
    projects = base.settings.projects
    if not projects:
        raise Rejected("no project is set; set STEWARD_PROJECTS to a comma-separated list")
    clock = AgreedClock()
    working = build_controllers(replace(base, clock=clock), connect_cloud(base.settings))
    # Leases have their own connection: waiting for one of the pool must not lose them.
    lease_units = Units(make_engine(base.settings.database_url, pool_size=1), first=True)
    return Daemon(base.units, projects, working, clock, lease_units=lease_units)
