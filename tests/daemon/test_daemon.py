"""The daemon's turns: what a look shows of the time before comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count, cycle, repeat
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.controllers.base import Controller
from service.controllers.inventory.inventory import InventoryController
from service.daemon import daemon as module
from service.daemon.daemon import Daemon, Drive
from service.daemon.first_looks import FirstLooks
from service.daemon.leaseholder import LEASE_SECONDS, Leaseholder
from service.domain.clock import HOUR, precise_clock, wall_clock
from service.domain.database_clock import AgreedClock
from service.domain.errors import CloudUnavailable, StoreUnavailable
from service.domain.lease import Lease
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from tests import factories
from tests.controllers.conftest import Lab
from tests.hands import NOON

PATIENCE = 20
"""Seconds after which a test gives up; none is meant to take as long as one."""


class Turns(InventoryController):
    """An inventory that notes its turns, and takes as long as the test wants."""

    def __init__(self, lab: Lab, turns: list[str], error: Exception | None = None) -> None:
        super().__init__(*_shared(lab))
        self.turns, self.error = turns, error
        self.may_go, self.is_over = threading.Event(), threading.Event()

    def tick(self, lease: Lease) -> None:
        """One look."""
        assert self.may_go.wait(PATIENCE)
        self.turns.append("inventory")
        self.is_over.set()
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        """End a look that nobody waited for: it would fail in the middle of another test."""
        self.may_go.set()
        assert self.is_over.wait(PATIENCE)


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
    return lab.units, lab.cloud, PriceBookCache(), lab.clock


@pytest.fixture
def freed(lab: Lab) -> Lab:
    """A laboratory whose project nobody holds."""
    with lab.units() as unit:
        unit.leases.release(lab.lease)
    return lab


@pytest.mark.concurrent
@pytest.mark.parametrize("error", [None, CloudUnavailable("an outage"), ValueError("a bug")])
def test_nobody_acts_before_the_first_look_was_tried(freed: Lab, error: Exception | None) -> None:
    turns: list[str] = []
    inventory, other = Turns(freed, turns, error), Other(turns)
    daemon = Daemon(freed.units, [factories.PROJECT], {3_600: [other, inventory]})
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,), daemon=True)
    running.start()
    assert not other.had_its_turn.wait(0.2)
    inventory.may_go.set()
    assert other.had_its_turn.wait(PATIENCE)
    stop.set()
    running.join(PATIENCE)
    assert turns == ["inventory", "other"]


@pytest.mark.concurrent
def test_a_first_look_that_takes_too_long_keeps_the_others_for_its_time_only(freed: Lab) -> None:
    """The inventory never comes back: the others act all the same, and the story is told once."""
    turns: list[str] = []
    inventory, other = Turns(freed, turns), Other(turns)
    daemon = Daemon(
        freed.units,
        [factories.PROJECT],
        {3_600: [other, inventory]},
        drive=Drive(first_looks=FirstLooks(seconds=0.5)),
    )
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,), daemon=True)
    with capture_logs() as logs:
        running.start()
        assert not other.had_its_turn.wait(0.2)
        assert other.had_its_turn.wait(PATIENCE)
        stop.set()
        running.join(PATIENCE)
    assert not running.is_alive()
    assert [log["event"] for log in logs].count("daemon.first_look_is_slow") == 1
    inventory.end()


@pytest.mark.concurrent
def test_who_is_told_to_stop_begins_nothing_and_waits_for_no_answer(freed: Lab) -> None:
    """A call to the cloud hangs: the lease is given back all the same, and at once."""
    turns: list[str] = []
    inventory, other = Turns(freed, turns), Other(turns)
    daemon = Daemon(freed.units, [factories.PROJECT], {3_600: [other, inventory]})
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,), daemon=True)
    running.start()
    assert not other.had_its_turn.wait(0.2)
    stop.set()
    running.join(PATIENCE)
    assert not running.is_alive(), "it waits for a look that does not end"
    with freed.units() as unit:
        assert unit.leases.take(factories.PROJECT, "another", 10) is not None
    inventory.end()
    assert not other.had_its_turn.wait(0.2)


class Waiting:
    """Workers and timers of a daemon that ends: how long it waits, and who may act meanwhile."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self.waited = 0.0
        self.is_free: list[bool] = []
        """Whether another daemon could take the lease while running turns are waited for."""

    def offer_turn(self, _controller: Controller, _lease: Lease) -> bool:
        """No turn begins."""
        return True

    def call_every(self, seconds: float, work: Callable[[], None]) -> None:
        """Nothing is due."""

    def start(self) -> None:
        """Nothing begins."""

    def stop(self) -> None:
        """Nothing was begun."""

    def run_within(self, seconds: float, work: Callable[[], None]) -> None:
        """The work is done, and took all of its time."""
        work()
        self.waited += seconds

    def wait_for_running(self, seconds: float) -> list[tuple[str, str]]:
        """A call to the cloud hangs."""
        with self._units.reading() as unit:
            self.is_free.append(unit.leases.list_free([factories.PROJECT]) != [])
        self.waited += seconds
        return [(factories.PROJECT, "inventory")]


