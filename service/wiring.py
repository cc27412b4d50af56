"""The composition root: settings in, running parts out. The only place that builds things."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from sqlalchemy import Engine

from service.api.app import create_app
from service.application.capacity import CapacityService
from service.application.costs import CostService
from service.application.estimates import EstimateService
from service.application.health import HealthService
from service.application.nodes import NodeService
from service.application.orphans import OrphanService
from service.application.prices import PriceService
from service.application.quotas import QuotaService
from service.application.services import Services
from service.cloud.pace import Pace
from service.cloud.ports import TpuCloud
from service.controllers.base import Controller
from service.controllers.garbage import GarbageController
from service.controllers.inventory import InventoryController
from service.controllers.lifecycle import LifecycleController
from service.controllers.metering import MeteringController
from service.controllers.steps import Steps
from service.controllers.tools import Manners, Tools
from service.daemon import Daemon
from service.dashboard.pages import add_dashboard
from service.domain.clock import Clock, wall_clock
from service.domain.errors import Rejected
from service.settings import Settings
from service.store.engine import make_engine
from service.store.migrate import check_migrated
from service.store.pricebook import PriceShelf
from service.store.unit import Units


@dataclass(frozen=True, slots=True)
class Foundation:
    """What everything else stands on."""

    settings: Settings
    engine: Engine
    units: Units
    prices: PriceShelf
    clock: Clock


def lay(settings: Settings, clock: Clock = wall_clock) -> Foundation:
    """Open the database. Raises StoreUnavailable, in one line, when it cannot be used as it is."""
    engine = make_engine(settings.database_url)
    check_migrated(engine)
    units = Units(engine)
    with units() as unit:
        unit.leases.try_to_write()
    return Foundation(settings, engine, units, PriceShelf(), clock)


def services(base: Foundation) -> Services:
    """What callers may ask."""
    shared = base.units, base.prices, base.clock
    projects = base.settings.projects
    return Services(
        nodes=NodeService(*shared, projects),
        costs=CostService(*shared),
        estimates=EstimateService(*shared),
        prices=PriceService(*shared),
        capacity=CapacityService(base.units, base.clock),
        quotas=QuotaService(base.units, base.clock, projects),
        orphans=OrphanService(*shared, projects),
        health=HealthService(*shared, projects),
    )


def app(base: Foundation) -> FastAPI:
    """The API and the dashboard over the same services."""
    token = base.settings.admin_token
    made = create_app(services(base), None if token is None else token.get_secret_value())
    add_dashboard(made)
    return made


def google(settings: Settings) -> TpuCloud:
    """The real Google client, or the same client on the emulator."""
    from service.cloud.google.channel import (  # noqa: PLC0415 - costs a second
        TPU_HOST,
        connect,
        legacy_client,
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
    channel = connect(emulator)
    return GoogleTpus(
        tpu_client(channel),
        pace,
        flex=flex if has_rest else None,
        legacy=LegacyTpus(legacy_client(channel)),
    )


def controllers(base: Foundation, cloud: TpuCloud) -> dict[int, Sequence[Controller]]:
    """The controllers by their period in seconds."""
    settings = base.settings
    shared = base.units, cloud, base.prices, base.clock
    manners = Manners(settings.install, settings.lifecycle_seconds)
    garbage = GarbageController(*shared, Manners(settings.install, settings.inventory_seconds))
    periods: dict[int, list[Controller]] = {}
    for period, controller in (
        (settings.inventory_seconds, InventoryController(*shared, onlookers=(garbage,))),
        (settings.inventory_seconds, garbage),
        (settings.lifecycle_seconds, LifecycleController(*shared, Steps(Tools(*shared, manners)))),
        (settings.metering_seconds, MeteringController(base.units, base.prices, base.clock)),
    ):
        periods.setdefault(period, []).append(controller)
    return dict(periods)


def daemon(base: Foundation) -> Daemon:
    """The daemon over every project. Raises Rejected when there is none to look after."""
    projects = base.settings.projects
    if not projects:
        raise Rejected("no project is set; set STEWARD_PROJECTS to a comma-separated list")
    return Daemon(base.units, projects, controllers(base, google(base.settings)))
