"""The values of each chart are read with the pointer and the keyboard, and from a table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from service.domain.clock import HOUR
from service.domain.idle.course import State
from service.domain.idle.rollup import ActivityHour
from service.domain.idle.signals.signal import Kind
from tests.dashboard.browsing import CHROMIUM, opened, served
from tests.dashboard.lab import Lab
from tests.dashboard.pages.nodes.test_signals import watch
from tests.hands import NOON

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: no chart was read"),
]

CHARTS = {
    "columns of the days": ("/", ".columns"),
    "last 24 hours": ("/", ".spark"),
    "signal of a node": ("/nodes/{node}", ".signal-chart"),
}
"""By name, the page of a chart and its selector."""


@pytest.fixture
def node(lab: Lab) -> str:
    """The id of a node whose device worked, and then rested, in the last hours."""
    found = watch(lab, State.NOTIFIED)
    values = [97.0, 40.0, 55.0, 3.0, 97.0, 12.0, *[0.0] * 6]
    hours = [
        ActivityHour(found, 1, NOON - ago * HOUR, "B" * 6 + "I" * 6, {Kind.DUTY_CYCLE: values})
        for ago in (2, 1)
    ]
    with lab.units() as unit:
        unit.idle_rollups.save(hours)
    lab.ran(NOON - 30 * HOUR, name="train")
    lab.ran(NOON - 3 * HOUR, name="eval")
    return found


@pytest.fixture
def address(lab: Lab, node: str) -> Iterator[str]:
    """Where the dashboard of the lab is served."""
    with served(lab) as found:
        yield found


def readings_of(page: Page, chart: str) -> list[str]:
    """The readings of a chart that are visible."""
    return [
        reading.text_content() or "" for reading in page.locator(f"{chart} .reading:visible").all()
    ]


@pytest.mark.parametrize("name", CHARTS)
def test_arrow_keys_lead_through_a_chart_and_show_one_value_at_a_time(
    node: str, address: str, chromium: Browser, name: str
) -> None:
    path, chart = CHARTS[name]
    with opened(chromium) as page:
        page.goto(address + path.format(node=node))
        columns = page.locator(chart).first.locator("[role=img]")
        last = columns.count() - 1
        assert last > 3
        assert readings_of(page, chart) == []
        columns.nth(last).focus()
        for key, number in (
            ("ArrowRight", last),
            ("ArrowLeft", last - 1),
            ("ArrowLeft", last - 2),
            ("ArrowRight", last - 1),
        ):
            page.keyboard.press(key)
            expect(columns.nth(number)).to_be_focused()
            said = columns.nth(number).locator(".reading").text_content()
            assert readings_of(page, chart) == [said]
            assert said
        columns.nth(1).locator("rect").first.hover(force=True)
        assert readings_of(page, chart) == [columns.nth(1).locator(".reading").text_content()]


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("width", [1_366, 820, 400])
def test_the_table_behind_a_chart_opens_with_a_key_and_fits(
    node: str, address: str, chromium: Browser, name: str, width: int
) -> None:
    path, chart = CHARTS[name]
    with opened(chromium, "light", width) as page:
        page.goto(address + path.format(node=node))
        details = page.locator(f"{chart} ~ details, .plot:has({chart}) ~ details").first
        details.locator("summary").focus()
        page.keyboard.press("Enter")
        expect(details.get_by_role("table")).to_be_visible()
        assert details.get_by_role("row").count() > 3
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_summary_of_the_last_day_gives_way_to_a_reading_and_takes_no_line(
    address: str, chromium: Browser
) -> None:
    with opened(chromium, "light", 1_366) as page:
        page.goto(address)
        summary = page.locator(".last-day summary")
        chart, link = page.locator(".spark").bounding_box(), summary.bounding_box()
        assert chart is not None
        assert link is not None
        assert link["height"] >= 24
        assert chart["y"] <= link["y"]
        assert link["y"] + link["height"] <= chart["y"] + chart["height"]
        page.locator(".spark .hour").last.focus()
        expect(summary).to_have_css("opacity", "0")
        page.keyboard.press("Tab")
        expect(summary).to_be_focused()
        expect(summary).to_have_css("opacity", "1")
