"""What every tier of tests stands on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine

from service.store.engine import make_engine
from service.store.unit import Units
from tests.databases import fresh_database
from tests.hands import HandClock
from tests.simulation.search import MOVED

# No test asserts on time, and a machine may be busy with others.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Plain tracebacks, as the service writes them: one with all local values takes a second.
structlog.configure(
    [
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


DEEP_SECONDS = 1_500
"""What a deep test may take, on a machine that is busy with others."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the second database as deep, where it is not the subject. Then begin with the long
    tests, which mostly wait, and the deep ones, which compute: nobody waits for them at the end."""
    for item in items:
        if _is_on_postgresql(item) and not _is_about_databases(item):
            item.add_marker(pytest.mark.deep)
        if item.get_closest_marker("deep") is not None:
            item.add_marker(pytest.mark.timeout(DEEP_SECONDS))
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Look for garbage less often, and never again among all the tests: it took 7 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _is_on_postgresql(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("engine") == "postgresql"


def _is_about_databases(item: pytest.Item) -> bool:
    """Whether a test is about SQL, or about several at once, which PostgreSQL alone shows."""
    is_about_sql = item.nodeid.startswith("tests/store/")
    return is_about_sql or item.get_closest_marker("concurrent") is not None


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("long") is not None:
        return 0
    return 1 if item.get_closest_marker("deep") is not None else 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end which planted bugs another seed finds now."""
    for report in terminalreporter.getreports("passed"):
        for name, moved in report.user_properties:
            if name == MOVED:
                terminalreporter.line(f"MOVED {moved}")


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands still until a test moves it."""
    return HandClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty, migrated database; every test that uses it runs on both kinds."""
    with fresh_database(request.param, tmp_path) as address:
        made = make_engine(address)
        yield made
        made.dispose()


@pytest.fixture
def units(engine: Engine) -> Units:
    """Units of work on that database."""
    return Units(engine)
