"""What is told with the same key, also by many at once, is done once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from service.application.prices import PriceService
from service.domain.idempotency import Key
from service.store.pricebook import PriceShelf
from tests import factories
from tests.hands import NOON, HandClock


def test_a_price_that_many_tell_at_once_with_one_key_is_entered_once(units):
    service = PriceService(units, PriceShelf(), HandClock())
    price = factories.price(1_100_000_000, effective_from=NOON + 60)

    def tell(_):
        return service.add(price, Key("k", "body"))

    with ThreadPoolExecutor(8) as many:
        told = list(many.map(tell, range(16)))
    with units.reading() as unit:
        (entered,) = unit.prices.all()
    assert {one.price for one in told} == {entered}
    assert sum(one.created for one in told) == 1


def test_without_a_key_the_same_told_twice_is_two(units):
    service = PriceService(units, PriceShelf(), HandClock())
    first, second = (service.add(factories.price(1_100_000_000, effective_from=NOON)) for _ in "ab")
    assert first.price.id != second.price.id
    assert first.created
    assert second.created
