"""What every page offers in a browser: pause, theme, zone, keyboard, and room on any screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Response, Route, expect

from service.domain.clock import DAY, HOUR
from service.domain.idle.rails import Rail, Waiting
from tests import factories
from tests.dashboard.browsing import CHROMIUM, Watch, served
from tests.dashboard.lab import Lab
from tests.garbage import orphan
from tests.hands import NOON

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: nothing was tried"),
]
PATHS = (
    *("/", "/jobs", "/costs", "/costs?aggregate=team,owner,zone&step=day", "/budgets", "/capacity"),
    *(
        "/orphans",
        "/reservations",
        "/statements",
        "/prices",
        "/commitments",
        "/reconcile",
    ),
    *("/manual", "/manual/jobs", "/agenda"),
)


@pytest.fixture
def address(lab: Lab) -> Iterator[str]:
    """Where a lab is served, in which nodes of two teams run."""
    lab.ran(NOON - 9_000, name="train")
    lab.ran(NOON - 8_000, name="eval", team="language", owner="x" * 40)
    lab.ran(NOON - 90_000, NOON - 9_000, name="gone")
    lab.found(orphan())
    lab.services.budgets.create(factories.budget(name="all"))
    lab.bought(start=NOON - 9 * HOUR)
    lab.clock.pass_(1)
    with served(lab) as found:
        yield found


@contextmanager
def opened(chromium: Browser, address: str, **settings: Any) -> Iterator[Page]:
    """A page at an address. A complaint of the browser fails the test."""
    context, watch = chromium.new_context(**settings), Watch()
    page = context.new_page()
    watch.over(page)
    page.goto(address)
    yield page
    context.close()
    assert watch.complaints == []


def refresh(page: Page) -> None:
    """Have the script ask for the page now."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def answer_all(page: Page, status: int) -> None:
    """Have every further request answered with this status. 0 is a connection that is lost."""

    def answer(route: Route) -> None:
        route.abort() if status == 0 else route.fulfill(status=status)

    page.route("**/*", answer)


def test_a_page_that_is_paused_stays_as_it_is(lab: Lab, address: str, chromium: Browser) -> None:
    with opened(chromium, address) as page:
        pause = page.get_by_role("button", name="Pause")
        pause.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text(
            re.compile(r"^paused at \d\d:\d\d:\d\d UTC$")
        )
        lab.ran(lab.clock.now - 60, name="newest")
        # A request, not a response: what was asked before the pause may be answered after it.
        with pytest.raises(Exception, match="Timeout"), page.expect_request("**/*", timeout=500):
            refresh(page)
        expect(page.get_by_role("link", name="newest")).to_have_count(0)
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("link", name="newest").first).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("live")


@pytest.mark.parametrize("status", [0, 500])
def test_a_page_says_since_when_it_is_not_refreshed(
    address: str, chromium: Browser, status: int
) -> None:
    page = chromium.new_context().new_page()
    page.goto(address)
    answer_all(page, status)
    refresh(page)
    said = page.get_by_role("status")
    expect(said).to_have_text(re.compile(r"^not refreshed since \d\d:\d\d:\d\d UTC$"))
    page.unroute_all()
    refresh(page)
    expect(said).to_have_text("live")
    page.context.close()


def test_a_session_that_ends_says_so_and_offers_a_reload(address: str, chromium: Browser) -> None:
    page = chromium.new_context().new_page()
    page.goto(address)
    answer_all(page, 401)
    refresh(page)
    expect(page.get_by_role("status")).to_have_text(re.compile("^signed out, not refreshed since"))
    page.unroute_all()
    with page.expect_navigation():
        page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("status")).to_have_text("live")
    page.context.close()


def test_a_page_is_sent_once_then_its_time_moves_on_and_then_its_changes_come(
    lab: Lab, chromium: Browser
) -> None:
    lab.ran(NOON - 9_000, NOON - 8_000, name="gone")
    lab.clock.pass_(1)
    seen: list[Response] = []
    with served(lab) as address, opened(chromium, address) as page:
        page.on("response", lambda one: seen.append(one))  # noqa: PLW0108 - a built-in is refused
        for second in (6, 11, 16):
            lab.clock.pass_(5)
            refresh(page)
            expect(page.locator("#as-of")).to_have_text(f"as of 2026-11-05 12:00:{second:02} UTC")
        expect(page.get_by_text("day 5 of 30, as of 12:00:16 UTC")).to_be_visible()
        expect(page.get_by_text("2026-11-05 09:46:40 UTC")).to_be_visible()
        lab.ran(lab.clock.now - 60, name="newest")
        refresh(page)
        expect(page.get_by_role("link", name="newest").first).to_be_visible()
        polls = [control.status for control in seen if control.url == f"{address}/"]
        assert polls == [200, 304, 304, 226]


