"""What is told with the same key, or in the same words, also by many at once, is done once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any, TypeVar

import pytest

from service.application.budgets.budgets import BudgetService
from service.application.costs.costs import CostService
from service.application.nodes.nodes import NodeService
from service.application.pricing.discounts import DiscountService
from service.application.pricing.prices import PriceService
from service.application.pricing.reservations import ReservationService
from service.domain.clock import DAY
from service.domain.errors import Conflict
from service.domain.idempotency import RequestKey
from service.domain.metering.reservation import Reservation
from service.domain.pricing.discounts import Discount
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.hands import NOON, HandClock

T = TypeVar("T")
Shared = tuple[Units, PriceBookCache, HandClock]
CALLERS = 8


def bought(**changes: Any) -> Reservation:
    """Sixteen v5e chips for ten days, as their buyer writes it down."""
    base = Reservation(
        "", "autumn", factories.PROJECT, factories.ZONE, "v5e", 16, NOON, NOON + 10 * DAY
    )
    return replace(base, **changes)


def at_once(tell: Callable[[int], T]) -> list[T]:
    """What all of them are answered who begin in the same moment."""
    start = Barrier(CALLERS)

    def begin(number: int) -> T:
        start.wait()
        return tell(number)

    with ThreadPoolExecutor(CALLERS) as many:
        return list(many.map(begin, range(CALLERS)))


@pytest.fixture
def shared(units) -> Shared:
    return units, PriceBookCache(), HandClock()


@pytest.mark.concurrent
def test_a_price_that_many_tell_at_once_with_one_key_is_entered_once(shared, units):
    service = PriceService(*shared)
    price = factories.price(1_100_000_000, effective_from=NOON + 60)
    told = at_once(lambda _: service.add(price, RequestKey("k", "body")))
    with units.reading() as unit:
        (entered,) = unit.prices.list_all()
    assert {answer.price for answer in told} == {entered}
    assert sum(answer.created for answer in told) == 1


def test_without_a_key_the_same_told_twice_is_two(shared):
    service = PriceService(*shared)
    first, second = (service.add(factories.price(1_100_000_000, effective_from=NOON)) for _ in "ab")
    assert first.price.id != second.price.id
    assert first.created
    assert second.created


@pytest.mark.concurrent
@pytest.mark.parametrize("turn", range(4))
def test_a_discount_that_many_tell_at_once_with_one_key_does_not_stand_in_its_own_way(
    shared, units, turn
):
    service = DiscountService(units, HandClock())
    discount = Discount("", "v5e", "", 100_000, NOON + 60, None, "a contract")
    told = at_once(lambda _: service.add(discount, RequestKey(f"k-{turn}", "body")))
    assert len({answer.discount.id for answer in told}) == 1
    assert sum(answer.created for answer in told) == 1


@pytest.mark.concurrent
@pytest.mark.parametrize("turn", range(4))
def test_a_budget_that_many_ask_for_at_once_with_one_key_does_not_take_its_own_name(
    shared: Shared, turn
):
    service = BudgetService(*shared, CostService(*shared))
    told = at_once(lambda _: service.create(factories.budget(), RequestKey(f"k-{turn}", "body")))
    assert [{answer.shown.budget.id for answer in told}] == [
        {shown.id} for shown in service.list_all()
    ]
    assert sum(answer.created for answer in told) == 1


@pytest.mark.concurrent
@pytest.mark.parametrize("turn", range(4))
def test_a_node_that_many_ask_for_at_once_with_one_key_does_not_take_its_own_name(
    shared: Shared, turn
):
    service = NodeService(*shared, [factories.PROJECT])
    request = factories.request(name="trainer")
    told = at_once(lambda _: service.request(request, key=RequestKey(f"k-{turn}", "body")))
    assert len({answer.node.id for answer in told}) == 1
    assert sum(answer.created for answer in told) == 1


def test_the_keys_of_two_callers_are_different_keys(shared: Shared):
    service = NodeService(*shared, [factories.PROJECT])
    key = RequestKey("k", "body")
    first, again, other = (
        service.request(factories.request(), key=key, actor=actor)
        for actor in ("ada", "ada", "bob")
    )
    assert [answer.created for answer in (first, again, other)] == [True, False, True]
    assert first.node.id == again.node.id != other.node.id


def test_a_name_that_somebody_else_has_is_taken_with_a_key_as_well(shared: Shared):
    nodes = NodeService(*shared, [factories.PROJECT])
    budgets = BudgetService(*shared, CostService(*shared))
    nodes.request(factories.request(name="trainer"))
    budgets.create(factories.budget())
    with pytest.raises(Conflict, match="trainer"):
        nodes.request(factories.request(name="trainer"), key=RequestKey("k", "body"))
    with pytest.raises(Conflict, match="vision monthly"):
        budgets.create(factories.budget(), RequestKey("k", "body"))


@pytest.mark.concurrent
@pytest.mark.parametrize("turn", range(4))
def test_a_reservation_that_many_write_down_at_once_is_written_once(shared: Shared, turn):
    service = ReservationService(*shared, [factories.PROJECT])
    wanted = bought(name=f"autumn-{turn}")
    told = at_once(lambda _: service.record(wanted))
    (written,) = service.list_all()
    assert {answer.shown.reservation.id for answer in told} == {written.reservation.id}
    assert sum(answer.created for answer in told) == 1


@pytest.mark.concurrent
def test_of_reservations_that_take_the_same_name_at_once_one_has_it(shared: Shared):
    service = ReservationService(*shared, [factories.PROJECT])

    def write(number: int) -> bool:
        try:
            return service.record(bought(chips=number + 1)).created
        except Conflict:
            return False

    assert sum(at_once(write)) == 1
    assert len(service.list_all()) == 1
