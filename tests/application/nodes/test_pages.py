"""Pages of nodes that many programs ask for: one answer a second, and never an old one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from service.application.nodes.nodes import QUICK_PAGE, NodeService
from service.domain.nodes.node import Node
from service.store.engine import make_engine
from service.store.node_list import ANY, NodeFilter
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.hands import NOON, HandClock
from tests.store.given import metered, ran, stored


@pytest.fixture
def service(units: Units, clock: HandClock) -> NodeService:
    """Nodes as one process of the API serves them; one node runs, at a price."""
    with units() as unit:
        unit.prices.add(factories.price())
    meter(units, stored(units, name="train"), start=NOON - 60)
    clock.now = NOON
    return NodeService(units, PriceBookCache(), clock, [factories.PROJECT])


def meter(units: Units, node: Node, **changes: Any) -> None:
    """Let a node run, and post what it costs."""
    metered(units, ran(units, node, **changes), factories.book(), NOON)


def list_shown(service: NodeService, size: int = 100, token: str = "") -> list[dict[str, Any]]:
    return service.list_page(ANY, size, token).to_dicts()


def add_node(units: Units) -> None:
    stored(units, name="eval")


def delete_node(units: Units) -> None:
    with units.reading() as unit:
        node = unit.nodes.find_by_name("train")[0]
    NodeService(units, PriceBookCache(), lambda: NOON, [factories.PROJECT]).delete(node.id)


def meter_more(units: Units) -> None:
    with units.reading() as unit:
        node = unit.nodes.find_by_name("train")[0]
    meter(units, node, start=NOON - 7_200, slice=1)


def change_price(units: Units) -> None:
    with units() as unit:
        unit.prices.add(factories.price(nanos=2_400_000_000, effective_from=NOON - 3_600))


def test_equal_questions_within_a_second_get_one_answer(
    service: NodeService, clock: HandClock
) -> None:
    first = service.list_page(ANY, 100, "")
    assert service.list_page(ANY, 100, "") is first
    clock.now += 1
    later = service.list_page(ANY, 100, "")
    assert later.to_dicts()[0]["cost"] > first.to_dicts()[0]["cost"], "a second costs something"


@pytest.mark.parametrize("write", [add_node, delete_node, meter_more, change_price])
def test_what_another_process_has_written_is_shown_within_the_same_second(
    service: NodeService, engine: Engine, write: Callable[[Units], None]
) -> None:
    before = list_shown(service)
    other = make_engine(engine.url.render_as_string(hide_password=False))
    write(Units(other))
    other.dispose()
    after = list_shown(service)
    assert after != before
    fresh = NodeService(service._units, PriceBookCache(), lambda: NOON, [factories.PROJECT])
    assert after == list_shown(fresh)


def test_no_page_is_taken_for_another(service: NodeService, units: Units) -> None:
    for name in "abcd":
        stored(units, name=name)
    every = [node["name"] for node in list_shown(service)]
    first = service.list_page(ANY, 2, "")
    rest = list_shown(service, 2, first.next_page_token)
    assert [node["name"] for node in (*first.to_dicts(), *rest)] == every[:4]
    filtered = service.list_page(NodeFilter(name=["c"]), 2, "").to_dicts()
    assert [node["name"] for node in filtered] == ["c"]
    assert [node["name"] for node in list_shown(service, QUICK_PAGE + 1)] == every
