"""The pages over real services: what they say is what the services say, and text stays text."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from html import unescape
from typing import Any, NoReturn

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from service.application.answers import NEXT
from service.application.costs.costs import CostQuestion
from service.application.costs.forecasts import month_before, month_of
from service.dashboard.kit.figures import format_exact, format_money
from service.dashboard.pages import overview
from service.dashboard.pages.overview import NODES
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.costs.forecast import Band, Method, Snapshot
from service.domain.errors import StoreUnavailable
from service.domain.event import Event
from service.domain.nodes.node import NodeState
from service.domain.nodes.placement import Outcome
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, text_of
from tests.dashboard.reading import links_of as links_of_page
from tests.garbage import orphan
from tests.hands import NOON


def _cents(shown: str) -> int:
    return int(shown.replace("$", "").replace(",", "").replace(".", "")) if "$" in shown else 0


def test_the_figures_are_those_of_the_services(lab: Lab, browser: TestClient) -> None:
    lab.lives_a_month()
    said = text_of(browser.get("/"))
    fleet = lab.services.health.read_fleet()
    month = lab.services.costs.report(CostQuestion(window="mtd"))
    today = lab.services.costs.report(CostQuestion(window="today"))
    assert f"Burning now {format_money(fleet.burn)} /h 4 Nov, 12:00 to 13:00 UTC:" in said
    assert " 3 nodes READY" in said
    assert f"Month to date {format_money(month.total)} day 5 of 30, as of 12:12:57 UTC" in said
    assert f"{format_money(today.total)} today" in said
    assert fleet.burn > 0
    assert today.total > 0


@pytest.mark.parametrize("group", ["generation", "team", "provisioning_model"])
@pytest.mark.parametrize("window", ["7d", "30d", "90d"])
def test_every_cent_of_the_table_adds_up_to_the_total(
    lab: Lab, browser: TestClient, window: str, group: str
) -> None:
    lab.lives_a_month()
    report = lab.services.costs.report(CostQuestion(window=window, aggregate=(group,)))
    page = browser.get("/", params={"window": window, "group": group})
    head, *days, foot = cells_of(page.text[page.text.index("chart-heading") :])
    assert head[:2] == ["Day (UTC)", "Total"]
    assert len(days) == int(window.removesuffix("d"))
    assert foot[1] == format_money(report.total)
    for _, total, *parts in [*days, foot]:
        assert _cents(total) == sum(map(_cents, parts))
    for column in range(1, len(head)):
        assert sum(_cents(row[column]) for row in days) == _cents(foot[column])
    assert (
        f"{format_money(report.total)} in {window.removesuffix('d')} days, still running"
        in text_of(page)
    )


def test_what_makes_no_sense_in_the_address_counts_as_not_said(browser: TestClient) -> None:
    page = browser.get("/", params={"window": "9y", "group": HOSTILE})
    assert page.status_code == 200
    assert HOSTILE not in page.text


def test_text_from_outside_stays_text(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(
        NOON - 60,
        name=HOSTILE,
        owner=HOSTILE,
        team=HOSTILE,
        labels={"stage": HOSTILE},
        last_error=f"no capacity {HOSTILE}",
        delete_reason=HOSTILE,
        health=HOSTILE,
    )
    with lab.units() as unit:
        unit.events.add(Event(node.id, NOON, "note", HOSTILE, HOSTILE))
    lab.ran(NOON - 60, NOON, name="gone", last_error=HOSTILE)
    for address in ("/?group=team", f"/nodes/{node.id}"):
        page = browser.get(address)
        assert page.status_code == 200
        assert "<img" not in page.text
        assert HOSTILE in unescape(page.text)


def test_pages_obey_the_policy(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - 7_200)
    lab.found(orphan())
    lab.tried(lab.asked_for(), (60, Outcome.STOCK_OUT, None))
    line = lab.services.nodes.list_ledger_lines(node.id, 0, 1)[0].id
    for address in (
        "/",
        f"/nodes/{node.id}",
        f"/nodes/{node.id}/ledger",
        f"/nodes/{node.id}/ledger/{line}",
        "/nodes/none",
        "/nodes",
        "/orphans",
        "/agenda",
        "/capacity",
        "/cleanup",
        "/costs?step=day",
        "/costs?window=5y",
        "/statements",
        "/statements/2026-11",
        "/prices",
        "/prices?at=never",
        "/commitments/recommended",
    ):
        html = browser.get(address).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", html)
        scripts = re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL)
        assert all("src=" in attributes and not body for attributes, body in scripts)
        links = re.findall(r'(?:src|href)="([^"]*)', html)
        assert all(link.startswith(("/", "#")) for link in links)


def test_static_files_are_served(browser: TestClient) -> None:
    html = browser.get("/").text
    for address in re.findall(r'"(/static/[^"]*)', html):
        assert browser.get(address).status_code == 200


def test_a_page_is_never_kept(browser: TestClient) -> None:
    assert browser.get("/").headers["cache-control"] == "no-store"


def test_nothing_is_doubted_while_all_is_well(lab: Lab, browser: TestClient) -> None:
    lab.ran(NOON - 60)
    assert 'class="notice"' not in browser.get("/").text


def test_a_picture_that_is_too_old_is_called_so(lab: Lab, browser: TestClient) -> None:
    lab.clock.pass_(600)
    said = text_of(browser.get("/"))
    assert "the cloud was last polled 10 min ago, at 2026-11-05 11:59:50 UTC" in said


def test_that_nobody_is_in_charge_is_said(lab: Lab, browser: TestClient) -> None:
    lab.looked_at(held=False)
    assert "Project lab: no daemon holds its lease." in text_of(browser.get("/"))


def test_a_cloud_that_was_never_looked_at_is_called_so(lab: Lab) -> None:
    other = Lab(lab.units, lab.clock, ("elsewhere",))
    with TestClient(other.app(), base_url="http://localhost") as browser:
        assert "Project elsewhere: the cloud was never polled" in text_of(browser.get("/"))


def test_no_project_is_worth_a_word(lab: Lab) -> None:
    with TestClient(Lab(lab.units, lab.clock, ()).app(), base_url="http://localhost") as browser:
        assert "set STEWARD_PROJECTS" in text_of(browser.get("/"))


def test_what_has_no_price_is_not_free(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - 600, zone="asia-nowhere1-a")
    said = text_of(browser.get("/"))
    assert "1 READY node has no known price: what it costs is in no figure here." in said
    assert "no price not known" in said
    story = text_of(browser.get(f"/nodes/{node.id}"))
    assert "No price is known for 10 min of its use." in story
    assert "Cost so far not known" in story


def test_before_the_first_node_there_is_one_command_to_type(browser: TestClient) -> None:
    said = text_of(browser.get("/"))
    assert "No nodes yet" in said
    assert '<a href="/nodes/new">Create a node</a>' in browser.get("/").text
    assert """curl http://localhost/v1/nodes \\ -H 'Content-Type: application/json'""" in said
    assert "Authorization" not in said
    assert "nothing is READY" in said


