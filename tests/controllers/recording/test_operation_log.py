"""What the cloud remembers is asked once for all that go at once, and never too early."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from service.controllers.recording.operation_log import FRESH_SECONDS, SharedRecords
from service.domain.errors import CloudUnavailable
from service.domain.nodes.node import NodeState, Place
from tests import factories
from tests.controllers.conftest import Lab
from tests.fakes import FakeCloud
from tests.hands import HandClock

PATIENCE = 10


@pytest.fixture
def lab_of_records(clock: HandClock) -> tuple[FakeCloud, SharedRecords, Callable[[float], None]]:
    """A cloud, the records of one tick, and how time passes in it."""
    cloud, marks = FakeCloud(clock), [0.0]
    records = SharedRecords(cloud)
    records.monotonic = lambda: marks[0]

    def wait(seconds: float) -> None:
        marks[0] += seconds

    return cloud, records, wait


def place(name: str, zone: str = factories.ZONE) -> Place:
    return Place(factories.PROJECT, zone, name)


@pytest.mark.deep
def test_ten_nodes_that_go_at_once_cost_one_list_of_their_zone(lab: Lab) -> None:
    nodes = [lab.up(name=f"n-{number}") for number in range(10)]
    for node in nodes:
        lab.nodes.delete(node.id)
    lab.tick()
    lab.cloud.settle()
    lab.clock.pass_(60)
    lab.cloud.calls.clear()
    lab.lifecycle.tick(lab.lease)
    assert {lab.node(node).state for node in nodes} == {NodeState.DELETED}
    assert lab.cloud.count("operations") == 1
    for node in nodes:
        assert _is_exact(lab, node.id)


def test_what_was_listed_in_one_tick_serves_no_other(lab: Lab) -> None:
    for _ in range(2):
        node = lab.up(name="again")
        lab.nodes.delete(node.id)
        lab.tick()
        lab.cloud.settle()
        lab.clock.pass_(60)
        lab.cloud.calls.clear()
        lab.lifecycle.tick(lab.lease)
        assert lab.cloud.count("operations") == 1
        assert _is_exact(lab, node.id)


def _is_exact(lab: Lab, node_id: str) -> bool:
    """Whether the end of what it used is known to the second."""
    with lab.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node_id)
    return usage.end is not None and usage.end == usage.end_lo


def test_an_old_list_is_asked_for_again(lab_of_records) -> None:
    cloud, records, wait = lab_of_records
    records.operations_at(place("a"), place("a").path)
    wait(FRESH_SECONDS / 2)
    records.operations_at(place("b"), place("b").path)
    assert cloud.count("operations") == 1
    wait(FRESH_SECONDS / 2)
    records.operations_at(place("b"), place("b").path)
    assert cloud.count("operations") == 2


def test_a_list_that_shows_something_under_way_is_asked_for_again(lab_of_records) -> None:
    """It may be over by now: when exactly is what the money is counted by."""
    cloud, records, _ = lab_of_records
    path = place("a").path
    cloud._begin("delete", path)
    assert not records.operations_at(place("a"), path)[0].done
    cloud._finish(path, ("delete",))
    records.operations_at(place("b"), place("b").path)
    assert cloud.count("operations") == 1, "of another node it says all there is"
    assert records.operations_at(place("a"), path)[0].done


def test_zones_and_projects_have_lists_of_their_own(lab_of_records) -> None:
    cloud, records, _ = lab_of_records
    other = Place("elsewhere", factories.ZONE, "a")
    for node in (place("a"), place("a", "us-east1-c"), other):
        records.operations_at(node, node.path)
    assert cloud.count("operations") == 3
    records.forget_project("elsewhere")
    for node in (place("a"), place("a", "us-east1-c"), other):
        records.operations_at(node, node.path)
    assert cloud.count("operations") == 4


def test_a_list_that_fails_holds_nobody_up_again(lab_of_records) -> None:
    cloud, records, wait = lab_of_records
    cloud.fail("operations", CloudUnavailable("later"))
    assert records.operations_at(place("a"), place("a").path) == ()
    assert records.operations_at(place("b"), place("b").path) == ()
    assert cloud.count("operations") == 1
    wait(FRESH_SECONDS)
    records.operations_at(place("b"), place("b").path)
    assert cloud.count("operations") == 2


@pytest.mark.concurrent
def test_threads_that_want_it_at_once_share_one_list(lab_of_records) -> None:
    cloud, records, _ = lab_of_records
    is_asked, goes_on, listed = threading.Event(), threading.Event(), cloud.operations

    def slow(project: str, zone: str):
        is_asked.set()
        assert goes_on.wait(PATIENCE)
        return listed(project, zone)

    cloud.operations = slow
    threads = [
        threading.Thread(target=records.operations_at, args=(place(name), place(name).path))
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    assert is_asked.wait(PATIENCE)
    goes_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert cloud.count("operations") == 1
