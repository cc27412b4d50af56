"""Who did not say which version he saw is done over inside, and hears nothing of the others."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.application.nodes.nodes import NodeService
from service.application.retries import LONGEST_PAUSE, TRIES, tries
from service.domain.metering.attribution import Reattribution
from service.store.pricebook import PriceShelf
from tests import factories
from tests.hands import HandClock

CALLERS, CHANGES = 10, 50


@pytest.mark.concurrent
def test_fifty_changes_of_one_node_at_once_are_all_made(units):
    service = NodeService(units, PriceShelf(), HandClock(), [factories.PROJECT])
    node = service.request(factories.wish(labels={})).node

    def label(number: int) -> None:
        service.reattribute(node.id, Reattribution(labels={f"by-{number}": "x"}))

    with ThreadPoolExecutor(CALLERS) as many:
        list(many.map(label, range(CHANGES)))
    found = service.get(node.id)
    assert set(found.labels) == {f"by-{number}" for number in range(CHANGES)}
    assert found.version == node.version + CHANGES


def test_the_pauses_grow_and_are_short(monkeypatch: pytest.MonkeyPatch):
    longest: list[float] = []
    monkeypatch.setattr(time, "sleep", longest.append)
    monkeypatch.setattr(random, "uniform", lambda _, most: most)
    assert list(tries()) == list(range(TRIES))
    assert longest == sorted(longest)
    assert len(longest) == TRIES - 1
    assert longest[-1] == LONGEST_PAUSE
    assert sum(longest) < 1
