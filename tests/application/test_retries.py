"""A change without a version is tried again after a conflict, and its caller sees no conflict."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.application.nodes.nodes import NodeChange, NodeService
from service.application.retries import LONGEST_PAUSE, TRIES, retry_stale, run_with_retries
from service.domain.errors import Conflict, StaleVersion
from service.domain.event import Event
from service.domain.metering.attribution import Reattribution
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit
from tests import factories
from tests.hands import NOON, HandClock

CALLERS, CHANGES = 10, 50


@pytest.mark.concurrent
def test_fifty_changes_of_one_node_at_once_are_all_made(units):
    service = NodeService(units, PriceBookCache(), HandClock(), [factories.PROJECT])
    node = service.request(factories.request(labels={})).node

    def label(number: int) -> None:
        service.update(node.id, NodeChange(Reattribution(labels={f"by-{number}": "x"})))

    with ThreadPoolExecutor(CALLERS) as many:
        list(many.map(label, range(CHANGES)))
    found = service.get(node.id)
    assert set(found.labels) == {f"by-{number}" for number in range(CHANGES)}
    assert found.version == node.version + CHANGES


def test_the_pauses_grow_and_are_short(monkeypatch: pytest.MonkeyPatch):
    longest: list[float] = []
    monkeypatch.setattr(time, "sleep", longest.append)
    monkeypatch.setattr(random, "uniform", lambda _, most: most)
    times: list[int] = []

    def late() -> None:
        times.append(len(times))
        raise StaleVersion("somebody was first")

    with pytest.raises(Conflict, match="try it later"):
        retry_stale(late, "try it later")
    assert len(times) == TRIES
    assert longest == sorted(longest)
    assert len(longest) == TRIES - 1
    assert longest[-1] == LONGEST_PAUSE
    assert sum(longest) < 1


def test_who_is_always_late_is_told_of_what(units, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    times: list[int] = []

    def late(_: Unit) -> None:
        times.append(len(times))
        raise StaleVersion("somebody was first")

    with pytest.raises(Conflict, match="job 7 is being changed by others"):
        run_with_retries(units, late, "job 7")
    assert len(times) == TRIES
    with pytest.raises(StaleVersion, match="somebody was first"):
        run_with_retries(units, late, "job 7", once=True)
    assert len(times) == TRIES + 1


def test_who_is_late_once_is_done_over_and_leaves_nothing_of_the_first_time(units):
    events: list[int] = []

    def late_once(unit: Unit) -> str:
        unit.events.add(Event("n-1", NOON, "state", f"try {len(events)}"))
        events.append(len(events))
        if len(events) == 1:
            raise StaleVersion("somebody was first")
        return "done"

    assert run_with_retries(units, late_once, "it") == "done"
    with units.reading() as unit:
        assert [event.message for _, event in unit.events.list_by_node("n-1", 0, 9)] == ["try 1"]
