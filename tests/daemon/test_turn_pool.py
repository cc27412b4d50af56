"""The daemon's threads: who hangs costs the others nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from service.controllers.base import Controller
from service.daemon.turn_pool import TurnPool
from service.domain.lease import Lease

PATIENCE = 20
"""Seconds after which a test gives up; none is meant to take as long as one."""


class Named:
    """A controller that is only known by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def tick(self, lease: Lease) -> None:
        """Nothing: the crew of a test acts by itself."""


class Ticking:
    """A monotonic clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Log:
    """What was done, in order; turns of a project that hangs wait until the test lets them go."""

    def __init__(self, hanging: str = "") -> None:
        self.done: list[tuple[str, str]] = []
        self.begun: list[tuple[str, str]] = []
        self.may_go = threading.Event()
        self._hanging = hanging
        self._changed = threading.Condition()

    def act(self, controller: Controller, lease: Lease) -> None:
        """Take a turn."""
        self._note(self.begun, controller, lease)
        if lease.project == self._hanging:
            assert self.may_go.wait(PATIENCE)
        self._note(self.done, controller, lease)

    def _note(self, where: list[tuple[str, str]], controller: Controller, lease: Lease) -> None:
        with self._changed:
            where.append((lease.project, controller.name))
            self._changed.notify_all()

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Come back once it holds."""
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE)


METERING = Named("metering")


def lease(project: str) -> Lease:
    return Lease(project, "me", 1)


def test_a_project_that_hangs_costs_the_others_nothing() -> None:
    """All threads wait for one project; once they are slow, others are started in their place."""
    clock, log = Ticking(), Log(hanging="slow")
    crew = TurnPool(log.act, size=2, patience=2, monotonic=clock)
    for name in ("inventory", "evidence"):
        crew.offer_turn(Named(name), lease("slow"))
    log.wait_for(lambda: len(log.begun) == 2)
    for number in range(5):
        crew.offer_turn(METERING, lease(f"quick-{number}"))
    crew.replace_slow()
    assert not log.done, "both threads are at work, and quick as far as anybody knows"
    clock.now = 2.1
    crew.replace_slow()
    log.wait_for(lambda: len(log.done) == 5)
    assert {turn for turn in log.begun if turn not in log.done} == {
        ("slow", "evidence"),
        ("slow", "inventory"),
    }
    log.may_go.set()
    assert crew.wait_for_running(PATIENCE) == []


def test_of_one_controller_and_project_one_turn_waits_or_is_under_way() -> None:
    log = Log(hanging="slow")
    crew = TurnPool(log.act)
    assert crew.offer_turn(METERING, lease("slow"))
    log.wait_for(lambda: len(log.begun) == 1)
    assert not crew.offer_turn(METERING, lease("slow"))
    log.may_go.set()
    assert crew.wait_for_running(PATIENCE) == []
    assert crew.offer_turn(METERING, lease("slow"))
    log.wait_for(lambda: len(log.done) == 2)


def test_the_lifecycle_goes_before_all_that_waits() -> None:
    log = Log(hanging="slow")
    crew = TurnPool(log.act, size=1)
    crew.offer_turn(METERING, lease("slow"))
    log.wait_for(lambda: len(log.begun) == 1)
    for name in ("metering", "budgets", "lifecycle"):
        crew.offer_turn(Named(name), lease("quick"))
    log.may_go.set()
    log.wait_for(lambda: len(log.done) == 4)
    assert [name for _, name in log.done[1:]] == ["lifecycle", "metering", "budgets"]


def test_no_more_turns_are_taken_at_once_than_there_are_threads() -> None:
    log = Log(hanging="slow")
    crew = TurnPool(log.act, size=3)
    for number in range(10):
        crew.offer_turn(Named(f"c-{number}"), lease("slow"))
    log.wait_for(lambda: len(log.begun) == 3)
    crew.replace_slow()
    assert len(log.begun) == 3
    log.may_go.set()
    log.wait_for(lambda: len(log.done) == 10)


def test_after_the_end_nothing_is_begun_and_what_hangs_is_named() -> None:
    log = Log(hanging="slow")
    crew = TurnPool(log.act, size=1)
    crew.offer_turn(METERING, lease("slow"))
    log.wait_for(lambda: len(log.begun) == 1)
    crew.offer_turn(METERING, lease("quick"))
    crew.stop()
    assert not crew.offer_turn(METERING, lease("late"))
    assert crew.wait_for_running(0.05) == [("slow", "metering")]
    log.may_go.set()
    assert crew.wait_for_running(PATIENCE) == []
    assert log.done == [("slow", "metering")]
