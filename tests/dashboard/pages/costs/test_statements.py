"""Months as pages: what each comes to, line by line, and whether that may still change."""

from __future__ import annotations

import csv
import io

import pytest
from fastapi.testclient import TestClient

from service.domain.clock import DAY, HOUR
from service.domain.money import parse_usd
from service.domain.nodes.node import Node
from tests import books, factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of, text_of
from tests.hands import NOON

OCTOBER = NOON - 10 * DAY


def _two_months(lab: Lab, **changes: str) -> Node:
    """Two hours in October, which are known to be one and a half in November; two of that."""
    lab.clock.now = OCTOBER
    node = lab.ran(OCTOBER - 2 * HOUR, OCTOBER, **changes)
    lab.clock.now = NOON
    lab.learned(node, end=OCTOBER - 1_800, end_lo=OCTOBER - 1_800)
    lab.ran(NOON - 2 * HOUR, team="vision")
    lab.ran(NOON - 2 * HOUR, NOON - HOUR, zone="us-east5-a", team="nlp")
    return node


def test_before_anything_was_charged_it_is_said_so(caller: TestClient) -> None:
    assert "No charges yet." in text_of(caller.get("/statements"))


def test_months_are_listed_with_what_may_still_become_of_them(lab: Lab, caller: TestClient) -> None:
    _two_months(lab)
    page = caller.get("/statements")
    said = text_of(page)
    assert "2026-11 open Open: posted so far" in said
    assert "2026-10 closed Closed since 2026-11-04 00:00:00 UTC: the sum is final" in said
    for statement in caller.get(links_of(page.text)["Export JSON"]).json()["statements"]:
        inner = caller.get(links_of(page.text)[statement["period"]])
        assert f"Billed in this month ${statement['amount'].rstrip('0')}" in _plain(inner.text)


def _plain(html: str) -> str:
    return " ".join(
        html.replace('<span class="nanos">', "").replace("</span>", "").split()
    ).replace('</dt> <dd><span class="figure">', " ")


def test_a_month_that_is_over_says_until_when_it_takes_what_comes_late(
    lab: Lab, caller: TestClient
) -> None:
    lab.ran(NOON - HOUR)
    lab.clock.pass_(26 * DAY)
    said = text_of(caller.get("/statements/2026-11"))
    assert "provisional" in said
    assert "late corrections still go into it until 2026-12-04 00:00:00 UTC." in said


@pytest.mark.parametrize("month", ["2026-10", "2026-11"])
def test_the_lines_are_those_of_the_api_and_add_up(
    lab: Lab, caller: TestClient, month: str
) -> None:
    _two_months(lab)
    page = caller.get(f"/statements/{month}").text
    said = caller.get(links_of(page)["Export JSON"]).json()
    _, _, lines = page.partition('id="own-heading"')
    own, _, corrections = lines.partition("Corrections of closed months")
    rows = [*cells_of(own)[1:-1], *(cells_of(corrections)[1:-1] if corrections else [])]
    assert [nanos_of(row[-1]) for row in rows] == [
        parse_usd(line["amount"]) for line in said["lines"]
    ]
    assert sum(nanos_of(row[-1]) for row in rows) == parse_usd(said["amount"])
    sums = [cells_of(part)[-1][-1] for part in (own, corrections) if part]
    assert sum(map(nanos_of, sums)) == parse_usd(said["amount"])
    file = caller.get(links_of(page)["Export CSV"]).text
    assert [row["amount"] for row in csv.DictReader(io.StringIO(file))] == [
        line["amount"] for line in said["lines"]
    ]


def test_corrections_stand_apart_with_the_month_that_they_correct(
    lab: Lab, caller: TestClient
) -> None:
    _two_months(lab, team=HOSTILE)
    page = caller.get("/statements/2026-11")
    _, _, corrections = page.text.partition("Corrections of closed months")
    (row,) = cells_of(corrections)[1:-1]
    assert row[1] == "2026-10"
    assert nanos_of(row[-1]) == -4_800_000_000
    assert "<img" not in page.text
    assert "Corrections" not in caller.get("/statements/2026-10").text