def test_where_a_token_was_needed_the_command_has_one(browser: TestClient) -> None:
    said = text_of(browser.get("/", headers={"Authorization": "Basic c3Rld2FyZDpzZWNyZXQ="}))
    assert '-H "Authorization: Bearer $STEWARD_ADMIN_TOKEN"' in said


def test_a_strange_host_gets_into_no_command(browser: TestClient) -> None:
    said = text_of(browser.get("/", headers={"Host": "x$(reboot)"}))
    assert "reboot" not in said
    assert "curl http://127.0.0.1:8080/v1/nodes" in said


def test_the_table_shows_each_live_node(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - 7_200, name="train", owner="grace", team="language")
    page = browser.get("/")
    shown = cells_of(page.text[page.text.index("Live nodes") :])
    cost = lab.services.nodes.get_cost(node.id)
    [row] = shown[1:]
    assert row[0] == "train"
    assert row[1:4] == ["grace", "language", "v5litepod-8 us-west4-a, on_demand"]
    assert row[4].split() == ["READY"]
    assert row[5] == "2 h 5 min"
    assert row[7] == format_money(cost.cost)
    assert f'href="/nodes/{node.id}"' in page.text


def test_the_first_page_leads_to_the_form_for_the_first_budget(
    lab: Lab, browser: TestClient
) -> None:
    lab.ran(NOON - 7_200)
    links = links_of_page(browser.get("/").text)
    assert links["Create a budget"] == "/budgets/new"
    lab.services.budgets.create(factories.budget())
    lab.clock.pass_(1)
    assert "Create a budget" not in links_of_page(browser.get("/").text)


