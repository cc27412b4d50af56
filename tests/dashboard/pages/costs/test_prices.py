"""The price list as a page: what is in force at an instant, what is paid, and who says so."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.application.pricing.prices import PriceQuery
from service.dashboard.pages.costs import prices
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY
from service.domain.money import parse_usd
from service.domain.pricing.discounts import Discount
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of, text_of
from tests.hands import NOON

UNITS = {"chip_hour": "a chip-hour", "device_hour": "a device-hour", "vm_hour": "an hour"}


@pytest.mark.parametrize(
    "question",
    [
        "?show=all",
        "?generation=v5e",
        "?at=2024-07-01&generation=v5p&provisioning_model=spot",
        "?at=2026-11-05T12:00:00Z&region=us-west4",
        "?generation=n1-standard-8",
    ],
)
def test_the_prices_are_those_of_the_api(
    caller: TestClient, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices, "SHOWN", 10_000)
    page = caller.get(f"/prices{question}")
    address = links_of(page.text)["Export JSON"]
    said = caller.get(f"{address}&page_size=1000").json()["prices"]
    rows = cells_of(page.text)[1:]
    assert len(rows) == len(said) > 0
    for row, one in zip(rows, said, strict=True):
        assert row[:3] == [one["generation"], one["provisioning_model"], one["region"]]
        amount, unit = row[3].split("a", 1)
        assert nanos_of(amount) == parse_usd(one["usd"])
        assert f"a{unit}" == UNITS[one["unit"]]
        assert row[-1].startswith(one["source"].replace("&", "&amp;"))


def test_what_was_in_force_then_is_shown_then(lab: Lab, caller: TestClient) -> None:
    lab.services.prices.add(
        factories.price(1_500_000_000, effective_from=NOON + DAY, source=HOSTILE)
    )
    asked = "generation=v5e&provisioning_model=on_demand&region=us-west4"
    now = caller.get(f"/prices?{asked}")
    later = caller.get(f"/prices?at=2026-11-07&{asked}")
    assert [row[3] for row in cells_of(now.text)[1:]] == ["$1.20a chip-hour"]
    assert [row[3] for row in cells_of(later.text)[1:]] == ["$1.50a chip-hour"]
    assert "In force now" in text_of(now)
    assert "A recorded price is never edited: a new price begins" in text_of(now)
    assert "In force at 2026-11-07 00:00:00 UTC" in text_of(later)
    assert "<img" not in later.text


def test_a_discount_stands_beside_the_list_price_with_its_source(
    lab: Lab, caller: TestClient
) -> None:
    lab.services.prices.discounts.add(Discount("", "v5e", "spot", 125_000, 0, None, HOSTILE))
    page = caller.get("/prices?generation=v5e&region=us-west4")
    assert "12.5 % off v5e spot, from 2026-11-05 12:00:00 UTC until further notice" in text_of(page)
    rows = {row[1]: row for row in cells_of(page.text)[1:]}
    assert rows["spot"][4] == "$0.5056625less 12.5 %"
    assert rows["on_demand"][4] == rows["on_demand"][3].removesuffix("a chip-hour")
    assert "<img" not in page.text
    said = caller.get(links_of(page.text)["Export discounts as JSON"]).json()["discounts"]
    assert [price["percent"] for price in said] == ["12.5"]
    before = caller.get("/prices?at=2026-11-04&generation=v5e")
    assert "Paid" not in text_of(before)
    assert "Export discounts as JSON" not in links_of(before.text)


def test_where_no_price_is_known_it_is_said_what_that_means(caller: TestClient) -> None:
    page = caller.get("/prices?region=nowhere")
    assert page.status_code == 200
    assert "No price is known." in text_of(page)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("at=yesterday", "'yesterday' is no date: write it as 2026-11-01T00:00:00Z"),
        ("at=0001-01-01", "it must be between 1970 and 2100"),
        ("at=2026-11-01T00:00:00", "is no date"),
        ("generation=v99", "v99"),
        (f"at={HOSTILE}", "is no date"),
        (f"generation={HOSTILE}", "This page cannot be shown"),
    ],
)
def test_what_makes_no_sense_is_said_to_make_none(
    caller: TestClient, question: str, said: str
) -> None:
    page = caller.get(f"/prices?{question}")
    assert page.status_code == 422
    assert said in text_of(page).replace("&#39;", "'")
    assert "<img" not in page.text
    assert links_of(page.text)["All prices"] == "/prices"


def test_the_page_shows_what_is_in_use_and_no_more(lab: Lab, caller: TestClient) -> None:
    lab.ran(NOON - DAY)
    spot = ProvisioningModel.SPOT
    lab.ran(NOON - 20 * DAY, NOON - 19 * DAY, provisioning_model=spot)
    lab.ran(NOON - 40 * DAY, NOON - 31 * DAY, zone="us-east1-c")
    lab.ran_legacy(NOON - DAY, NOON - DAY + 60)
    page = caller.get("/prices")
    rows = cells_of(page.text)[1:]
    assert {tuple(row[:3]) for row in rows} == {
        ("n1-standard-8", "on_demand", "us-central1"),
        ("v2", "on_demand", "us-central1"),
        ("v5e", "on_demand", "us-west4"),
        ("v5e", "spot", "us-west4"),
    }
    links = links_of(page.text)
    assert (links["in use"], links["all"]) == ("/prices", "/prices?show=all")
    assert links["v5e"] == "/prices?generation=v5e"
    assert "Hardware that ran in the last 30 days." in text_of(page)


def test_before_anything_ran_the_way_to_all_prices_is_shown(caller: TestClient) -> None:
    page = caller.get("/prices")
    assert "No hardware ran in the last 30 days." in text_of(page)
    assert "tpu-steward estimate --accelerator-type v5litepod-8" in text_of(page)
    assert links_of(page.text)["Show all prices"] == "/prices?show=all"


def test_all_prices_come_page_by_page_each_once(lab: Lab, caller: TestClient) -> None:
    every = lab.services.prices.list_in_force(PriceQuery())
    assert len(every) > 2 * prices.SHOWN
    seen, address = [], "/prices?show=all"
    for number in range(1, -(-len(every) // prices.SHOWN) + 1):
        page = caller.get(address)
        seen += [row[:3] for row in cells_of(page.text)[1:]]
        address = links_of(page.text).get(str(number + 1), "")
    assert address == ""
    assert seen == [[price.generation, price.model, price.region] for price in every]
    for strange in ("0", "-1", "x" * 90, "9" * 90, HOSTILE):
        first = caller.get("/prices", params={"show": "all", "page": strange})
        assert f"1 to {prices.SHOWN} of {len(every):,} prices" in text_of(first)
    last = caller.get("/prices?show=all&page=9999")
    assert f"to {len(every):,} of {len(every):,} prices" in text_of(last)


def test_the_page_of_prices_is_not_asked_for_again(caller: TestClient) -> None:
    page = caller.get("/prices?show=all").text
    assert "data-still" in page
    assert "data-live" not in page
