"""Nodes in the order of a figure: every node once, and the order of what callers see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.application.nodes.sorted_list import SortedPage, SortedQuery, read_sorted_page
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.errors import Rejected
from service.domain.idle.cleanup import RailHold, WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.rails import Rail, Waiting
from service.domain.idle.rollup import ActivityHour
from service.domain.money import parse_usd
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.pricing.driver_vm import UserVm
from service.domain.pricing.price_book import Sku
from service.store.node_list import NodeFilter
from service.store.sorted_nodes import NodeOrder, SortKey
from service.store.unit import Units
from tests import factories
from tests.hands import NOON
from tests.store.given import GivenPrices, metered, ran, stored

BOOK = factories.book()
LATER = NOON + 2 * HOUR + 777


def page_of(units: Units, now: int = LATER, **asked: Any) -> SortedPage:
    with units.reading() as unit:
        return read_sorted_page(unit, GivenPrices(), now, SortedQuery(**asked))


def names_of(found: SortedPage) -> list[str]:
    return [node["name"] for node in found.nodes]


def running(units: Units, name: str, chips: int = 8, ago: int = HOUR, **changes: Any) -> Node:
    """A READY node that is billed since some seconds before LATER, posted until then."""
    start = LATER - ago
    node = stored(
        units,
        **({"name": name, "chips": chips, "state": NodeState.READY} | changes),
        ready_at=start,
        created_at=start - 60,
    )
    sku = Sku("v5e", node.spec.provisioning_model, region_of(node.zone), single_device=True)
    metered(units, ran(units, node, start=start, sku=sku), BOOK, LATER)
    return node


@pytest.fixture
def fleet(units: Units) -> Units:
    """Nodes that differ in every figure: five billed, one coming, one ended. One has no price."""
    running(units, "big", chips=64, ago=600, ttl_seconds=9 * HOUR)
    running(units, "old", chips=8, ago=30 * HOUR, team="nlp", owner="grace")
    running(units, "mid", chips=16, ago=5_000, ttl_seconds=8 * HOUR)
    running(units, "twin-a", ago=700, provisioning_model=ProvisioningModel.SPOT)
    running(units, "twin-b", ago=700)
    stored(units, name="coming", zone="us-east1-c", created_at=LATER - 5)
    gone = stored(units, name="gone", chips=512, created_at=NOON)
    metered(units, ran(units, gone, start=NOON, end=NOON + 60), BOOK, LATER)
    with units() as unit:
        gone = unit.nodes.get(gone.id)
        unit.nodes.save(replace(gone, state=NodeState.DELETED, ended_at=NOON + 60))
    return units


def shown_figure(  # noqa: PLR0911 - a table of the figures
    key: SortKey, found: SortedPage, node: Any
) -> Any:
    """The figure that a caller sees of a node, None for none."""
    match key:
        case SortKey.RATE:
            return found.rates.get(node["id"]) or 0  # also for an unknown price
        case SortKey.COST:
            return parse_usd(node["cost"])
        case SortKey.AGE:
            return node["created_at"]
        case SortKey.NAME:
            return node["name"]
        case SortKey.DELETES_AT:
            return node["deletes_at"]
        case SortKey.USED:
            return found.used.get(node["id"])


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("key", list(SortKey))
def test_the_order_is_that_of_the_figures_that_are_shown(
    fleet: Units, key: SortKey, descending: bool
) -> None:
    found = page_of(fleet, only=NodeFilter(live=True), order=NodeOrder(key, descending))
    figures = [shown_figure(key, found, node) for node in found.nodes]
    known = [figure for figure in figures if figure is not None]
    assert len(figures) == 6
    assert figures[: len(known)] == known, "nodes without the figure come last"
    is_reversed = descending is (key is not SortKey.AGE)  # the oldest node was created first
    assert known == sorted(known, reverse=is_reversed)


@pytest.mark.deep
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("key", list(SortKey))
def test_pages_of_any_size_hold_every_node_once_while_costs_grow(
    fleet: Units, key: SortKey, descending: bool
) -> None:
    order = NodeOrder(key, descending)
    whole = [node["id"] for node in page_of(fleet, order=order).nodes]
    assert len(whole) == 7
    for size in (1, 2, 3, 7, 8):
        found: list[str] = []
        token, now = "", LATER
        while True:
            page = page_of(fleet, now=now, order=order, size=size, token=token)
            assert len(page.nodes) <= size
            found += [node["id"] for node in page.nodes]
            token, now = page.next_page_token, now + 60
            if not token:
                break
        assert found == whole, size


def test_the_sums_are_about_all_that_match_and_the_rates_about_the_page(fleet: Units) -> None:
    page = page_of(fleet, only=NodeFilter(live=True), size=2)
    every = page_of(fleet, only=NodeFilter(live=True))
    assert (page.number, page.running) == (6, every.running)
    assert names_of(page) == ["big", "mid"]
    assert set(page.rates) == {node["id"] for node in page.nodes}
    assert sum(rate or 0 for rate in every.rates.values()) == every.running.burn
    assert every.running.chips == 64 + 8 + 16 + 8 + 8
    assert page_of(fleet, only=NodeFilter(team=["nlp"])).running.chips == 8


def test_slices_and_the_vm_of_a_node_count_in_the_order(units: Units) -> None:
    group = stored(units, name="group", slices=2, chips=32, hosts=2, state=NodeState.READY)
    with units() as unit:
        for number in range(2):
            unit.usage.save(factories.usage(node_id=group.id, chips=16, slice=number))
    half = stored(units, name="half", slices=2, chips=48, hosts=2, state=NodeState.READY)
    with units() as unit:
        unit.usage.save(factories.usage(node_id=half.id, chips=24, slice=0))
    driven = stored(units, name="driven", state=NodeState.READY, vm=UserVm("n1-standard-8"))
    ran(units, driven, vm="n1-standard-8", vm_model="on_demand")
    found = page_of(units)
    assert names_of(found)[:2] == ["group", "half"]
    assert (found.rates[group.id], found.rates[half.id]) == (38_400_000_000, 28_800_000_000)
    assert found.rates[driven.id] is None  # its VM has no price, so the node has none


def test_the_earlier_of_the_time_to_live_and_the_idle_end_is_sorted_by(units: Units) -> None:
    idle = running(units, "idle", ttl_seconds=9 * HOUR)
    kept = running(units, "kept", ttl_seconds=5 * HOUR, kept_until=LATER + HOUR)
    running(units, "soon", ttl_seconds=3 * HOUR)
    running(units, "leaving", ttl_seconds=3 * HOUR, asked=Asked.ABSENT)
    running(units, "stays", labels={"deletes_at": "x"})
    for node in (idle, kept):
        course = IdleCourse(node.id, node.attempt, State.NOTIFIED, NOON)
        with units() as unit:
            unit.idle_courses.save([WatchedNode(course, "lab", due_at=LATER + 60)])
    order = NodeOrder(SortKey.DELETES_AT, descending=False)
    found = page_of(units, order=order)
    assert names_of(found)[:3] == ["idle", "soon", "kept"]
    assert found.nodes[1]["deletes_at"] == to_rfc3339(LATER - HOUR + 3 * HOUR)


@pytest.mark.parametrize("number", [1, 40_000])
def test_the_deletion_by_a_budget_is_sorted_by_as_well(units: Units, number: int) -> None:
    late = running(units, "late", ttl_seconds=9 * HOUR)
    endless = running(units, "endless")
    running(units, "soon", ttl_seconds=3 * HOUR)
    leaving = running(units, "leaving", ttl_seconds=3 * HOUR, asked=Asked.ABSENT)
    ends = dict.fromkeys((endless.id, leaving.id), LATER + 60) | {late.id: LATER + 30}
    ends |= {f"of another page {other}": LATER + 60 for other in range(number)}
    order = NodeOrder(SortKey.DELETES_AT, descending=False)
    found = page_of(units, order=order, budget_ends=ends)
    assert names_of(found) == ["late", "endless", "soon", "leaving"]
    pages, token = list[str](), ""
    for _ in range(4):
        page = page_of(units, order=order, budget_ends=ends, size=1, token=token)
        pages, token = [*pages, *names_of(page)], page.next_page_token
    assert pages == names_of(found)


def test_what_delays_ends_is_sorted_by_as_well(units: Units) -> None:
    due_at = {"first": LATER + 50, "second": LATER + 60, "third": LATER + 70, "overdue": LATER - 5}
    nodes = {name: running(units, name) for name in due_at}
    running(units, "old", ttl_seconds=HOUR + 65)
    running(units, "told", ttl_seconds=HOUR + 66, ends_after_keep="its job has ended")
    with units() as unit:
        for name, node in nodes.items():
            course = IdleCourse(node.id, node.attempt, State.NOTIFIED, NOON)
            unit.idle_courses.save([WatchedNode(course, "lab", due_at=due_at[name])])
    order = NodeOrder(SortKey.DELETES_AT, descending=False)
    assert names_of(page_of(units, order=order))[:4] == ["overdue", "first", "second", "old"]

    waiting = [
        Waiting(nodes["first"].id, Rail.HOUR, 1, LATER + 68, due_at["first"]),
        *(Waiting(f"elsewhere {turn}", Rail.HOUR, 1, LATER + turn, NOON) for turn in range(9_000)),
    ]
    with units() as unit:
        cleanup = unit.cleanups.save(replace(unit.cleanups.get("lab"), waiting=tuple(waiting)))
    found = page_of(units, order=order)
    assert names_of(found) == ["overdue", "second", "old", "told", "first", "third"]
    pages, token = list[str](), ""
    for _ in range(6):
        page = page_of(units, order=order, size=1, token=token)
        pages, token = [*pages, *names_of(page)], page.next_page_token
    assert pages == names_of(found)

    breaker = RailHold(Rail.BREAKER, "6 of 18 nodes became unknown", NOON, LATER + 55)
    with units() as unit:
        cleanup = unit.cleanups.save(replace(cleanup, holds=(breaker,)))
    assert names_of(page_of(units, order=order))[2:] == ["second", "old", "told", "third"]

    with units() as unit:
        unit.cleanups.save(cleanup.with_pause(LATER, "ada", "a demo"))
    assert names_of(page_of(units, order=order))[0] == "told"


def test_the_used_share_is_of_the_seconds_that_are_known(units: Units) -> None:
    nodes = [running(units, name) for name in ("half", "busy", "resting", "blind", "old")]
    hour = LATER // HOUR * HOUR
    levels = ("BBBIII......", "B...........", "IIIIIIIIIIII", "............")
    with units() as unit:
        unit.idle_rollups.save(
            ActivityHour(node.id, 1, hour, level)
            for node, level in zip(nodes, levels, strict=False)
        )
        unit.idle_rollups.save([ActivityHour(nodes[4].id, 1, hour - 25 * HOUR, "BBBBBBBBBBBB")])
    found = page_of(units, order=NodeOrder(SortKey.USED))
    assert names_of(found)[:3] == ["busy", "half", "resting"]
    assert found.used == {nodes[0].id: 50, nodes[1].id: 100, nodes[2].id: 0}


@pytest.mark.parametrize(
    ("only", "found"),
    [
        ({"search": "TWIN"}, {"twin-a", "twin-b"}),
        ({"search": "%"}, set()),
        ({"search": "w_n"}, set()),
        ({"ended": True}, {"gone"}),
        ({"model": ["spot"]}, {"twin-a"}),
        ({"failing": True}, set()),
        ({"zone": ["us-east1-c"], "live": True}, {"coming"}),
    ],
)
def test_filters_narrow_the_page_and_its_number(
    fleet: Units, only: dict[str, Any], found: set[str]
) -> None:
    page = page_of(fleet, only=NodeFilter(**only))
    assert set(names_of(page)) == found
    assert page.number == len(found)


def test_the_choices_are_those_of_the_nodes_in_the_same_state(fleet: Units) -> None:
    page = page_of(fleet, only=NodeFilter(live=True, team=["nlp"]))
    assert page.choices["team"] == ["nlp", "vision"]
    assert page.choices["model"] == ["on_demand", "spot"]
    assert page_of(fleet, only=NodeFilter(ended=True)).choices["model"] == ["on_demand"]


@pytest.mark.parametrize("token", ["x", "1", "1.2.3", f"{NOON}.{'0' * 36}.x", "' OR 1=1 --"])
def test_a_token_that_was_not_given_out_is_refused(units: Units, token: str) -> None:
    with pytest.raises(Rejected) as refused:
        page_of(units, token=token)
    assert refused.value.facts["field"] == "page_token"


@pytest.mark.deep
@pytest.mark.parametrize("key", list(SortKey))
@pytest.mark.parametrize("first", [0, LATER - 8 * DAY, LATER + DAY, 10**12 - 1])
def test_a_token_of_another_week_is_refused(units: Units, key: SortKey, first: int) -> None:
    """A cost as of that second would be larger than any number of the database."""
    group = running(units, "group", chips=4_096 * 64, slices=64)
    with units() as unit:
        for number in range(1, 64):
            unit.usage.save(factories.usage(node_id=group.id, chips=4_096, slice=number))
    token, order = f"{first}.{group.id}.0", NodeOrder(key)
    with pytest.raises(Rejected):
        page_of(units, order=order, token=token)
    page_of(units, order=order, token=f"{LATER - 6 * DAY}.{group.id}.0")