def test_a_rate_that_is_not_charged_yet_says_so(lab: Lab, browser: TestClient) -> None:
    lab.asked_for(state=NodeState.CREATING)
    assert "once READY" in text_of(browser.get("/"))


def test_what_ended_does_not_just_vanish(lab: Lab, browser: TestClient) -> None:
    lab.ran(NOON - 7_200, NOON - 60, name="gone", state=NodeState.FAILED, last_error="why")
    said = text_of(browser.get("/"))
    assert "None. No node runs or waits." in said
    assert "Recently ended All ended nodes gone v5litepod-8 FAILED 2026-11-05 11:59:00 UTC" in said
    assert "why" in said


def test_the_first_page_tells_what_happened_last(lab: Lab, browser: TestClient) -> None:
    lab.ran(NOON - 600, name="train")
    node = lab.ran(NOON - 500, name="eval")
    with lab.units() as unit:
        unit.events.add(
            Event(node.id, NOON - 9, "runtime", "v2 was chosen"),
            Event(node.id, NOON - 8, "alarm", "the deletion has not ended", "<i>ada</i>"),
        )
    page = browser.get("/").text
    part = page[page.index("Latest events") :]
    part = part[: part.index("</section>")]
    assert "The deletion has not ended." in part
    assert ", &lt;i&gt;ada&lt;/i&gt;" in part
    assert f'href="/nodes/{node.id}"' in part
    assert "v2 was chosen" not in part
    latest = part.split("<li>")[1:]
    assert "eval" in latest[0]
    assert len(latest) <= 8


def test_a_node_that_has_ended_has_a_lifetime_and_a_final_cost(
    lab: Lab, browser: TestClient
) -> None:
    node = lab.ran(NOON - 7_200, NOON - 60, state=NodeState.FAILED)
    said = text_of(browser.get(f"/nodes/{node.id}"))
    assert "Lived 2 h 4 min requested" in said
    assert f"Cost {format_money(lab.services.nodes.get_cost(node.id).cost)} as of" in said
    assert "Cost so far" not in said


def test_the_first_page_shows_the_nodes_that_cost_most(lab: Lab, browser: TestClient) -> None:
    for number in range(NODES + 1):
        lab.ran(NOON - 600, name=f"run-{number}", chips=8 * (number + 1))
    lab.asked_for(name="newest", chips=1_024)
    page = browser.get("/")
    shown = re.findall(r">(run-\d+|newest)</a></th>", page.text)
    assert shown == [f"run-{number}" for number in range(NODES, 0, -1)]
    assert f"Live nodes {NODES} of {NODES + 2}, by cost per hour" in text_of(page)
    assert links_of_page(page.text)["All nodes"] == "/nodes"


