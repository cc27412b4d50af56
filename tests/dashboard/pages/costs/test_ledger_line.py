"""One line of the ledger as a page: this dollar, explained."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.application.nodes.nodes import NodeChange
from service.dashboard.kit.visible_text import to_sentence
from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Reattribution
from service.domain.metering.meter import Evidence
from service.domain.nodes.node import Node
from service.domain.pricing.discounts import Discount
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, text_of
from tests.hands import NOON
from tests.store.given import entry

OCTOBER = NOON - 10 * DAY


def _lines(lab: Lab, node: Node) -> list[int]:
    return [line.id for line in lab.services.nodes.list_ledger_lines(node.id, 0, 1_000)]


def test_a_line_is_explained_in_the_words_of_the_api(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 2 * HOUR - 77, name="train", labels={"run": "17"})
    for number in _lines(lab, node):
        page = caller.get(f"/nodes/{node.id}/ledger/{number}")
        said = text_of(page).replace("&#39;", "'")
        answer = caller.get(links_of(page.text)["Export JSON"]).json()
        assert answer["entry"]["number"] == number
        for sentence in answer["explanation"]:
            assert to_sentence(sentence) in said
        assert "Label run 17" in said
        assert links_of(page.text)["2026-11"] == "/statements/2026-11"
        assert "From the beginning." in said


def test_the_amount_is_the_one_figure(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 77, NOON)
    (number,) = _lines(lab, node)
    page = caller.get(f"/nodes/{node.id}/ledger/{number}").text
    assert '<span class="figure">$0.20<span class="nanos">5333333</span></span>' in page
    assert "8 chips x 77 s x $1.20 a chip-hour / 3,600 = $0.205333333." in page


def test_the_price_leads_to_its_row(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - HOUR)
    (number,) = _lines(lab, node)
    page = caller.get(f"/nodes/{node.id}/ledger/{number}").text
    address, _, anchor = links_of(page)["See it in the price list of that hour"].partition("#")
    assert f'id="{anchor.replace("%2F", "/")}"' in caller.get(address).text
    assert "at=2026-11-05T11%3A00%3A00Z&generation=v5e" in address


def test_a_discounted_price_names_both_and_what_the_list_says(lab: Lab, caller: TestClient) -> None:
    lab.services.prices.discounts.add(Discount("", "v5e", "", 250_000, 0, None, HOSTILE))
    node = lab.ran(NOON)
    lab.clock.pass_(HOUR)
    lab.learned(node)
    page = caller.get(f"/nodes/{node.id}/ledger/{_lines(lab, node)[0]}")
    said = text_of(page)
    assert "less 25 % (" in said
    assert "<img" not in page.text
    assert "On demand at list price the same seconds are $9.60, at $1.20 a chip-hour." in said
    row = text_of(caller.get(links_of(page.text)["See it in the price list of that hour"]))
    assert "$1.20 a chip-hour $0.90 less 25 %" in row


def test_a_price_that_left_the_book_is_said_to_have(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - HOUR)
    with lab.units() as unit:
        usage = unit.usage.list_by_node(node.id)[0]
        whose = {
            attribution.since: attribution
            for attribution in unit.attributions.list_by_node(node.id)
        }
        line = entry(usage, hour=NOON - HOUR, price_id="gone/0")
        unit.ledger.post([line], usage, whose, NOON)
    page = caller.get(f"/nodes/{node.id}/ledger/{_lines(lab, node)[-1]}").text
    assert "The price gone/0 is no longer in the price book." in page
    assert "See it in the price list of that hour" not in page


def test_an_adjustment_and_what_it_adjusts_lead_to_each_other(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 2 * HOUR)
    end = NOON - HOUR - 600
    lab.learned(node, end=end, end_lo=end - 40, end_evidence=Evidence.OBSERVED)
    lines = caller.get(f"/v1/nodes/{node.id}/ledger").json()["entries"]
    late = next(line for line in lines if line["corrects"])
    page = caller.get(f"/nodes/{node.id}/ledger/{late['number']}").text
    first = caller.get(links_of(page)[f"line {late['corrects']}"])
    assert "It adjusts" in page
    assert "Adjusted by" in first.text
    assert links_of(first.text)[f"line {late['number']}"].endswith(f"/ledger/{late['number']}")


def test_every_version_of_the_belief_is_told_with_when_it_was_written(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran(NOON - 2 * HOUR)
    lab.clock.pass_(60)
    end = NOON - 600
    lab.learned(node, end=end, end_lo=end - 40, end_evidence=Evidence.OBSERVED, free="")
    page = caller.get(f"/nodes/{node.id}/ledger/{_lines(lab, node)[0]}")
    _, first, second = cells_of(page.text)
    assert first[0] == "2026-11-05 10:00:00 UTC"
    assert first[3:] == ["not yet", "\N{EN DASH}", "no"]
    assert second[0] == "2026-11-05 12:01:00 UTC"
    assert second[3] == "2026-11-05 11:49:20 UTC or later, by 2026-11-05 11:50:00 UTC"
    assert "two polls 40 s apart; all of it is charged, and marked as uncertain." in text_of(page)


def test_who_is_charged_is_told_with_since_when(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON)
    lab.clock.pass_(HOUR)
    lab.services.nodes.update(node.id, NodeChange(Reattribution(owner=HOSTILE)))
    lab.clock.pass_(HOUR)
    lab.learned(node)
    page = caller.get(f"/nodes/{node.id}/ledger/{_lines(lab, node)[-1]}")
    assert "Since 2026-11-05 13:00:00 UTC." in text_of(page)
    assert "<img" not in page.text


def test_a_correction_of_a_closed_month_says_where_it_is_billed(
    lab: Lab, caller: TestClient
) -> None:
    lab.clock.now = OCTOBER
    node = lab.ran(OCTOBER - 2 * HOUR, OCTOBER)
    lab.clock.now = NOON
    lab.learned(node, end=OCTOBER - 600, end_lo=OCTOBER - 600)
    page = caller.get(f"/nodes/{node.id}/ledger/{_lines(lab, node)[-1]}")
    assert "Billed in 2026-11, because the month of these seconds was closed" in text_of(page)


@pytest.mark.parametrize("number", ["0", "-1", "first", "999999", "9" * 40, HOSTILE])
def test_a_line_that_is_not_there_is_a_page_too(lab: Lab, caller: TestClient, number: str) -> None:
    node = lab.ran(NOON - HOUR)
    page = caller.get(f"/nodes/{node.id}/ledger/{number}")
    assert page.status_code == 404
    assert "There is no such line" in text_of(page)
    (posted,) = _lines(lab, node)
    assert f"he ledger of {node.name} has no line" in text_of(page)
    assert f"its only line is {posted}" in text_of(page)
    assert "<img" not in page.text


def test_a_line_of_another_node_is_not_shown(lab: Lab, caller: TestClient) -> None:
    first, second = lab.ran(NOON - HOUR), lab.ran(NOON - HOUR)
    (number,) = _lines(lab, first)
    assert caller.get(f"/nodes/{second.id}/ledger/{number}").status_code == 404
