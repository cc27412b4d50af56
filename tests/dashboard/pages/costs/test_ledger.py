"""The lines of a node: all of them, or those that one figure of its costs is the sum of."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.application.nodes.nodes import NodeChange
from service.dashboard.pages.costs import ledger
from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Reattribution
from service.domain.money import parse_usd
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of, text_of
from tests.hands import NOON


def _amounts(page: str) -> list[int]:
    return [nanos_of(row[-1]) for row in cells_of(page)[1:]]


def test_every_line_is_there_and_leads_to_its_explanation(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 3 * HOUR - 77, NOON - 11, name="train")
    page = caller.get(links_of(caller.get(f"/nodes/{node.id}").text)["Every line of its ledger"])
    entries = caller.get(f"/v1/nodes/{node.id}/ledger").json()["entries"]
    *amounts, total = _amounts(page.text)
    assert amounts == [parse_usd(entry["amount"]) for entry in reversed(entries)]
    assert sum(amounts) == total
    assert total == parse_usd(caller.get(f"/v1/nodes/{node.id}/cost").json()["cost"])
    for entry in entries:
        assert f'href="/nodes/{node.id}/ledger/{entry["number"]}"' in page.text


def test_what_is_not_posted_yet_is_a_line_of_its_own(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - HOUR)
    lab.clock.pass_(600)
    page = caller.get(f"/nodes/{node.id}/ledger").text
    rest, posted, total = _amounts(page)
    assert (rest, posted, total) == (1_600_000_000, 9_600_000_000, 11_200_000_000)
    assert "not posted yet, or part of an hour at the start or end" in text_of(
        caller.get(f"/nodes/{node.id}/ledger")
    )


@pytest.mark.parametrize("window", ["mtd", "today", "2026-11-04,2026-11-05", "24h"])
@pytest.mark.parametrize("tz", ["UTC", "Asia/Kolkata"])
def test_a_figure_of_the_costs_leads_to_lines_that_come_to_it(
    lab: Lab, caller: TestClient, window: str, tz: str
) -> None:
    node = lab.ran(NOON - 2 * DAY - 77)
    lab.clock.pass_(777)
    asked = {"window": window, "aggregate": "node", "tz": tz}
    page = caller.get("/costs", params=asked).text
    groups = page[page.index('id="group-heading"') :]
    shown, cents = cells_of(groups)[1][1], cells_of(groups, to_the_cent=True)[1][1]
    inner = caller.get(links_of(groups)[cents]).text
    *amounts, total = _amounts(inner)
    assert total == nanos_of(shown) == sum(amounts)
    assert len(amounts) > 10
    assert node.name in inner


def test_lines_of_another_team_are_left_out(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON, team="vision", labels={"run": "1"})
    lab.clock.pass_(HOUR)
    lab.services.nodes.update(node.id, NodeChange(Reattribution(team=HOSTILE, labels={"run": "2"})))
    lab.clock.pass_(2 * HOUR)
    lab.learned(node)
    everything = caller.get(f"/nodes/{node.id}/ledger")
    assert "<img" not in everything.text
    assert _amounts(everything.text)[-1] == 28_800_000_000
    for only, total in (("team:vision", 9_600_000_000), ("label:run:2", 19_200_000_000)):
        page = caller.get(f"/nodes/{node.id}/ledger", params={"filter": only})
        assert _amounts(page.text)[-1] == total == sum(_amounts(page.text)[:-1])
        assert f"only {only}" in text_of(page)


def test_of_very_many_lines_the_earliest_are_summed(
    lab: Lab, caller: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "LINES_SHOWN", 3)
    node = lab.ran(NOON - 9 * HOUR)
    page = caller.get(f"/nodes/{node.id}/ledger")
    *amounts, total = _amounts(page.text)
    assert len(amounts) == 4
    assert sum(amounts) == total == 86_400_000_000
    assert "6 earlier; choose a shorter time to see them" in text_of(page)


def test_a_node_that_is_not_there_has_no_ledger(caller: TestClient) -> None:
    page = caller.get(f"/nodes/{HOSTILE}/ledger")
    assert page.status_code == 404
    assert "<img" not in page.text


def test_a_window_that_makes_no_sense_is_said_to_make_none(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - HOUR)
    page = caller.get(f"/nodes/{node.id}/ledger?window=5y")
    assert page.status_code == 422
    assert "is not a window" in text_of(page)
