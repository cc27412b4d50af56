"""What was bought by the calendar as pages: how far it has come, and who used how much of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from service.application.pricing.reservations import ReservationStatus
from service.dashboard.kit.node_rows import TIMES
from service.dashboard.pages.costs import reservation, reservations
from service.dashboard.pages.costs.reservations import (
    WIDTH,
    ReservationBar,
    build_bar,
    build_reservation_row,
)
from service.dashboard.pages.costs.spend_chart import format_share
from service.domain.clock import DAY, HOUR
from service.domain.metering.reservation import Reservation
from service.domain.money import parse_usd
from service.domain.nodes.node import Node
from service.domain.pricing.discounts import Discount
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of
from tests.dashboard.reading import text_of as words_of
from tests.hands import NOON
from tests.purchases import metered, ran_reserved

SIXTEEN: dict[str, Any] = {
    "zone": "asia-south2-a",
    "accelerator_type": "v5p-32",
    "generation": "v5p",
    "chips": 16,
    "hosts": 4,
}


@pytest.fixture
def autumn(lab: Lab) -> Reservation:
    """Bought at noon; thirteen minutes and twelve hours later 16 of the 64 chips have been used for
    six hours."""
    one = lab.bought(labels={"run": "17"}, owner="ada")
    _trains(lab)
    lab.clock.pass_(12 * HOUR + 780)
    metered(lab.units, lab.clock)
    return one


def text_of(page: Response) -> str:
    """What a reader sees, with a letter for the sign of multiplication."""
    return words_of(page).replace(TIMES, "x")


def _trains(lab: Lab) -> Node:
    return ran_reserved(lab.units, NOON + HOUR, NOON + 7 * HOUR, name="train", **SIXTEEN)


def _table(page: str, heading: str) -> list[list[str]]:
    return cells_of(page[page.index(f'id="{heading}-heading"') :])


def test_before_there_is_one_it_is_said_how_to_write_it_down(browser: TestClient) -> None:
    said = text_of(browser.get("/reservations"))
    assert "The TPU API does not list calendar-mode reservations, so record each once:" in said
    assert "tpu-steward reservations add NAME --zone us-west4-a" in said


def test_the_list_says_what_where_when_and_what_it_comes_to(
    autumn: Reservation, browser: TestClient
) -> None:
    page = browser.get("/reservations")
    said = text_of(page)
    assert "autumn 64 v5p chips in asia-south2-a, project lab; for infra, ada" in said
    assert "running, 1 d 11 h left" in said
    assert "5 Nov 2026 12:00 2 d 7 Nov 2026 12:00" in said
    assert "Utilization 12 % of the paid time so far Unused $2,016.45 88 % unused" in said
    assert (
        "Price $2.94 a chip-hour Cost so far $2,298.69 Used $282.24 12 % At its end $9,031.68"
    ) in said
    assert (
        '<span class="state trouble"><span class="sign" aria-hidden="true"></span>88 % unused'
        in (page.text)
    )
    assert links_of(page.text)["autumn"] == f"/reservations/{autumn.id}"
    assert 'aria-label="25 % of the period has passed; 12 % of that was used"' in page.text


def test_what_runs_is_first_and_what_was_wrong_is_last(lab: Lab, browser: TestClient) -> None:
    wrong = lab.bought(name="wrong")
    lab.services.reservations.withdraw(wrong.id, "it was for the spring")
    lab.bought(name="over", start=NOON - 9 * DAY, end=NOON - 2 * DAY)
    lab.bought(name="planned", start=NOON + DAY, end=NOON + 2 * DAY)
    lab.bought(name="running")
    page = browser.get("/reservations")
    places = [page.text.index(f">{name}<") for name in ("running", "planned", "over", "wrong")]
    assert places == sorted(places)
    said = text_of(page)
    assert "begins in 1 d" in said
    assert "over for 2 d" in said
    assert "Withdrawn 2026-11-05 12:00:00 UTC: it was for the spring" in said


def test_of_very_many_the_rest_is_counted(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, "SHOWN", 1)
    lab.bought()
    lab.bought(name="winter")
    said = text_of(browser.get("/reservations"))
    assert "and 1 more: tpu-steward reservations list shows all." in said


def test_the_sum_is_told_in_words(autumn: Reservation, browser: TestClient) -> None:
    said = text_of(browser.get(f"/reservations/{autumn.id}"))
    assert (
        "So far, used or not: 64 chips x 43,980 s x $2.94 a chip-hour ÷ 3,600 = $2,298.688."
    ) in said
    assert ("Of that 1 node is charged for $282.24, and $2,016.448 is unused.") in said
    assert (
        "Total at its end: 64 chips x 172,800 s x $2.94 a chip-hour ÷ 3,600 = $9,031.68."
    ) in said


def test_nodes_and_nobody_come_to_the_whole(
    lab: Lab, autumn: Reservation, caller: TestClient
) -> None:
    page = caller.get(f"/reservations/{autumn.id}")
    said = caller.get(links_of(page.text)["Export JSON"]).json()
    head, train, nobody, total = _table(page.text, "users")
    assert head == ["Node", "Chips", "Chip-hours", "Share", "Cost"]
    assert (train[:4], nobody[0], total[0]) == (["train", "16", "96", "12 %"], "nobody", "Total")
    assert nanos_of(train[-1]) + nanos_of(nobody[-1]) == nanos_of(total[-1])
    assert nanos_of(total[-1]) == parse_usd(said["cost"])
    assert nanos_of(nobody[-1]) == parse_usd(said["unused"])
    node = links_of(page.text)["train"].removeprefix("/nodes/")
    assert nanos_of(train[-1]) == lab.services.nodes.get_cost(node).cost
    assert caller.get(links_of(page.text)["train"]).status_code == 200


def test_each_line_leads_to_its_explanation(
    autumn: Reservation, caller: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation, "LINES_SHOWN", 5)
    page = caller.get(f"/reservations/{autumn.id}").text
    _, *lines, earlier = _table(page, "lines")
    assert [line[2] for line in lines] == ["230,400 chip-seconds"] * 5
    assert earlier[0] == "7 earlier"
    entries = caller.get(f"/v1/reservations/{autumn.id}/ledger").json()["entries"]
    amounts = [nanos_of(row[-1]) for row in (*lines, earlier)]
    assert sum(amounts) == sum(parse_usd(entry["amount"]) for entry in entries)
    newest = entries[-1]["number"]
    explained = caller.get(f"/reservations/{autumn.id}/ledger/{newest}")
    assert f'href="/reservations/{autumn.id}/ledger/{newest}"' in page
    assert explained.status_code == 200
    assert links_of(explained.text)["autumn"] == f"/reservations/{autumn.id}"


def test_its_ledger_comes_to_what_nobody_used(autumn: Reservation, caller: TestClient) -> None:
    page = caller.get(f"/reservations/{autumn.id}")
    inner = caller.get(links_of(page.text)["every line of its ledger"])
    rest, *amounts, total = (nanos_of(row[-1]) for row in cells_of(inner.text)[1:])
    assert (len(amounts), rest + sum(amounts)) == (12, total)
    assert total == parse_usd(caller.get(f"/v1/reservations/{autumn.id}").json()["unused"])
    assert links_of(inner.text)["autumn"] == f"/reservations/{autumn.id}"
    assert "Unused time. All of its time" in text_of(inner)
    assert caller.get(links_of(inner.text)["Export JSON"]).json()["entries"]


def test_its_costs_lead_to_its_page_and_to_its_lines(
    autumn: Reservation, caller: TestClient
) -> None:
    page = caller.get("/costs?window=7d&aggregate=node&step=all").text
    _, nobody, train, total = _table(page, "group")
    assert nobody[0] == "autumn (unused)"
    assert links_of(page)["autumn (unused)"] == f"/reservations/{autumn.id}"
    assert links_of(page)["train"].startswith("/nodes/")
    assert nanos_of(nobody[1]) + nanos_of(train[1]) == nanos_of(total[1])
    cents = cells_of(page[page.index('id="group-heading"') :], to_the_cent=True)[1][1]
    lines = caller.get(links_of(page)[cents])
    assert links_of(page)[cents].startswith(f"/reservations/{autumn.id}/ledger?")
    *amounts, sum_ = (nanos_of(row[-1]) for row in cells_of(lines.text)[1:])
    assert sum(amounts) == sum_ == nanos_of(nobody[1])


def test_its_price_leads_to_the_price_list(autumn: Reservation, caller: TestClient) -> None:
    page = caller.get(f"/reservations/{autumn.id}").text
    said = "$2.94 a chip-hour: Cloud Billing Catalog; in the reservation autumn"
    address, _, anchor = links_of(page)[said].partition("#")
    assert f'id="{anchor.replace("%2F", "/")}"' in caller.get(address).text


def test_a_node_says_in_which_reservation_it_ran(lab: Lab, caller: TestClient) -> None:
    one, train = lab.bought(), _trains(lab)
    lab.clock.pass_(8 * HOUR)
    page = caller.get(f"/nodes/{train.id}")
    assert "Ran in autumn, from 5 Nov 2026" in text_of(page)
    assert links_of(page.text)["autumn, from 5 Nov 2026"] == f"/reservations/{one.id}"
    assert "Ran in" not in text_of(caller.get(f"/nodes/{lab.ran(NOON).id}"))


def test_the_first_page_says_that_reservations_burn_too(lab: Lab, browser: TestClient) -> None:
    lab.bought()
    lab.bought(name="later", start=NOON + DAY, end=NOON + 2 * DAY)
    said = text_of(browser.get("/"))
    assert "Burning now $188.16 /h" in said
    assert "nothing is READY, 1 reservation" in said


def test_what_is_planned_says_what_it_will_come_to(lab: Lab, browser: TestClient) -> None:
    one = lab.bought(start=NOON + DAY, end=NOON + 3 * DAY)
    said = text_of(browser.get(f"/reservations/{one.id}"))
    assert "Total, used or not: 64 chips x 172,800 s x $2.94 a chip-hour" in said
    assert "Usage" not in said
    assert "Posted as unused" not in said


def test_what_is_over_says_that_nobody_used_it(lab: Lab, browser: TestClient) -> None:
    one = lab.bought()
    lab.clock.pass_(9 * DAY)
    said = text_of(browser.get(f"/reservations/{one.id}"))
    assert "Total, used or not: 64 chips x 172,800 s x $2.94" in said
    assert "No node used any of it." in said


def test_of_several_prices_none_is_said_to_make_the_sum(lab: Lab, browser: TestClient) -> None:
    one = lab.bought()
    lab.clock.pass_(HOUR)
    lab.services.prices.discounts.add(Discount("", "v5p", "", 333_333, 0, None, "our contract"))
    lab.clock.pass_(HOUR)
    said = text_of(browser.get(f"/reservations/{one.id}"))
    assert "64 chips x 7,200 s at the prices in force = $" in said


def test_a_price_that_nobody_knows_is_not_nothing(lab: Lab, browser: TestClient) -> None:
    one = lab.bought(zone="us-east5-c")
    planned = lab.bought(name="later", zone="us-east5-c", start=NOON + DAY)
    lab.clock.pass_(3 * HOUR)
    said = text_of(browser.get("/reservations"))
    assert "Utilization \u2013 no priced time so far Unused not known" in said
    assert "Price not known Cost so far not known Used not known" in said
    assert "No price is known for 3 h of it. Its cost is in no figure here." in said
    assert "At its end not known" in text_of(browser.get(f"/reservations/{one.id}"))
    ahead = text_of(browser.get(f"/reservations/{planned.id}"))
    assert "The price is unknown; its cost is in no figure until you add one." in ahead


def test_what_was_withdrawn_says_why_and_charges_nothing(
    lab: Lab, autumn: Reservation, browser: TestClient
) -> None:
    lab.services.reservations.withdraw(autumn.id, "bought twice")
    metered(lab.units, lab.clock)
    page = browser.get(f"/reservations/{autumn.id}")
    said = text_of(page)
    assert "Withdrawn 2026-11-06 00:13:00 UTC: bought twice" in said
    assert "It charges nothing. Its earlier charges are credited, and nothing was erased." in said
    assert "budget-bar" not in page.text
    assert sum(nanos_of(row[-1]) for row in _table(page.text, "lines")[1:]) == 0


def test_text_from_outside_stays_text(lab: Lab, browser: TestClient) -> None:
    one = lab.bought(team=HOSTILE, owner=HOSTILE)
    ran_reserved(lab.units, NOON, name=HOSTILE, **SIXTEEN)
    lab.clock.pass_(2 * HOUR)
    metered(lab.units, lab.clock)
    paths = [f"/reservations/{one.id}{tail}" for tail in ("", "/ledger", "/ledger/1")]
    lab.services.reservations.withdraw(lab.bought(name="wrong").id, HOSTILE)
    for path in ("/reservations", *paths):
        page = browser.get(path)
        assert page.status_code == 200 or path.endswith("/1")
        assert HOSTILE not in page.text


@pytest.mark.parametrize("tail", ["", "/ledger", "/ledger/1", "/ledger/x"])
def test_what_nobody_wrote_down_has_no_page(lab: Lab, browser: TestClient, tail: str) -> None:
    node = lab.ran(NOON - 2 * HOUR)
    hostile, nodes = (browser.get(f"/reservations/{name}{tail}") for name in (HOSTILE, node.id))
    for page in (hostile, nodes):
        assert page.status_code == 404
        assert "<img" not in page.text
    assert "There is no such" in text_of(nodes)


# ---- the bar, and the sign

ONE = Reservation("r", "autumn", "lab", "us-west4-a", "v5e", 10, NOON, NOON + 1_000)


def shown(**changes: Any) -> ReservationStatus:
    """Half a period of ten chips, half of it used."""
    base = ReservationStatus(ONE, factories.price(), 1_000, 500, 2_000, 5_000, 2_500, 0, NOON + 500)
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("changes", "bar"),
    [
        ({}, (500, 250, 500)),
        ({"unused_chip_seconds": 5_000}, (500, 0, 500)),
        ({"unused_chip_seconds": -9_000}, (500, 500, 500)),
        ({"unused_chip_seconds": 5_001}, (500, 0, 500)),
        ({"as_of": NOON - 1, "chip_seconds": 0, "unused_chip_seconds": 0}, (0, 0, 0)),
        ({"as_of": NOON + DAY, "chip_seconds": 10_000}, (WIDTH, 750, WIDTH)),
        ({"chip_seconds": 0, "unused_chip_seconds": 0, "price": None}, (0, 0, 500)),
    ],
)
def test_a_bar_never_runs_over(changes: dict[str, Any], bar: tuple[int, int, int]) -> None:
    assert build_bar(shown(**changes)) == ReservationBar(*bar)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, ("up", "running, 8 min left")),
        ({"price": None}, ("trouble", "running, 8 min left")),
        ({"unused_chip_seconds": -1}, ("trouble", "running, 8 min left")),
        ({"as_of": NOON - HOUR}, ("coming", "begins in 1 h")),
        ({"as_of": NOON + 1_000 + HOUR}, ("still", "over for 1 h")),
        (
            {"reservation": replace(ONE, withdrawn_at=NOON, reason="wrong")},
            ("still", "withdrawn"),
        ),
    ],
)
def test_a_sign_says_how_it_stands(changes: dict[str, Any], verdict: tuple[str, str]) -> None:
    row = build_reservation_row(shown(**changes))
    assert (row.tone, row.verdict) == verdict
    assert (row.bar is None) == (row.withdrawn is not None)


def test_more_used_than_bought_is_said() -> None:
    (said,) = build_reservation_row(shown(unused_chip_seconds=-1, unused=-1)).doubts
    assert said.startswith("Nodes used more chips than were bought")


@pytest.mark.parametrize(
    ("part", "said"),
    [(0, ""), (1, "< 1 %"), (500, "50 %"), (994, "99 %"), (999, "> 99 %"), (1_000, "100 %")],
)
def test_a_share_is_neither_nothing_nor_all_unless_it_is(part, said):
    assert format_share(part, 1_000) == said


def test_a_reservation_that_nobody_used_has_no_utilization_but_a_cost(
    lab: Lab, browser: TestClient
) -> None:
    one = lab.bought(start=NOON - HOUR)
    lab.bought(name="later", start=NOON + DAY)
    unused = "Utilization 0 % of the paid time so far Unused $188.16 100 % unused"
    said = text_of(browser.get("/reservations"))
    assert unused in said
    assert "Utilization \u2013 no priced time so far Unused $0.00 nothing yet" in said
    assert unused in text_of(browser.get(f"/reservations/{one.id}"))