@pytest.mark.parametrize("script", [True, False])
def test_a_theme_is_chosen_with_and_without_the_script(
    address: str, chromium: Browser, script: bool
) -> None:
    with opened(chromium, f"{address}/budgets", java_script_enabled=script) as page:
        paper = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(paper)
        page.get_by_text("View", exact=True).click()
        page.get_by_role("link", name="Dark").click()
        expect(page).to_have_url(f"{address}/budgets")
        dark = page.evaluate(paper)
        assert dark != light
        page.emulate_media(color_scheme="light")
        assert page.evaluate(paper) == dark
        page.emulate_media(media="print")
        assert page.evaluate(paper) == light
        assert page.get_by_text("Local", exact=True).count() == 1


def test_times_are_shown_in_the_zone_of_the_reader_if_asked(
    lab: Lab, address: str, chromium: Browser
) -> None:
    with opened(chromium, address, timezone_id="Asia/Kolkata") as page:
        ended = page.locator(".ended time").first
        expect(ended).to_have_text("2026-11-05 09:30:00 UTC")
        page.get_by_text("View", exact=True).click()
        page.get_by_role("link", name="Local").click()
        expect(ended).to_have_text("2026-11-05 15:00:00 UTC+05:30")
        expect(ended).to_have_attribute("title", "2026-11-05 09:30:00 UTC")
        expect(page.locator("#as-of time")).to_have_text("2026-11-05 17:30:01 UTC+05:30")
        lab.clock.pass_(60)
        refresh(page)
        expect(page.locator("#as-of time")).to_have_text("2026-11-05 17:31:01 UTC+05:30")
        expect(ended).to_have_text("2026-11-05 15:00:00 UTC+05:30")
        expect(page.get_by_text("a day begins at 00:00 UTC")).to_have_count(0)


def test_keys_move_through_the_rows_and_open_one(address: str, chromium: Browser) -> None:
    with opened(chromium, address) as page:
        focused = "document.activeElement.textContent"
        page.locator(".nodes a").first.focus()
        first = page.evaluate(focused)
        page.keyboard.press("j")
        assert page.evaluate(focused) != first
        page.keyboard.press("k")
        assert page.evaluate(focused) == first
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(first)


def test_keys_move_through_the_nodes_of_the_cleanup(
    lab: Lab, address: str, chromium: Browser
) -> None:
    nodes = [lab.ran(NOON - 9_000, name=name) for name in ("first", "second")]
    with lab.units() as unit:
        row = unit.cleanups.get("lab")
        waiting = tuple(
            Waiting(node.id, Rail.HOUR, place, NOON + 600, NOON - 120)
            for place, node in enumerate(nodes, 1)
        )
        unit.cleanups.save(replace(row, ticked_at=NOON - 30, waiting=waiting))
    with opened(chromium, f"{address}/cleanup") as page:
        for key, name in (("j", "first"), ("j", "second"), ("k", "first")):
            page.keyboard.press(key)
            expect(page.get_by_role("link", name=name, exact=True)).to_be_focused()


def test_keys_find_the_search_and_are_text_within_it(address: str, chromium: Browser) -> None:
    with opened(chromium, f"{address}/manual") as page:
        page.keyboard.press("/")
        search = page.get_by_label("Search the manual")
        expect(search).to_be_focused()
        page.keyboard.type("/j?k")
        expect(search).to_have_value("/j?k")
        expect(page.get_by_role("dialog")).to_be_hidden()
        for path, field in (("prices", "generation"), ("costs", "filter")):  # not a date
            page.goto(f"{address}/{path}")
            page.keyboard.press("/")
            expect(page.locator(f"input[name={field}]:not([type=hidden])")).to_be_focused()


def test_the_help_opens_closes_and_gives_the_focus_back(address: str, chromium: Browser) -> None:
    with opened(chromium, address) as page:
        link = page.get_by_role("link", name="train", exact=True).first
        link.focus()
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        expect(dialog).to_be_visible()
        page.keyboard.press("j")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(link).to_be_focused()
        page.keyboard.press("Control+/")
        page.get_by_text("View", exact=True).click()
        page.get_by_role("navigation").first.wait_for()
        page.get_by_role("link", name="Off").click()
        page.keyboard.press("?")
        expect(dialog).to_be_hidden()


