"""How far back metrics are read, and what of that is never lost."""

from __future__ import annotations

from service.controllers.idle.telemetry import TelemetryReader, at_once
from service.domain.errors import CloudUnavailable
from service.domain.idle.readings import FamilyRead
from service.domain.idle.signals.signal import MONITORED, Kind
from tests.controllers.idle.conftest import Later
from tests.hands import NOON, HandClock

OVERLAP, DEEPER = 300, 600
READ = {kind: FamilyRead(read_at=NOON - 60) for kind in MONITORED}
SHALLOW, DEEP = NOON - 60 - OVERLAP, NOON - 60 - OVERLAP - DEEPER


class Monitoring:
    """Keeps from when on each metric was read; fails for some."""

    def __init__(self):
        self.since = {}
        self.broken = set()

    def read_samples(self, _project, kind, since, _until):
        self.since[kind] = since
        if kind in self.broken:
            raise CloudUnavailable("no answer")
        return []


def test_each_read_goes_back_for_as_long_as_points_may_be_late():
    monitoring = Monitoring()
    reader = TelemetryReader(monitoring, HandClock(), OVERLAP, at_once)
    reader.take_results("lab", READ)
    assert set(monitoring.since.values()) == {SHALLOW}
    reader.take_results("lab", READ, deeper=DEEPER)
    assert set(monitoring.since.values()) == {DEEP}
    reader.take_results("lab", READ)
    assert set(monitoring.since.values()) == {SHALLOW}, "once is enough"


def test_a_deeper_read_that_is_asked_for_during_another_is_made_all_the_same():
    monitoring, later = Monitoring(), Later()
    reader = TelemetryReader(monitoring, HandClock(), OVERLAP, later)
    reader.take_results("lab", READ)
    reader.take_results("lab", READ, deeper=DEEPER)
    assert len(later.work) == 1, "the first one is under way"
    later.go_on()
    earliest = dict(monitoring.since)
    reader.take_results("lab", READ)
    later.go_on()
    for kind in MONITORED:
        assert min(earliest[kind], monitoring.since[kind]) == DEEP


def test_a_deeper_read_that_failed_is_done_again_for_that_metric():
    monitoring = Monitoring()
    reader = TelemetryReader(monitoring, HandClock(), OVERLAP, at_once)
    monitoring.broken = {Kind.CPU}
    reader.take_results("lab", READ, deeper=DEEPER)
    monitoring.broken = set()
    reader.take_results("lab", READ)
    assert monitoring.since.pop(Kind.CPU) == DEEP
    assert set(monitoring.since.values()) == {SHALLOW}


def test_a_read_says_whether_it_brought_what_was_owed():
    monitoring, later = Monitoring(), Later()
    reader = TelemetryReader(monitoring, HandClock(), OVERLAP, later)
    reader.take_results("lab", READ)
    monitoring.broken = {Kind.CPU}
    reader.take_results("lab", READ, deeper=DEEPER)
    later.go_on()
    begun = {one.kind: one.is_deep for one in reader.take_results("lab", READ)}
    later.go_on()
    after = {one.kind: one.is_deep for one in reader.take_results("lab", READ)}
    for kind in set(MONITORED) - {Kind.CPU}:
        assert begun[kind] != after[kind]
    assert not begun[Kind.CPU]
    assert not after[Kind.CPU]


def test_one_project_owes_nothing_to_another():
    monitoring = Monitoring()
    reader = TelemetryReader(monitoring, HandClock(), OVERLAP, at_once)
    monitoring.broken = set(MONITORED)
    reader.take_results("lab", READ, deeper=DEEPER)
    monitoring.broken = set()
    reader.take_results("other", READ)
    assert set(monitoring.since.values()) == {SHALLOW}
