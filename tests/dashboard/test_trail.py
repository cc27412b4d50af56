"""Every figure can be followed by hand, from the first page down to the price list."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from service.application.nodes.nodes import NodeChange
from service.dashboard.kit.figures import format_exact, format_money
from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Reattribution
from service.domain.metering.meter import Evidence
from service.domain.money import half_even, parse_usd
from service.domain.pricing.discounts import Discount
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import cells_of, links_of, nanos_of, text_of
from tests.hands import NOON

OCTOBER = NOON - 12 * DAY


@pytest.fixture
def lived(lab: Lab) -> Lab:
    """A month with all that makes figures hard: a discount, a price that changed, a node that went
    to another team, an end that was known late, and one of a month that was closed."""
    lab.clock.now = OCTOBER
    late = lab.ran(OCTOBER - 5 * HOUR - 31, OCTOBER - 7, name="late")
    lab.clock.now = NOON - 3 * DAY
    moved = lab.ran(NOON - 3 * DAY - 4_321, name="moved", team="vision")
    lab.services.prices.discounts.add(Discount("", "v5e", "", 333_333, 0, None, "our contract"))
    lab.clock.pass_(5 * HOUR + 11)
    lab.services.nodes.update(moved.id, NodeChange(Reattribution(team="language")))
    lab.services.prices.add(factories.price(1_333_333_333, effective_from=NOON - 2 * DAY + 71))
    lab.clock.now = NOON
    lab.learned(late, end=OCTOBER - 900, end_lo=OCTOBER - 940, end_evidence=Evidence.OBSERVED)
    lab.learned(moved)
    lab.lives_a_month()
    return lab


def _rows(page: str) -> list[list[str]]:
    return cells_of(page[page.index('id="group-heading"') :])[1:-1]


@pytest.mark.deep
def test_from_the_first_page_to_the_price_list_step_by_step(lived: Lab, caller: TestClient) -> None:
    first = caller.get("/")
    shown = re.search(r"Month to date (\S+)", text_of(first))
    assert shown is not None
    costs = caller.get(links_of(first.text)[shown[1]])
    total = caller.get("/v1/costs?window=mtd").json()["total"]
    assert format_money(parse_usd(total)) == shown[1]
    assert sum(nanos_of(row[1]) for row in _rows(costs.text)) == parse_usd(total)
    for team in _rows(costs.text):
        nodes = caller.get(links_of(costs.text)[team[0]]).text
        assert sum(nanos_of(row[1]) for row in _rows(nodes)) == nanos_of(team[1])
        for row in _rows(nodes):
            lines = caller.get(_lines_of(nodes, row[0])).text
            *amounts, sum_ = (nanos_of(cells[-1]) for cells in cells_of(lines)[1:])
            assert sum(amounts) == sum_ == nanos_of(row[1])
            _follow_the_newest(caller, lines)


def _lines_of(nodes: str, name: str) -> str:
    """Where the cost in the row of a node leads."""
    groups = nodes[nodes.index('id="group-heading"') :]
    row = next(row for row in re.findall(r"<tr.*?</tr>", groups, re.DOTALL) if f">{name}<" in row)
    return links_of(row)[cells_of(f"<table>{row}</table>", to_the_cent=True)[0][1]]


def _follow_the_newest(caller: TestClient, lines: str) -> None:
    """From the newest line of a page to its price, by the links and by the API."""
    address = re.findall(r'href="(/nodes/[^"]*/ledger/\d+)"', lines)[0]
    page = caller.get(address).text
    said = caller.get(links_of(page)["Export JSON"]).json()
    entry, price = said["entry"], said["price"]
    amount, paid = parse_usd(entry["amount"]), parse_usd(entry["usd_per_chip_hour"])
    assert format_exact(amount) in re.sub(r"<[^>]*>", "", page)
    assert abs(half_even(entry["chip_seconds"] * paid, HOUR) - amount) <= 1
    listing, _, anchor = links_of(page)["See it in the price list of that hour"].partition("#")
    row = re.search(
        rf'<tr role="row" id="{re.escape(anchor.replace("%2F", "/"))}">.*?</tr>',
        caller.get(listing).text,
        re.DOTALL,
    )
    assert row is not None
    assert format_exact(paid) in row[0]
    assert price["source"] in row[0]
    assert format_exact(parse_usd(price["usd"])) in row[0]


@pytest.mark.deep
@pytest.mark.parametrize("window", ["2026-10-01,2026-11-01", "30d", "2026-11-02,2026-11-05"])
@pytest.mark.parametrize("tz", ["UTC", "America/St_Johns"])
def test_every_node_of_every_window_is_the_sum_of_its_lines(
    lived: Lab, caller: TestClient, window: str, tz: str
) -> None:
    asked = {"window": window, "aggregate": "node", "tz": tz}
    nodes = caller.get("/costs", params=asked).text
    said = {
        row["node"]: row["cost"]
        for row in caller.get("/v1/costs", params=asked | {"step": "all"}).json()["rows"]
    }
    assert len(_rows(nodes)) == len(said)
    for name, of_node, *_ in _rows(nodes):
        address = _lines_of(nodes, name)
        *amounts, sum_ = (nanos_of(row[-1]) for row in cells_of(caller.get(address).text)[1:])
        assert sum(amounts) == sum_ == nanos_of(of_node) == parse_usd(said[address.split("/")[2]])


@pytest.mark.deep
def test_each_line_of_a_node_page_leads_to_its_explanation(lived: Lab, caller: TestClient) -> None:
    node = next(row for row in _rows(caller.get("/costs?window=30d&aggregate=node").text))
    nodes = caller.get("/costs?window=30d&aggregate=node").text
    page = caller.get(links_of(nodes)[node[0]]).text
    numbers = re.findall(r'href="(/nodes/[^"]*/ledger/\d+)"[^>]*>([^<]*\$[^<]*)<', page)
    assert len(numbers) > 10
    for address, shown in numbers[:10]:
        assert nanos_of(shown) == parse_usd(caller.get(f"/v1{address}").json()["entry"]["amount"])
        assert caller.get(address).status_code == 200


@pytest.mark.deep
def test_a_month_billed_is_the_sum_of_what_the_ledger_bills_in_it(
    lived: Lab, caller: TestClient
) -> None:
    months = caller.get("/statements")
    for statement in caller.get("/v1/statements").json()["statements"]:
        page = caller.get(links_of(months.text)[statement["period"]]).text
        tables = page[page.index('id="own-heading"') :].split("<table")[1:]
        rows = [row for part in tables for row in cells_of(f"<table{part}")[1:-1]]
        assert sum(nanos_of(row[-1]) for row in rows) == parse_usd(statement["amount"])