def test_who_ends_gives_its_leases_back_before_it_waits_and_waits_five_seconds_at_most(
    freed: Lab,
) -> None:
    hands: Any = Waiting(freed.units)
    drive = Drive(timers=hands, turns=lambda _: hands)
    daemon = Daemon(freed.units, [factories.PROJECT], {}, drive=drive)
    daemon.start()
    with freed.units.reading() as unit:
        assert unit.leases.list_free([factories.PROJECT]) == []
    daemon.stop()
    assert hands.is_free == [True]
    assert hands.waited <= 5, "who asked it to end kills it soon after"


def test_a_turn_of_an_earlier_lease_is_dropped_although_the_project_is_held_again(
    freed: Lab,
) -> None:
    hands: Any = Waiting(freed.units)
    drive = Drive(timers=hands, turns=lambda _: hands, holder="again")
    daemon, turns = Daemon(freed.units, [factories.PROJECT], {}, drive=drive), list[str]()
    daemon.start()
    with freed.units() as unit:
        present = unit.leases.renew(factories.PROJECT, "again", LEASE_SECONDS)
    assert present is not None
    daemon.tick(Other(turns), replace(present, epoch=present.epoch - 1))
    assert turns == []
    daemon.tick(Other(turns), present)
    assert turns == ["other"]
    daemon.stop()


class Ticking:
    """A monotonic clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_first_look_is_over_once_it_was_tried_or_took_too_long(lab: Lab) -> None:
    clock = Ticking()
    looks = FirstLooks(30, clock)
    other = Lease(lab.lease.project, "someone", lab.lease.epoch + 1)
    assert not looks.is_over(lab.lease)
    assert looks.mark_done(other)
    assert not looks.mark_done(other), "whoever waited for it was told"
    assert looks.is_over(other)
    clock.now = 29.9
    assert not looks.is_over(lab.lease)
    clock.now = 30
    assert looks.is_over(lab.lease)


def test_leases_that_are_held_no_more_are_forgotten(lab: Lab) -> None:
    looks = FirstLooks(30, Ticking())
    looks.mark_done(lab.lease)
    looks.keep_only([lab.lease])
    assert looks.is_over(lab.lease)
    looks.keep_only([])
    assert not looks.is_over(lab.lease)
    assert (len(looks._over), len(looks._since)) == (0, 1)


def test_who_takes_a_lease_goes_by_the_databases_clock(freed: Lab) -> None:
    clock = AgreedClock(own=lambda: precise_clock() + HOUR)
    holder = Leaseholder(freed.units, [factories.PROJECT], {}, clock)
    with capture_logs() as logs:
        holder.renew()
        holder.renew()
    assert holder.list_held()
    assert abs(clock() - wall_clock()) <= 1
    (told,) = [entry for entry in logs if entry["event"] == "clock.differs"]
    assert told["seconds_ahead_of_the_database"] == HOUR


def test_an_answer_that_was_long_under_way_sets_no_clock(freed: Lab) -> None:
    marks = count(0, 10)
    clock = AgreedClock(own=lambda: float(NOON), monotonic=lambda: next(marks))
    holder = Leaseholder(freed.units, [factories.PROJECT], {}, clock)
    holder.renew()
    assert clock() == NOON


class Shaky:
    """Units whose writes take as many seconds, or fail, as a test says."""

    def __init__(self, units: Units, clock: Ticking) -> None:
        self._units, self._clock = units, clock
        self.writes: Iterator[float | StoreUnavailable] = repeat(0.0)

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        """A unit that may write."""
        answer = next(self.writes)
        if isinstance(answer, StoreUnavailable):
            raise answer
        with self._units(lease) as unit:
            yield unit
        self._clock.now += answer

    def reading(self) -> AbstractContextManager[Unit]:
        """A unit that only reads."""
        return self._units.reading()


@pytest.mark.parametrize("renewed", [False, True])
def test_the_time_of_a_lease_begins_before_the_database_was_asked_for_it(
    freed: Lab, renewed: bool
) -> None:
    """Its answer may take long, and the lease runs out by the database's clock all the same."""
    mark = Ticking()
    units: Any = Shaky(freed.units, mark)
    holder = Leaseholder(units, [factories.PROJECT], {}, AgreedClock(monotonic=mark))
    if renewed:
        holder.renew()
        mark.now = begun = 5.0
        units.writes = iter([8.0])
    else:
        begun = mark.now
        units.writes = iter([0.0, 8.0])
    holder.renew()
    mark.now = begun + LEASE_SECONDS - 0.1
    assert holder.list_held()
    mark.now = begun + LEASE_SECONDS
    assert not holder.list_held()


