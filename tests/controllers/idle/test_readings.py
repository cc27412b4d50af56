"""How far back metrics are read, and what of that is never lost."""

from __future__ import annotations

from service.cloud.ports import Sample
from service.controllers.idle.readings import TelemetryReader, at_once
from service.domain.clock import DAY, HOUR
from service.domain.errors import CloudUnavailable
from service.domain.idle.readings import FamilyRead
from service.domain.idle.signals.signal import MONITORED, Kind
from tests.controllers.idle.conftest import FakeTelemetry, Later
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
    begun = {result.kind: result.is_deep for result in reader.take_results("lab", READ)}
    later.go_on()
    after = {result.kind: result.is_deep for result in reader.take_results("lab", READ)}
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


def last_seen(before, *ends, error_before=None):
    """The result of a read of the duty cycle whose points ended then, and the calls for it."""
    telemetry = FakeTelemetry(HandClock(), error_before=error_before)
    telemetry.points[Kind.DUTY_CYCLE] = [
        Sample("", 0, "1", end - 60, end, 0.0) for end in sorted(ends)
    ]
    reader = TelemetryReader(telemetry, HandClock(), OVERLAP, at_once)
    read = {**READ, Kind.DUTY_CYCLE: before}
    (found,) = [
        result for result in reader.take_results("lab", read) if result.kind is Kind.DUTY_CYCLE
    ]
    calls = [(since, until) for kind, since, until in telemetry.reads if kind is Kind.DUTY_CYCLE]
    assert len(telemetry.reads) - len(calls) == len(MONITORED) - 1, "one call for each other metric"
    return found, calls


NEVER = FamilyRead()
FIRST_READ, BEFORE_IT = (NOON - 6 * HOUR, NOON), (NOON - DAY, NOON - 6 * HOUR)


def test_a_metric_without_points_is_looked_for_in_the_whole_day_at_its_first_read():
    found, calls = last_seen(NEVER, NOON - 11 * HOUR, NOON - 10 * HOUR)
    assert calls == [FIRST_READ, BEFORE_IT]
    assert (found.seen_at, found.samples, found.error) == (NOON - 10 * HOUR, [], "")


def test_a_metric_that_has_no_point_in_a_day_was_never_seen():
    found, calls = last_seen(NEVER, NOON - DAY - 60)
    assert calls == [FIRST_READ, BEFORE_IT]
    assert (found.seen_at, found.error) == (None, "")


def test_a_metric_with_fresh_points_is_read_once():
    found, calls = last_seen(NEVER, NOON - 10 * HOUR, NOON - 300)
    assert calls == [FIRST_READ]
    assert [sample.end for sample in found.samples] == [NOON - 300]


def test_a_metric_that_was_read_lately_is_not_looked_for_again():
    _, calls = last_seen(FamilyRead(read_at=NOON - 60))
    assert calls == [(SHALLOW, NOON)]


def test_after_a_long_time_without_reads_the_unread_time_is_read_too():
    read_at = NOON - 10 * HOUR
    found, calls = last_seen(FamilyRead(read_at=read_at), NOON - 8 * HOUR)
    assert calls == [FIRST_READ, (read_at, NOON - 6 * HOUR)]
    assert found.seen_at == NOON - 8 * HOUR


def test_a_day_of_which_a_part_cannot_be_read_is_a_failed_read():
    found, calls = last_seen(NEVER, NOON - 10 * HOUR, error_before=NOON - 6 * HOUR)
    assert calls == [FIRST_READ, BEFORE_IT]
    assert found.error
    assert found.seen_at is None
