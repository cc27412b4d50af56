"""A price that is entered while seconds are posted counts for these seconds too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from service.domain.clock import HOUR
from service.domain.nodes.node import Node, NodeState
from service.domain.pricing.price_book import PriceBook
from service.store.pricebook import HasPrices, PriceBookCache
from tests import factories
from tests.controllers.conftest import Lab

pytestmark = [pytest.mark.concurrent, pytest.mark.deep]

Act = Callable[[Lab, Node], object]


def post(lab: Lab, _: Node) -> None:
    lab.metering.tick(lab.lease)


def delete(lab: Lab, node: Node) -> None:
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)


def look(lab: Lab, node: Node) -> None:
    lab.cloud.become(NodeState.PREEMPTED, node.place.path)
    lab.inventory.tick(lab.lease)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


@pytest.mark.parametrize("act", [post, delete, look])
def test_a_price_of_the_past_that_is_entered_while_seconds_are_posted_is_charged(
    lab: Lab, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    node = lab.up(accelerator_type="v6e-8", zone="asia-east1-c")
    since = node.ready_at or 0
    prices = [factories.price(generation="v6e", region="asia-east1", effective_from=since)]
    entered: list[Future[object]] = []
    book = PriceBookCache.get_book

    def meanwhile(cache: PriceBookCache, unit: HasPrices) -> PriceBook:
        found = book(cache, unit)
        if prices:
            entered.append(pool.submit(lab.prices.add, prices.pop()))
            wait(entered, timeout=1)
        return found

    lab.clock.pass_(2 * HOUR - lab.clock() % HOUR)
    monkeypatch.setattr(PriceBookCache, "get_book", meanwhile)
    act(lab, node)
    [one] = entered
    one.result()
    lab.metering.tick(lab.lease)
    assert lab.posted(node) == lab.cost(node) > 0
