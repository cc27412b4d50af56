"""A price that changes in the cloud, through the whole house: read by itself, shown at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep

SPOT = "/v1/prices?generation=v6e&provisioning_model=spot&region=us-east5"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A house that reads the price list every second."""
    monkeypatch.setenv("STEWARD_PRICES_SECONDS", "1")
    made = House(tmp_path)
    yield made
    made.stop()


def test_a_spot_price_that_changes_in_the_cloud_is_in_the_book_with_its_source(
    house: House,
) -> None:
    def price() -> Any:
        (found,) = house.get(SPOT)["prices"]
        return found

    house.until(lambda: "prices.read" in house.logs("daemon"), "the list to be read")
    began = int(time.time())
    change = {"generation": "v6e", "region": "us-east5", "usd": "1.75", "at": began - 60}
    house.configure(prices={"spot_price_changes": [change]})
    house.until(lambda: bool(price()["usd"] == "1.750000000"), "the new price")
    assert price()["id"].startswith("catalog/")
    assert "attached to Spot Preemptible VMs running in Columbus" in price()["source"]
    assert price()["confidence"] == "catalog"
    assert '"not_understood": 0' in house.logs("daemon")
    half = {"percent": "50", "generation": "v6e", "source": "our contract"}
    made = house.post("/v1/prices/discounts", half)
    assert price()["discount"]["usd"] == "0.875000000"
    assert house.post(f"/v1/prices/discounts/{made['id']}:end")["effective_until"]
