"""The pages in a real browser: no error, nothing from elsewhere, and figures that move."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from service.api.app import create_app
from service.dashboard.kit.figures import format_money
from service.dashboard.routes import add_dashboard
from service.domain.budgets.budget import Threshold
from service.domain.clock import DAY, HOUR
from service.domain.idle.links import Verb
from service.domain.nodes.placement import Outcome
from service.domain.orphans.orphan import OrphanKind
from tests import factories
from tests.bills import json_lines
from tests.commitments import commitment
from tests.dashboard.browsing import CHROMIUM, opened, served
from tests.dashboard.jobs import JobHouse
from tests.dashboard.lab import Lab
from tests.garbage import orphan, shown
from tests.hands import NOON
from tests.linking import tokens_of, told_of
from tests.plantedcommitments import first_file
from tests.purchases import metered
from tests.store.test_recommendations import TODAY, ran

HOSTILE = "<img src=x onerror=document.title='broken'>"

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium is installed: the pages were seen by no browser"
    ),
]


@pytest.fixture
def address(lab: Lab) -> Iterator[str]:
    """Where the lab's dashboard is served."""
    with served(lab) as found:
        yield found


_HALF = (Threshold(50),)


def _filled(lab: Lab) -> str:
    """A lab with nodes of all sorts; answers the id of one with much to tell."""
    lab.ran(NOON - 90_000, NOON - 9_000, name="gone")
    lab.ran(NOON - 900, name="priceless", zone="asia-nowhere1-a", last_error=HOSTILE)
    lab.found(orphan(), orphan(kind=OrphanKind.STRANGER, shown=shown("a-name-that-goes-on" * 4)))
    lab.tried(lab.asked_for(name="nowhere"), (60, Outcome.STOCK_OUT, None))
    lab.services.budgets.create(factories.budget(name="a-name-that-goes-on" * 4, thresholds=_HALF))
    lab.asked_for(name="a-name-that-goes-on-for-forty-nine-characters-yes", owner="x" * 80)
    return lab.ran(NOON - 9_000, name="train", labels={"stage": HOSTILE}).id


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1_280), ("dark", 1_280), ("light", 820), ("dark", 400)]
)
def test_pages_load_without_a_complaint_and_fit(
    lab: Lab, address: str, chromium: Browser, scheme: str, width: int
) -> None:
    node = _filled(lab)
    bought = lab.bought(name="a-name-that-goes-on" * 3, start=NOON - 9 * HOUR, owner="x" * 80).id
    committed = commitment(name="a-name-that-goes-on" * 3, start=NOON - 9 * HOUR, owner="x" * 80)
    lab.services.commitments.record(committed)
    metered(lab.units, lab.clock)
    ran(lab.units, TODAY - 91 * DAY, None)
    lab.services.reconciliations.reconcile(io.BytesIO(json_lines(first_file())), name="x" * 80)
    with opened(chromium, scheme, width) as page:
        for path in (
            "/",
            "/?window=90d&group=team",
            "/nodes",
            "/nodes?state=all&sort=name",
            f"/nodes/{node}",
            "/budgets",
            "/reservations",
            f"/reservations/{bought}",
            f"/reservations/{bought}/ledger",
            "/commitments",
            "/jobs",
            "/jobs?team=nobody",
            "/orphans",
            "/agenda",
            "/capacity",
            "/cleanup",
            "/costs",
            "/costs?window=7d&aggregate=node,owner&step=hour&filter=team:vision",
            f"/nodes/{node}/ledger?window=7d",
            f"/nodes/{node}/ledger/{lab.services.nodes.list_ledger_lines(node, 0, 1)[0].id}",
            "/statements",
            "/statements/2026-11",
            "/prices",
            "/prices?show=all",
            "/commitments/recommended",
            "/reconcile",
        ):
            page.goto(f"{address}{path}")
            is_still = path.startswith("/prices") or "/ledger/" in path
            expect(page.get_by_role("status")).to_have_text("" if is_still else "live")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert "broken" not in page.title()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1_280), ("dark", 1_280), ("dark", 400)])
