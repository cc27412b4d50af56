"""The daemon's turns: what a look shows of the time before comes first."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from service.controllers.inventory import InventoryController
from service.daemon import Daemon, FirstLook
from service.domain.errors import CloudUnavailable
from service.domain.lease import Lease
from service.store.pricebook import PriceShelf
from tests import factories
from tests.controllers.conftest import Lab

PATIENCE = 20
"""Seconds after which a test gives up; none is meant to take as long as one."""


class Turns(InventoryController):
    """An inventory that notes its turns, and takes as long as the test wants."""

    def __init__(self, lab: Lab, turns: list[str], error: Exception | None = None) -> None:
        super().__init__(*_shared(lab))
        self.turns, self.error = turns, error
        self.may_go = threading.Event()

    def tick(self, lease: Lease) -> None:
        """One look."""
        assert self.may_go.wait(PATIENCE)
        self.turns.append("inventory")
        if self.error is not None:
            raise self.error


class Other:
    """Anybody else."""

    name = "other"

    def __init__(self, turns: list[str]) -> None:
        self.turns, self.had_its_turn = turns, threading.Event()

    def tick(self, lease: Lease) -> None:
        """Act."""
        self.turns.append("other")
        self.had_its_turn.set()


def _shared(lab: Lab) -> Any:
    return lab.units, lab.cloud, PriceShelf(), lab.clock


@pytest.fixture
def freed(lab: Lab) -> Lab:
    """A laboratory whose project nobody holds."""
    with lab.units() as unit:
        unit.leases.release(lab.lease)
    return lab


@pytest.mark.parametrize("error", [None, CloudUnavailable("an outage"), ValueError("a bug")])
def test_nobody_acts_before_the_first_look_was_tried(freed: Lab, error: Exception | None) -> None:
    turns: list[str] = []
    inventory, other = Turns(freed, turns, error), Other(turns)
    daemon = Daemon(freed.units, [factories.PROJECT], {3_600: [other, inventory]})
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,))
    running.start()
    assert not other.had_its_turn.wait(0.2)
    inventory.may_go.set()
    assert other.had_its_turn.wait(PATIENCE)
    stop.set()
    running.join(PATIENCE)
    assert turns == ["inventory", "other"]


def test_who_is_told_to_stop_waits_for_no_look(freed: Lab) -> None:
    turns: list[str] = []
    inventory, other = Turns(freed, turns), Other(turns)
    daemon = Daemon(freed.units, [factories.PROJECT], {3_600: [other, inventory]})
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,))
    running.start()
    assert not other.had_its_turn.wait(0.2)
    stop.set()
    assert other.had_its_turn.wait(PATIENCE)
    inventory.may_go.set()
    running.join(PATIENCE)
    assert not running.is_alive()


def test_a_look_that_takes_for_ever_is_waited_for_once(lab: Lab) -> None:
    first = FirstLook(seconds=0.01)
    first.wait(lab.lease)
    later = FirstLook(seconds=PATIENCE)
    later.done(lab.lease)
    for one in (first, later):
        one.wait(lab.lease)
    other_lease = Lease(lab.lease.project, "someone", lab.lease.epoch + 1)
    FirstLook(seconds=0.01).wait(other_lease)
