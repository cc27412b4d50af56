"""The API over real services on a fresh database, with a clock in hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from service.api.app import create_app
from service.api.http.problems import MEDIA_TYPE
from service.application.attention.attention import AttentionService
from service.application.budgets.budgets import BudgetService
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
from service.domain.costs.focus import Account
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.probe import DatabaseProbe
from service.store.unit import Units
from tests import factories
from tests.api.answers import operation_of
from tests.databases import fresh_database
from tests.fake_jobs import NoLogs
from tests.hands import HandClock

NODE_REQUEST = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}
"""A body that is granted."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """One database: what is tested here is HTTP, the other one is the store's affair."""
    with fresh_database("sqlite", tmp_path) as address:
        made = make_engine(address)
        yield made
        made.dispose()


@pytest.fixture
def probe(engine: Engine) -> Iterator[DatabaseProbe]:
    """What tries the database."""
    made = DatabaseProbe(engine.url.render_as_string(hide_password=False))
    yield made
    made.close()


@pytest.fixture
def services(units: Units, clock: HandClock, probe: DatabaseProbe) -> Services:
    """What the API is built on."""
    shared = units, PriceBookCache(), clock
    projects = [factories.PROJECT]
    return Services(
        nodes=NodeService(*shared, projects),
        jobs=JobService(*shared, NodeRequests(*shared, projects), projects),
        job_logs=JobLogService(units, NoLogs(), clock),
        costs=CostService(*shared),
        explanations=ExplanationService(units, shared[1]),
        statements=StatementService(units, clock),
        estimates=EstimateService(*shared),
        exports=ExportService(*shared, Account.from_settings("", "steward")),
        forecasts=ForecastService(*shared, CostService(*shared)),
        prices=PriceService(*shared),
        budgets=BudgetService(*shared, CostService(*shared)),
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
        readiness=ReadinessService(probe, projects),
        heartbeats=HeartbeatService(units, clock),
        keeps=KeepService(*shared),
        links=LinkService(*shared, NodeService(*shared, projects)),
        policies=PolicyService(*shared, projects, IdleMode()),
    )


@pytest.fixture
def app(services: Services) -> FastAPI:
    """The application, open to everyone on this machine."""
    return create_app(services, None)


_DOCUMENT: dict[str, Any] = {}


def document_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an app that is open to everyone. It takes seconds to make, and is the
    same for every app, so that it is made once."""
    if not _DOCUMENT:
        _DOCUMENT.update(json.loads(json.dumps(app.openapi())))
    return _DOCUMENT


@pytest.fixture
def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document."""
    return document_of(app)


def check_kind(operation: dict[str, Any], answer: httpx2.Response) -> None:
    """A problem is of a kind that the operation names among its examples."""
    if answer.status_code < 400:
        return
    slug = json.loads(answer.read())["type"].rpartition(":")[2]
    declared = operation["responses"][str(answer.status_code)]["content"][MEDIA_TYPE]["examples"]
    assert f"{answer.status_code}-{slug}" in declared, (answer.request, slug)


@contextmanager
def caller_of(app: FastAPI) -> Iterator[TestClient]:
    """A caller who is told by the OpenAPI document of every answer that comes."""

    def check(answer: httpx2.Response) -> None:
        operation = operation_of(document_of(app), answer.request.method, answer.request.url.path)
        if operation is not None:
            assert str(answer.status_code) in operation["responses"], (answer.request, answer)
            check_kind(operation, answer)

    with TestClient(app, base_url="http://localhost") as made:
        made.event_hooks = {"response": [check]}
        yield made


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """A caller."""
    with caller_of(app) as made:
        yield made


@pytest.fixture
def ask(client: TestClient) -> Callable[..., dict[str, Any]]:
    """Ask for a node; answers its document."""

    def request(**changes: Any) -> dict[str, Any]:
        answer = client.post("/v1/nodes", json=NODE_REQUEST | changes)
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document

    return request


@pytest.fixture
def learned(units):
    """Write limits down."""

    def write(*limits):
        with units() as unit:
            for limit in limits:
                unit.quotas.save(limit)

    return write
