"""Reads on threads: a project whose reads never end holds up no tick and no other project."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import update

from service.domain.idle.readings import families_of
from service.domain.idle.signals.signal import MONITORED, Kind, Level
from service.domain.nodes.node import NodeState
from service.settings import Settings
from service.store.pricebook import PriceBookCache
from service.store.tables import leases
from service.wiring import CloudPorts, Foundation, Pacing, build_idle_controller
from tests import factories
from tests.controllers.idle.conftest import REST, TIMES
from tests.hands import NOON

PATIENCE = 60
"""Seconds after which a thread that does not come fails the test."""


class Hanging:
    """Lets calls hang until the end of a test. `threads` are those that hang."""

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()
        self.began = threading.Event()
        self.released = threading.Event()

    def hang(self, began: threading.Event) -> None:
        """Hang on the calling thread, after it was noted."""
        thread = threading.current_thread()
        self.threads.add(thread)
        began.set()
        if thread is not threading.main_thread():
            self.released.wait(PATIENCE)


@pytest.fixture
def hanging():
    made = Hanging()
    yield made
    made.released.set()
    for thread in made.threads - {threading.main_thread()}:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture
def slow_lab(lab, engine, hanging):
    """A laboratory whose reads are made on threads. A tick ends before the next one begins, and so
    does each read that does not hang."""

    def start(work):
        hanging.began.clear()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive() and not hanging.began.is_set():
            thread.join(0.01)

    lab.start_daemon("two", start)
    with engine.begin() as connection:
        connection.execute(update(leases).values(held_since=NOON - 7_200))
    return lab


def state_of(lab, node):
    """What its project has of the CPU metric, and the level of a node."""
    with lab.units.reading() as unit:
        reads = unit.cleanups.get(node.spec.project).families
    families = families_of(reads, lab.clock(), TIMES.telemetry, TIMES.period)
    return families[Kind.CPU], lab.course(node).verdict.level


def test_reads_of_one_project_that_hang_hold_up_no_other(slow_lab, hanging):
    lab = slow_lab
    seen, dark = lab.add(REST), lab.add(REST, project="slow", owner="b")
    with lab.units() as unit:
        other = unit.leases.take("slow", "two", 36_000)
    read, asked, hangs = lab.telemetry.read_samples, [], False

    def read_samples(project, kind, since, until):
        if project == "slow":
            asked.append(kind)
            if hangs:
                hanging.hang(hanging.began)
        return read(project, kind, since, until)

    lab.telemetry.read_samples = read_samples

    def minutes(count):
        for _ in range(count):
            lab.controller.tick(other)
            lab.minute()

    minutes(20)
    assert {state_of(lab, node) for node in (seen, dark)} == {("present", Level.QUIET)}
    asked.clear()
    hangs = True
    minutes(20)
    assert asked == [MONITORED[0]], "no second read begins while one hangs"
    assert state_of(lab, seen) == ("present", Level.QUIET)
    assert state_of(lab, dark) == ("failed", Level.UNKNOWN)
    assert lab.clock() - lab.course(dark).judged_at <= 60 + 300, "its ticks go on"
    ends = {track.end for track in lab.course(seen).signals.tracks.values()}
    assert min(ends) >= lab.clock() - 600


class HangingCloud:
    """Monitoring and the reports of workers, both of which hang."""

    def __init__(self, hanging: Hanging) -> None:
        self._hanging = hanging
        self.asked = {"samples": threading.Event(), "reports": threading.Event()}

    def read_samples(self, _project: str, _kind: Kind, _since: int, _until: int) -> list[Any]:
        self._hanging.hang(self.asked["samples"])
        return []

    def guest_attributes(self, _place: Any, _namespace: str) -> list[dict[str, str]]:
        self._hanging.hang(self.asked["reports"])
        return []


def test_the_daemon_is_built_with_reads_on_threads(units, engine, clock, hanging):
    cloud: Any = HangingCloud(hanging)
    no_file: Any = {"_env_file": None}
    settings = Settings(projects=("lab",), **no_file)
    base = Foundation(settings, engine, units, PriceBookCache(), clock)
    ready = {"state": NodeState.READY, "attempt": 1, "up_since": NOON, "next_try_at": None}
    with units() as unit:
        unit.nodes.add(factories.node(project="lab", supervisor=True, **ready))
        lease = unit.leases.take("lab", "test", 36_000)
    ports = CloudPorts(cloud, cloud, cloud, monitoring=cloud, registry=cloud)
    build_idle_controller(base, ports, Pacing(), lambda _: False).tick(lease)
    for asked in cloud.asked.values():
        assert asked.wait(PATIENCE)
    assert len(hanging.threads) == len(cloud.asked)
    assert threading.current_thread() not in hanging.threads
