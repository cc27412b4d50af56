"""A lab on an empty SQLite database, and a caller of its pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, sync_playwright

from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.dashboard.browsing import ARGUMENTS, CHROMIUM
from tests.dashboard.jobs import JobHouse
from tests.dashboard.lab import Lab
from tests.databases import fresh_database
from tests.hands import HandClock


@pytest.fixture
def lab(tmp_path: Path, clock: HandClock) -> Iterator[Lab]:
    """A lab with one project, on which a daemon looked a moment ago."""
    with fresh_database("sqlite", tmp_path) as address:
        engine = make_engine(address)
        made = Lab(Units(engine), clock, (factories.PROJECT,))
        made.looked_at()
        yield made
        engine.dispose()


@pytest.fixture
def house(tmp_path: Path, clock: HandClock) -> Iterator[JobHouse]:
    """A lab with jobs, on an empty SQLite database."""
    with fresh_database("sqlite", tmp_path) as address:
        engine = make_engine(address)
        yield JobHouse(Units(engine), engine, clock)
        engine.dispose()


@pytest.fixture
def browser(lab: Lab) -> Iterator[TestClient]:
    """Asks for pages as a browser does, without being one."""
    with TestClient(lab.app(), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def caller(lab: Lab) -> Iterator[TestClient]:
    """Asks for pages and for what the API says of the same."""
    with TestClient(lab.whole(), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real browser, for all tests of a module."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()
