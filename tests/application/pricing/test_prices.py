"""Prices that are entered by hand."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from service.application.pricing.prices import PriceService
from service.domain.clock import DAY
from service.domain.errors import Conflict
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.hands import NOON, HandClock


@pytest.mark.concurrent
def test_of_many_prices_that_are_entered_at_once_for_one_instant_one_is_taken(
    units: Units,
) -> None:
    prices, clock = PriceService(units, PriceBookCache(), HandClock()), NOON + DAY
    wanted = replace(factories.price(), region="us-west4", effective_from=clock)
    start, taken, refused = threading.Barrier(5), [], []

    def enter(cents: int) -> None:
        start.wait()
        try:
            taken.append(prices.add(replace(wanted, nanos=cents * 10_000_000)).price)
        except Conflict as error:
            refused.append(error.facts["price_id"])

    threads = [threading.Thread(target=enter, args=(cents,)) for cents in range(110, 115)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [price.effective_from for price in taken] == [clock]
    assert refused == [taken[0].id] * 4
