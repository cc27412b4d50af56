"""Pages of ten thousand nodes and twelve months in a real Chromium: whole, within their width, and
the first page below 100 kB."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from service import wiring
from service.domain.event import Event
from service.domain.nodes.node import Asked
from service.settings import Settings
from tests import factories
from tests.bench.pages import NOW, PROJECTS, YEAR, fill_fleet
from tests.dashboard.browsing import opened, served
from tests.databases import fresh_database
from tests.garbage import orphan, shown
from tests.hands import HandClock

pytestmark = [pytest.mark.deep, pytest.mark.long]

STUCK, STRANGERS = 300, 400
A_YEAR = "2025-12-01T00:00:00Z,2026-12-01T00:00:00Z"
PATHS = (
    *("/", "/?window=90d&group=team", "/nodes", "/nodes?state=failing", "/agenda", "/budgets"),
    *("/orphans", "/statements", "/capacity", "/cleanup", "/jobs", "/prices"),
    f"/costs?window={A_YEAR}&aggregate=team&step=month",
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a service with the fleet, 300 failing deletions and 400 orphans."""
    with fresh_database("sqlite", Path(tempfile.mkdtemp())) as database:
        clock = HandClock(NOW)
        settings = Settings(database_url=database, projects=PROJECTS)
        base = wiring.open_foundation(settings, clock)
        fill_fleet(base.units, base.engine, YEAR)
        with base.units() as unit:
            for number in range(STUCK):
                node = factories.sent(
                    name=f"stuck-{number:03}",
                    asked=Asked.ABSENT,
                    delete_requested_at=NOW - 600 - number,
                    tries=2,
                    last_error="503: the service is currently unavailable",
                )
                unit.nodes.add(node)
                unit.usage.save(factories.usage(node_id=node.id, start=NOW - 9_000))
                unit.events.add(Event(node.id, NOW - number, "alarm", "the deletion has not ended"))
            for number in range(STRANGERS):
                unit.orphans.add(orphan(shown=shown(f"stranger-{number:03}")))
        with served(None, wiring.build_app(base)) as found:
            yield found
        base.engine.dispose()


@pytest.mark.parametrize("width", [1_280, 400])
def test_every_page_of_a_large_fleet_fits_and_complains_of_nothing(
    address: str, chromium: Browser, width: int
) -> None:
    with opened(chromium, "light", width) as page:
        for path in PATHS:
            page.goto(f"{address}{path}")
            expect(page.locator("h1")).to_have_count(1)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert "cannot be shown" not in page.title(), path


def test_the_first_page_of_a_large_fleet_is_small_and_counts_everything(address: str) -> None:
    answer = httpx2.get(f"{address}/")
    assert answer.status_code == 200
    assert len(answer.content) < 100_000
    said = answer.text
    assert f"{STUCK} failing deletions" in said
    assert f"{STRANGERS} orphans" in said
    assert 'href="/agenda">' in said