_LOW = """() => [...document.querySelectorAll("a[href], button, summary")]
  .filter((one) => one.checkVisibility() && !one.matches(".skip"))
  .filter((one) => Math.max(...[...one.getClientRects()].map((box) => box.height)) < 24)
  .map((one) => one.outerHTML)"""

_CLIPPED = """() => [...document.querySelectorAll("table.nodes :is(th, td):not(.words)")]
  .filter((one) => one.closest("tr").getBoundingClientRect().width > 1 && one.checkVisibility())
  .filter((one) => one.scrollWidth > one.clientWidth + 1
    || one.getBoundingClientRect().right > innerWidth)
  .map((one) => one.outerHTML)"""


@pytest.mark.parametrize("width", [1_366, 820, 400])
def test_targets_are_24_pixels_high_and_nothing_is_clipped(
    address: str, chromium: Browser, width: int
) -> None:
    with opened(chromium, address, viewport={"width": width, "height": 900}) as page:
        for path in PATHS:
            page.goto(f"{address}{path}")
            assert page.evaluate(_LOW) == [], path
            assert page.evaluate(_CLIPPED) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        page.get_by_text("View", exact=True).click()
        menu = page.locator(".view-menu").bounding_box()
        assert menu is not None
        assert 0 <= menu["x"] <= width - menu["width"]
        page.evaluate("main.insertAdjacentHTML('beforeend', '<button>x</button>')")
        page.evaluate("main.lastChild.style.cssText = 'height: 12px; padding: 0; min-height: 0'")
        assert len(page.evaluate(_LOW)) == 1, "a low target is found"


_BROKEN = """() => [...document.querySelectorAll("table.nodes .whole")]
  .filter((one) => one.getClientRects().length > 1)
  .map((one) => one.textContent)"""

_WIDER = """() => [...document.querySelectorAll("table.nodes")]
  .filter((one) => one.scrollWidth > one.parentElement.clientWidth)
  .map((one) => one.className)"""


@pytest.mark.parametrize("width", [1_366, 820, 768, 400])
def test_types_zones_and_models_are_not_broken_and_their_table_fits(
    lab: Lab, address: str, chromium: Browser, width: int
) -> None:
    spec: dict[str, Any] = {"accelerator_type": "v5litepod-256", "chips": 256, "hosts": 32}
    lab.ran(NOON - 93_000, zone="us-central1-a", slices=2, ttl_seconds=3 * DAY, **spec)
    lab.ran(NOON - 93_000, zone="asia-nowhere1-a", **spec)
    lab.clock.pass_(1)
    with opened(chromium, address, viewport={"width": width, "height": 900}) as page:
        for path in ("/", "/nodes"):
            page.goto(f"{address}{path}")
            names = page.locator("table.nodes .whole").all_text_contents()
            assert {"us-west4-a,", "v5litepod-8", "v5litepod-256", "on_demand"} <= {*names}, path
            assert page.evaluate(_BROKEN) == [], path
            assert page.evaluate(_WIDER) == [], path
            assert page.evaluate(_CLIPPED) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_a_tablet_shows_figures_two_by_two_and_tables(address: str, chromium: Browser) -> None:
    with opened(chromium, address, viewport={"width": 820, "height": 900}) as page:
        boxes = [control.bounding_box() for control in page.locator(".figures > div").all()]
        lefts = [round(box["x"]) for box in boxes if box]
        assert lefts[0] == lefts[2] < lefts[1] == lefts[3]
        assert page.locator("table.nodes").evaluate("it => getComputedStyle(it).display") == "table"


def test_paper_gets_tables_and_no_navigation(address: str, chromium: Browser) -> None:
    with opened(chromium, address, viewport={"width": 718, "height": 900}) as page:
        page.emulate_media(media="print")
        for path in ("/", "/costs", "/prices", "/manual/jobs"):
            page.goto(f"{address}{path}")
            assert not any(
                control.is_visible() for control in page.get_by_role("navigation").all()
            ), path
            assert not any(control.is_visible() for control in page.get_by_role("button").all()), (
                path
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= 718, path
            for table in page.locator("table.nodes").all():
                assert table.evaluate("it => getComputedStyle(it).display") == "table", path


def test_a_system_palette_shows_the_current_page(address: str, chromium: Browser) -> None:
    with opened(chromium, f"{address}/budgets", forced_colors="active") as page:
        links = page.locator(".ways a")
        papers = [
            link.evaluate("it => getComputedStyle(it).backgroundColor") for link in links.all()
        ]
        names = links.all_text_contents()
        [current] = [paper for paper in papers if papers.count(paper) == 1]
        assert names[papers.index(current)] == "Budgets"