class Hands:
    """Workers and timers of a daemon that a test drives: turns are noted, and nothing is due."""

    def __init__(self) -> None:
        self.offered: list[Lease] = []

    def offer_turn(self, _: Controller, lease: Lease) -> bool:
        """Note the turn."""
        self.offered.append(lease)
        return True

    def call_every(self, seconds: float, work: Callable[[], None]) -> None:
        """Nothing is due."""

    def start(self) -> None:
        """Nothing begins."""

    def wake(self) -> None:
        """Nothing is due."""


def test_one_renewal_in_two_may_fail_and_no_lease_is_lost(freed: Lab) -> None:
    mark, other = Ticking(), Other([])
    units: Any = Shaky(freed.units, mark)
    hands: Any = Hands()
    drive = Drive(timers=hands, turns=lambda _: hands)
    clock = AgreedClock(own=lambda: NOON + mark.now, monotonic=mark)
    daemon = Daemon(units, [factories.PROJECT], {3_600: [other]}, clock, drive=drive)
    daemon.start()
    (lease,) = hands.offered
    units.writes = cycle([0.0, StoreUnavailable("no answer")])
    turns = int(4 * 5 * LEASE_SECONDS)
    for _ in range(turns):
        mark.now += 0.25
        daemon.renew_if_due()
        daemon.tick(other, lease)
    assert len(other.turns) == turns


class Jumping(AgreedClock):
    """A clock that nobody sets right: a timer that waits for it to catch up would wait long."""

    jumped = False

    @property
    def has_jumped(self) -> bool:
        """As the test wants it."""
        return self.jumped


@pytest.mark.concurrent
def test_a_clock_that_was_set_back_keeps_nobody_waiting(freed: Lab) -> None:
    clock, other = Jumping(), Other([])
    daemon = Daemon(freed.units, [factories.PROJECT], {3_600: [other]}, clock)
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,), daemon=True)
    running.start()
    assert other.had_its_turn.wait(PATIENCE)
    other.had_its_turn.clear()
    clock.jumped = True
    assert other.had_its_turn.wait(PATIENCE), "its turn comes once an hour"
    stop.set()
    running.join(PATIENCE)


@pytest.mark.concurrent
def test_the_leases_are_renewed_though_one_renewal_broke(
    freed: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one thread renews them: were it gone, the daemon would do nothing and live on."""
    renewed, renew = threading.Event(), Leaseholder.renew
    calls = count()

    def breaking(holder: Leaseholder) -> list[Lease]:
        number = next(calls)
        if number == 1:
            raise ValueError("a bug")
        if number == 2:
            renewed.set()
        return renew(holder)

    monkeypatch.setattr(Leaseholder, "renew", breaking)
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.03)
    daemon = Daemon(freed.units, [factories.PROJECT], {3_600: [Other([])]})
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,), daemon=True)
    with capture_logs() as logs:
        running.start()
        assert renewed.wait(PATIENCE)
        stop.set()
        running.join(PATIENCE)
    assert [log["event"] for log in logs].count("lease.broke") == 1


@pytest.mark.concurrent
def test_a_lease_that_comes_free_is_taken_before_the_next_renewal(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewals are so far apart that the test would give up long before the next one."""
    monkeypatch.setattr(module, "LEASE_SECONDS", 3_600)
    other = Other([])
    daemon = Daemon(lab.units, [factories.PROJECT], {3_600: [other]})
    stop = threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop,), daemon=True)
    running.start()
    assert not other.had_its_turn.wait(0.5), "another daemon looks after the project"
    with lab.units() as unit:
        unit.leases.release(lab.lease)
    assert other.had_its_turn.wait(PATIENCE)
    stop.set()
    running.join(PATIENCE)


def test_who_holds_every_lease_does_not_ask_for_those_of_others(freed: Lab) -> None:
    holder = Leaseholder(freed.units, [factories.PROJECT], {})
    assert holder.is_any_free()
    holder.renew()
    assert not holder.is_any_free()
    holder.release_all()
    assert not holder.is_any_free(), "it takes none any more"