def test_a_line_leads_to_its_nodes_and_to_its_price(lab: Lab, caller: TestClient) -> None:
    node = _two_months(lab, team='a, "b"', owner=HOSTILE)
    page = caller.get("/statements/2026-10").text
    inner = caller.get(links_of(page)[f'a, "b", {HOSTILE}'])
    assert links_of(inner.text)[node.name] == f"/nodes/{node.id}"
    prices = caller.get(links_of(page)["$1.20"]).text
    assert [row[3] for row in cells_of(prices)[1:]] == ["$1.20a chip-hour"]


def test_a_price_that_changed_within_the_month_is_found_where_it_held(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran(NOON)
    lab.services.prices.add(factories.price(1_500_000_000, effective_from=NOON + HOUR))
    lab.clock.pass_(2 * HOUR)
    lab.learned(node)
    page = caller.get("/statements/2026-11").text
    for price in ("$1.20", "$1.50"):
        prices = caller.get(links_of(page)[price]).text
        assert [row[3] for row in cells_of(prices)[1:]] == [f"{price}a chip-hour"]


def test_what_is_no_node_is_told_from_what_is_and_leads_to_its_price(
    lab: Lab, caller: TestClient
) -> None:
    books.kept(lab.units, lab.clock)
    page = caller.get("/statements/2026-11").text
    rows = {row[1]: row for row in cells_of(page[page.index('id="own-heading"') :])[1:-1]}
    assert set(rows) == {
        "n1-standard-8, on_demand",
        "v2-8, on_demand",
        "v5e, reserved, unused of march",
        "v5litepod-8, on_demand",
        "v5litepod-8, reserved in march",
    }
    assert rows["n1-standard-8, on_demand"][5] == "4.983333333 of the VM"
    assert "VM-hours 4.983333333 of the VMs that drive legacy TPU Nodes" in " ".join(
        text_of(caller.get("/statements/2026-11")).split()
    )
    for price, kind in (("$0.379998 an hour", "n1-standard-8"), ("$0.84", "calendar")):
        prices = caller.get(links_of(page)[price]).text
        assert kind in prices
        assert price.partition(" ")[0] in prices


def test_a_month_without_charges_is_one_too(caller: TestClient) -> None:
    assert "Used in this month" in text_of(caller.get("/statements/2020-01"))


@pytest.mark.parametrize("name", ["2026-13", "november", "0001-01", HOSTILE])
def test_what_is_no_month_is_said_to_be_none(caller: TestClient, name: str) -> None:
    page = caller.get(f"/statements/{name}")
    assert page.status_code == 422
    assert "is not a month; write it as 2026-11" in text_of(page)
    assert links_of(page.text)["All months"] == "/statements"


def test_the_subtotals_of_teams_and_of_their_hardware_add_up_to_the_month(
    lab: Lab, caller: TestClient
) -> None:
    _two_months(lab)
    lab.ran(NOON - 3 * HOUR, team="vision", accelerator_type="v6e-8", generation="v6e")
    lab.ran_legacy(NOON - 2 * HOUR, NOON - HOUR, team="")
    page = caller.get("/statements/2026-11")
    said = caller.get(links_of(page.text)["Export JSON"]).json()
    _, *rows, total = cells_of(page.text)
    sums: dict[str, int] = {}
    for line in said["lines"]:
        kind = f"{line['accelerator_type']}, {line['provisioning_model']}"
        for key in (line["team"] or "(no team)", f"{line['team'] or '(no team)'}/{kind}"):
            sums[key] = sums.get(key, 0) + parse_usd(line["amount"])
    found, team = {}, ""
    for name, _, amount in rows:
        team, key = (team, f"{team}/{name}") if ", " in name else (name, name)
        found[key] = nanos_of(amount)
    assert found == sums
    assert next(iter(found)) == "vision"
    assert nanos_of(total[2]) == parse_usd(said["amount"])
    assert nanos_of(total[2]) == sum(nanos for name, nanos in found.items() if "/" not in name)
    assert "November 2026" in text_of(page)
    address = links_of(page.text)["nlp"]
    assert "filter=team%3Anlp" in address
    costs = caller.get(address.replace("/costs", "/v1/costs"))
    assert costs.status_code == 200


@pytest.mark.parametrize("team", ["\u202e\u05d0\u05d1", "\U0001f680", "x" * 63])
def test_a_strange_team_has_its_subtotal(lab: Lab, caller: TestClient, team: str) -> None:
    lab.ran(NOON - 2 * HOUR, team=team)
    assert cells_of(caller.get("/statements/2026-11").text)[1][0] == team