def test_the_manual_and_the_api_reference_load_without_a_complaint_fit_and_stay(
    lab: Lab, chromium: Browser, scheme: str, width: int
) -> None:
    with served(lab, lab.whole()) as address, opened(chromium, scheme, width) as page:
        for path in (
            *("/manual", "/manual/cleanup", "/manual/promises", "/manual/problems"),
            *("/manual?q=zone", "/docs", "/docs/nodes", "/docs/costs", "/docs?q=zone"),
        ):
            page.goto(f"{address}{path}")
            expect(page.get_by_role("status")).to_have_text("")
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_statement_is_printed_as_tables_without_the_navigation(
    lab: Lab, address: str, chromium: Browser
) -> None:
    lab.ran(NOON - 9_000, team="a-name-that-goes-on" * 4)
    with opened(chromium, "dark", 718) as page:
        page.goto(f"{address}/statements/2026-11")
        expect(page.get_by_role("navigation")).not_to_have_count(0)
        page.emulate_media(media="print")
        expect(page.get_by_role("navigation")).to_have_count(0)
        shown = page.evaluate(
            "['table', 'thead', 'tfoot', 'td'].map(part => getComputedStyle("
            "document.querySelector(`.statement .nodes${part === 'table' ? '' : ' ' + part}`)"
            ").display)"
        )
        assert shown == ["table", "table-header-group", "table-row-group", "table-cell"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 718


def test_the_manual_is_searched_from_any_of_its_pages(address: str, chromium: Browser) -> None:
    with opened(chromium) as page:
        page.goto(f"{address}/manual/jobs")
        page.get_by_label("Search the manual").fill("stockout cooldown")
        page.get_by_label("Search the manual").press("Enter")
        page.get_by_role("link", name="A zone has run out of capacity").click()
        expect(page).to_have_url(re.compile(r"/manual/what-happens-when#a-zone-has-run-out"))
        expect(page.get_by_role("heading", name="A zone has run out")).to_be_in_viewport()


def test_an_operation_is_found_from_the_overview_and_its_problem_is_explained(
    lab: Lab, chromium: Browser
) -> None:
    with served(lab, lab.whole()) as address, opened(chromium) as page:
        page.goto(address)
        page.get_by_role("link", name="API reference").click()
        page.get_by_label("Search the API").fill("reimage framework")
        page.get_by_label("Search the API").press("Enter")
        page.get_by_role("link", name="Reimage a legacy TPU Node").click()
        expect(page).to_have_url(re.compile(r"/docs/nodes#reimage_node$"))
        operation = page.get_by_role("region", name="Reimage a legacy TPU Node")
        expect(operation.get_by_text("/v1/nodes/{node_id}:reimage", exact=True)).to_be_in_viewport()
        operation.get_by_role("link", name="422 runtime-mismatch").click()
        expect(page).to_have_url(re.compile(r"/manual/problems#runtime-mismatch$"))
        expect(page.get_by_role("heading", name="runtime-mismatch")).to_be_in_viewport()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sum_of_two_lines_is_read_without_scrolling_on_a_phone(
    lab: Lab, address: str, chromium: Browser, scheme: str
) -> None:
    node = lab.ran_legacy(NOON - 7_277)
    lab.clock.pass_(777)
    with opened(chromium, scheme, 390) as page:
        page.goto(f"{address}/nodes/{node.id}")
        table = page.locator("table.sums")
        expect(table.get_by_role("row")).to_have_count(6)
        assert table.evaluate("it => it.scrollWidth <= it.parentElement.clientWidth")
        for number in (line.id for line in lab.services.nodes.list_ledger_lines(node.id, 0, 10)):
            page.goto(f"{address}/nodes/{node.id}/ledger/{number}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_first_page_of_all_loads_without_a_complaint(address: str, chromium: Browser) -> None:
    with opened(chromium) as page:
        page.goto(address)
        expect(page.get_by_text("No nodes yet")).to_be_visible()


def test_the_schemes_differ(lab: Lab, address: str, chromium: Browser) -> None:
    seen = []
    for scheme in ("light", "dark"):
        with opened(chromium, scheme) as page:
            page.goto(address)
            seen.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(seen)) == 2


def test_the_chart_is_drawn_and_named(lab: Lab, address: str, chromium: Browser) -> None:
    _filled(lab)
    with opened(chromium) as page:
        page.goto(address)
        chart = page.get_by_role("group", name="Cost by day and generation")
        expect(chart).to_be_visible()
        bars = [bar.bounding_box() for bar in chart.locator(".bar").all()]
        assert len(bars) == 2
        assert all(box is not None and box["height"] > 1 for box in bars)


def test_figures_move_while_one_looks(lab: Lab, address: str, chromium: Browser) -> None:
    node = _filled(lab)
    with opened(chromium) as page:
        page.goto(address)
        page.locator("main details").first.locator("summary").click()
        link = page.get_by_role("link", name="train", exact=True).first
        link.focus()
        lab.clock.pass_(600)
        lab.looked_at()
        newest = lab.ran(lab.clock.now - 60, name="newest")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        row = page.locator(f"#node-{node} td").last
        expect(row).to_have_text(format_money(lab.services.nodes.get_cost(node).cost))
        expect(page.locator(".nodes tbody tr").first).to_have_id(f"node-{newest.id}")
        expect(link).to_be_focused()
        expect(page.get_by_role("region", name=re.compile("as a table"))).to_be_visible()


def test_without_the_script_everything_is_there(lab: Lab, address: str, chromium: Browser) -> None:
    node = _filled(lab)
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    expect(page.locator(f"#node-{node} td").last).to_have_text(
        format_money(lab.services.nodes.get_cost(node).cost)
    )
    expect(page.get_by_role("status")).to_be_empty()
    context.close()


def test_the_keyboard_finds_the_content_first(lab: Lab, address: str, chromium: Browser) -> None:
    _filled(lab)
    with opened(chromium) as page:
        page.goto(address)
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        expect(skip).to_be_focused()
        expect(skip).to_be_in_viewport()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_dollar_can_be_followed_by_clicking(lab: Lab, address: str, chromium: Browser) -> None:
    _filled(lab)
    with opened(chromium) as page:
        page.goto(address)
        page.locator('.figures a[href="/costs?window=mtd"]').click()
        page.get_by_role("link", name="vision", exact=True).last.click()
        page.get_by_title("Ledger lines of this cost").first.click()
        page.get_by_title("Explain this dollar").last.click()
        page.get_by_role("link", name="See it in the price list of that hour").click()
        expect(page.locator("tr:target")).to_be_in_viewport()
        expect(page.locator("tr:target")).to_contain_text("$1.20")


def test_another_question_can_be_typed(lab: Lab, address: str, chromium: Browser) -> None:
    _filled(lab)
    with opened(chromium) as page:
        page.goto(f"{address}/costs")
        page.get_by_text("Custom query").click()
        page.get_by_role("textbox", name="Window").fill("today")
        page.get_by_role("textbox", name="Group by").fill("owner,label:stage")
        page.get_by_role("textbox", name="Filter").fill("team:vision")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("heading", name="By owner, label stage")).to_be_visible()
        expect(page.get_by_text("only team: vision", exact=True)).to_be_visible()