def test_the_columns_of_the_last_day_are_the_costs_of_its_hours(
    lab: Lab, browser: TestClient
) -> None:
    node = lab.ran(NOON - 3 * HOUR, NOON - HOUR)
    lab.ran(NOON - HOUR // 2, chips=4, name="half")
    lab.clock.pass_(60)
    page = browser.get("/").text
    spark, _, table = page[page.index('class="spark"') :].partition("</svg>")
    heights = [int(height) for height in re.findall(r'height="(\d+)"/', spark)]
    per_hour = lab.services.nodes.get_cost(node.id).cost // 2
    # 24 full hours; the last one has a quarter of the cost, and the hour that runs is left out
    assert heights == [*[0] * 21, 28, 28, 7]
    assert f"The last 24 full hours: at most {format_money(per_hour)} in one hour" in spark
    titles = re.findall(r"<title>(.*?)</title>", spark)
    assert titles[0] == "4 Nov, 12:00 to 13:00 UTC: $0.00"
    assert titles[-1] == f"5 Nov, 11:00 to 12:00 UTC: {format_money(per_hour // 4)}"
    assert re.findall(r'role="img" tabindex="(.*?)"', spark) == [*["-1"] * 23, "0"]
    assert f">10:00 {format_money(per_hour)}</text>" in spark
    _, *rows, foot = cells_of(table)
    assert [f"{name} UTC: {cost}" for name, cost in reversed(rows)] == titles
    assert sum(_cents(cost) for _, cost in rows) == _cents(foot[1])


def test_nobody_waits_for_the_first_page_of_a_large_fleet_and_it_says_as_of_when(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "LARGE_FLEET", 1)
    lab.ran(NOON - 600, name="first")
    assert "as of 12:00:00 UTC" in text_of(browser.get("/"))
    lab.clock.pass_(30)
    lab.ran(NOON, name="newcomer")
    old = text_of(browser.get("/"))
    assert "as of 12:00:00 UTC" in old
    assert "newcomer" not in old
    for thread in threading.enumerate():
        if thread.name == NEXT:
            thread.join()
    new = text_of(browser.get("/"))
    assert "as of 12:00:30 UTC" in new
    assert "newcomer" in new


def test_a_node_explains_its_cost_to_the_last_nano_dollar(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - 2 * HOUR - 100)
    lab.clock.pass_(777)
    cost = lab.services.nodes.get_cost(node.id)
    page = browser.get(f"/nodes/{node.id}")
    _, *parts, total = cells_of(page.text[page.text.index("How the cost is made") :])
    assert total[-1] == format_exact(cost.cost)
    assert [part[0] for part in parts] == ["posted to the ledger", "since then, not yet posted"]
    assert [part[1].split()[-2:] for part in parts] == [["7,300", "s"], ["777", "s"]]
    assert f"Cost so far {format_money(cost.cost)}" in text_of(page)


def test_a_node_tells_what_happened_to_it(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - HOUR, labels={"stage": "eval"}, name="train")
    said = text_of(browser.get(f"/nodes/{node.id}"))
    assert "us-west4-a, on_demand: ready, open for 1 h 4 min" in said
    assert "The node is READY. 2026-11-05 11:00:00 UTC, steward" in said
    assert "Label stage eval" in said
    assert "First READY 2026-11-05 11:00:00 UTC" in said


def test_a_node_that_never_ran_cost_nothing(lab: Lab, browser: TestClient) -> None:
    node = lab.asked_for()
    said = text_of(browser.get(f"/nodes/{node.id}"))
    assert "Nothing was charged" in said
    assert "None yet: nothing was sent to the cloud." in said


def test_spot_says_what_it_saved(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - HOUR, provisioning_model=ProvisioningModel.SPOT)
    cost = lab.services.nodes.get_cost(node.id)
    assert cost.list_cost is not None
    said = text_of(browser.get(f"/nodes/{node.id}"))
    assert f"On demand {format_money(cost.list_cost)}" in said
    assert f"{format_money(cost.list_cost - cost.cost)} saved" in said


def test_a_node_that_is_not_there_is_a_page_too(browser: TestClient) -> None:
    page = browser.get(f"/nodes/{HOSTILE}")
    assert page.status_code == 404
    assert "There is no such node" in text_of(page)
    assert "<img" not in page.text


def test_a_database_that_cannot_be_used_is_told_in_words(lab: Lab) -> None:
    class Broken:
        def read_stamp(self) -> NoReturn:
            raise StoreUnavailable("the database has no tables yet; run: tpu-steward migrate")

    app = lab.app()
    app.state.services = replace(lab.services, health=Broken())  # type: ignore[arg-type]
    with TestClient(app, base_url="http://localhost") as browser:
        page = browser.get("/")
    assert page.status_code == 503
    assert "run: tpu-steward migrate" in text_of(page)


@pytest.mark.parametrize("path", ["/", "/links/secret-token", "/nodes/n/delete"])
def test_an_error_of_the_service_is_a_page_with_the_number_of_the_request(
    lab: Lab, path: str, capfd: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> NoReturn:
            raise RuntimeError("planted")

    app = lab.whole()
    broken: Any = Broken()
    app.state.services = replace(lab.services, health=broken, links=broken, nodes=broken)
    headers = {"Accept": "text/html", "X-Request-Id": "r-17"}
    with TestClient(app, base_url="http://localhost") as browser:
        page = browser.get(path, headers=headers)
        other = browser.get(path, headers={"Accept": "application/json"})
    assert page.status_code == other.status_code == 500
    assert "Its log has the reason at request r-17." in text_of(page)
    assert "planted" not in page.text
    assert other.json()["type"].endswith("internal-error")
    said = capfd.readouterr()
    assert "planted" in said.out + said.err
    assert page.headers["content-type"].startswith("text/html")


def test_today_is_the_last_column(lab: Lab, browser: TestClient) -> None:
    lab.ran(floor_to(NOON, DAY) - DAY)
    page = browser.get("/?window=7d")
    assert "Thursday 5 Nov 2026 (UTC): $115.20" in unescape(page.text)
    assert "Stacked columns, one for each UTC day from 30 Oct 2026 to 5 Nov 2026" in text_of(page)
    assert len(re.findall(r'<g class="day', page.text)) == 7


def test_what_a_legacy_node_costs_elsewhere_is_told_on_its_page(
    lab: Lab, browser: TestClient
) -> None:
    legacy = lab.asked_for(architecture=Architecture.NODE)
    told = "the VM that drives the legacy TPU Node is billed by Compute Engine"
    assert told in browser.get(f"/nodes/{legacy.id}").text
    assert told not in browser.get(f"/nodes/{lab.asked_for().id}").text


TOP = ["/", "/nodes", "/jobs", "/costs", "/budgets", "/capacity", "/cleanup", "/orphans"]
COSTS = ["/costs", "/statements", "/reservations", "/commitments", "/prices", "/reconcile"]


def links_of(page: Response) -> list[tuple[str, str]]:
    """The links between pages, each with what it says of where one is."""
    navs = re.findall(r'<nav class="ways.*?</nav>', page.text, re.DOTALL)
    return re.findall(r'href="([^"]*)"(?: aria-current="(.*?)")?', "".join(navs))


@pytest.mark.parametrize("path", [way for way in TOP if way not in COSTS])
def test_every_page_says_where_one_is_among_the_others(browser: TestClient, path: str) -> None:
    found = links_of(browser.get(path))
    assert found == [(way, "page" if way == path else "") for way in TOP]


@pytest.mark.parametrize("path", COSTS)
def test_the_pages_of_costs_are_under_that_link(browser: TestClient, path: str) -> None:
    top = [(way, "true" if way == "/costs" else "") for way in TOP]
    assert links_of(browser.get(path)) == [
        *top,
        *((way, "page" if way == path else "") for way in COSTS),
    ]


def test_a_page_below_another_says_under_which_it_is(browser: TestClient) -> None:
    found = links_of(browser.get("/commitments/recommended"))
    assert [link for link in found if link[1]] == [("/costs", "true"), ("/commitments", "true")]


def test_the_forecast_stands_beside_the_month_with_its_band_and_its_method(
    lab: Lab, browser: TestClient
) -> None:
    lab.lives_a_month()
    found = lab.services.forecasts.forecast_period({})
    page = browser.get("/").text
    said = text_of(browser.get("/"))
    band = f"{format_money(found.total.low)} to {format_money(found.total.high)}"
    assert f"Forecast for the month {format_money(found.total.mid)} {band}" in said
    assert f'title="{found.method_sentence}"' in page
    assert f'<a class="figure" href="/budgets">{format_money(found.total.mid)}</a>' in page
    assert 'class="run-rate"' not in page
    assert '<a class="figure" href="/nodes">' in page


def test_the_forecast_says_how_wrong_it_was_last_month(lab: Lab, browser: TestClient) -> None:
    last = month_before(month_of(NOON))
    band = Band(1, 90, 95)
    one = Snapshot("", last, last.start, last.start, band, Method.RUN_RATE, 100, NOON)
    with lab.units() as unit:
        unit.forecasts.add([one])
    page = browser.get("/")
    said = text_of(page)
    assert "Forecast for the month $0.00 a run-rate, from 0 full days of history" in said
    assert re.search(r'<div class="run-rate"[^>]*>\s*<dt>Forecast for the month</dt>', page.text)
    assert "Last month's, at half time, was 10.0 % too low." in said.replace("&#39;", "'")