def test_hostile_jobs_load_without_a_complaint_and_fit(house: JobHouse, chromium: Browser) -> None:
    job, failed = house.hostile(), house.failed()
    node = house.jobs.node_of(job)
    with served(house.lab) as address:
        for scheme, width in (("light", 1_280), ("dark", 1_280), ("light", 360)):
            with opened(chromium, scheme, width) as page:
                for path in ("/jobs", f"/jobs/{job.id}", f"/jobs/{failed.id}", f"/nodes/{node.id}"):
                    page.goto(f"{address}{path}")
                    expect(page.get_by_role("status")).to_have_text("live")
                    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_output_of_a_job_is_read_from_its_end_while_it_grows(
    house: JobHouse, chromium: Browser
) -> None:
    job = house.running()
    for number in range(90):
        house.tell(job, f"step {number}")
    with served(house.lab) as address, opened(chromium) as page:
        page.goto(f"{address}/jobs/{job.id}")
        box = page.get_by_role("region", name="Lines of output")
        expect(box.get_by_text("step 89", exact=True)).to_be_in_viewport()
        expect(box.get_by_text("step 0", exact=True)).not_to_be_in_viewport()
        house.lab.clock.pass_(60)
        house.tell(job, "step 90")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(box.get_by_text("step 90", exact=True)).to_be_in_viewport()


def test_from_a_job_to_its_node_and_its_costs_and_back(house: JobHouse, chromium: Browser) -> None:
    _, job, _ = house.in_line()
    with served(house.lab) as address, opened(chromium) as page:
        page.goto(f"{address}/jobs")
        page.get_by_role("link", name="eval-1", exact=True).click()
        page.get_by_role("link", name="shared").first.click()
        page.get_by_role("link", name="eval-1", exact=True).click()
        expect(page.get_by_role("heading", name="eval-1", level=1)).to_be_visible()
        page.get_by_role("link", name="Costs of this job").click()
        expect(page.get_by_text(f"only job: {job.id}")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1_280), ("dark", 360)])
def test_a_link_in_a_message_is_used_by_a_person_without_a_token_of_the_service(
    lab: Lab, chromium: Browser, scheme: str, width: int
) -> None:
    app = create_app(lab.services, "s3cret-t0ken")
    add_dashboard(app)
    name = "a-name-that-goes-on-for-forty-nine-characters-yes"
    node = told_of(lab.units, name=name, owner="x" * 80)
    with served(lab, app) as address, opened(chromium, scheme, width) as page:
        page.goto(f"{address}/links/{tokens_of(lab.units, node)[Verb.KEEP]}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("getComputedStyle(document.body).maxWidth") == "704px", "it has styles"
        page.get_by_role("button", name="Keep the node").click()
        expect(page.get_by_text("kept until 2026-11-05T16:00:00Z.")).to_be_visible()
        expect(page.get_by_role("button")).to_have_count(0)
    assert lab.services.nodes.get(node.id).kept_until == NOON + 4 * HOUR
