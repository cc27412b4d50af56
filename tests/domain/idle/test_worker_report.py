"""What a supervisor reports becomes readings; whatever else is written does no harm."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.idle.proof import Host
from service.domain.idle.signals.signal import Kind, Level, Reading, level_of, with_reading
from service.domain.idle.worker_report import (
    AHEAD_SECONDS,
    MAX_ACTIVITY_BYTES,
    WorkerActivity,
    WorkerReport,
    parse_activity,
    parse_worker,
    readings_of,
)
from service.domain.jobs.report import SupervisorReport, is_current
from tests.hands import NOON

AT, FROM = NOON - 10, NOON - 3_600
DOCUMENT = {
    "from": FROM,
    "at": AT,
    "holder": "",
    "device_free_since": FROM + 60,
    "cpu_quiet_since": FROM,
    "network_quiet_since": AT - 30,
    "sessions": 0,
    "containers": 0,
    "restarts": 0,
}
QUIET = WorkerActivity(FROM, AT, "", FROM + 60, FROM, AT - 30)
BUSY = WorkerActivity(FROM, AT, "process 7 (python) holds /dev/vfio/0", None, None, None, 1, 2, 3)


def test_an_activity_is_read():
    assert parse_activity(DOCUMENT, NOON) == QUIET
    held = {
        **dict.fromkeys(["device_free_since", "cpu_quiet_since", "network_quiet_since"]),
        "holder": BUSY.holder,
        "sessions": 1,
        "containers": 2,
        "restarts": 3,
    }
    assert parse_activity({**DOCUMENT, **held}, NOON) == BUSY
    assert BUSY.host == Host(AT, BUSY.holder, 1, 2, 3)


@pytest.mark.parametrize(
    "changes",
    [
        *({"from": None}, {"at": None}, {"from": "1"}, {"at": -1}, {"at": 1.5}, {"from": True}),
        {"from": AT + 1},
    ],
    ids=str,
)
def test_what_was_watched_without_end_or_beginning_is_no_activity(changes):
    assert parse_activity({**DOCUMENT, **changes}, NOON) is None


def test_no_instant_is_later_than_now_nor_than_the_last_look():
    ahead = {"at": NOON + 500, "cpu_quiet_since": NOON + 400, "from": NOON - 5}
    activity = parse_activity({**DOCUMENT, **ahead}, NOON)
    assert activity is not None
    assert (activity.at, activity.cpu_quiet_since) == (NOON, NOON)
    late = parse_activity({**DOCUMENT, "cpu_quiet_since": AT + 5}, NOON)
    assert late is not None
    assert late.cpu_quiet_since == AT


def test_nothing_counts_from_before_the_supervisor_watched_or_the_machine_booted():
    early = {**DOCUMENT, "device_free_since": 0, "cpu_quiet_since": FROM - 1}
    assert parse_activity(early, NOON) == replace(
        QUIET, device_free_since=FROM, cpu_quiet_since=FROM
    )
    booted = parse_activity(early, NOON, boot_at=AT - 100)
    assert booted == WorkerActivity(AT - 100, AT, "", AT - 100, AT - 100, AT - 30)
    assert parse_activity(early, NOON, boot_at=AT + 1) is None


def test_a_device_with_a_holder_is_not_free():
    activity = parse_activity({**DOCUMENT, "holder": "process 7 \n\0 holds" + "x" * 900}, NOON)
    assert activity is not None
    assert activity.device_free_since is None
    assert len(activity.holder) <= 300
    assert "\0" not in activity.holder


def test_one_report_proves_the_whole_time_that_was_watched():
    always = replace(QUIET, device_free_since=FROM, network_quiet_since=FROM)
    assert readings_of(3, always) == (
        Reading(3, Kind.DEVICE, FROM, AT, 0),
        Reading(3, Kind.REPORTED_CPU, FROM, AT, 0),
        Reading(3, Kind.REPORTED_NETWORK, FROM, AT, 0),
    )
    for reading in readings_of(3, always):
        assert level_of(reading, was_quiet=False) is Level.QUIET


def test_what_came_to_rest_while_it_was_watched_was_at_work_until_then():
    """A burst that is over before the report: no report ever shows its holder."""
    readings = readings_of(3, QUIET)
    assert [(reading.kind, reading.start, reading.end) for reading in readings] == [
        (Kind.DEVICE, FROM + 59, FROM + 60),
        (Kind.DEVICE, FROM + 60, AT),
        (Kind.REPORTED_CPU, FROM, AT),
        (Kind.REPORTED_NETWORK, AT - 31, AT - 30),
        (Kind.REPORTED_NETWORK, AT - 30, AT),
    ]
    track = None
    for device in readings_of(3, replace(QUIET, at=AT - 300, device_free_since=FROM)):
        track = with_reading(track, device, 0) if device.kind is Kind.DEVICE else track
    burst = replace(QUIET, device_free_since=AT - 200)
    for device in readings_of(3, burst):
        track = with_reading(track, device, 0) if device.kind is Kind.DEVICE else track
    assert track is not None
    assert track.at_rest == ((AT - 200, AT),)


def test_work_now_says_nothing_of_the_time_before():
    readings = readings_of(0, replace(BUSY, restarts=2))
    assert {(reading.start, reading.end) for reading in readings} == {(AT - 1, AT)}
    assert {reading.kind: level_of(reading, was_quiet=True) for reading in readings} == {
        Kind.DEVICE: Level.UNKNOWN,
        Kind.REPORTED_CPU: Level.ACTIVE,
        Kind.REPORTED_NETWORK: Level.ACTIVE,
    }


LOOP = replace(BUSY, restarts=3)


@pytest.mark.parametrize(
    ("activity", "is_held_on", "device"),
    [
        (LOOP, False, [(AT - 600, AT, 0.0)]),
        (replace(LOOP, holder="", device_free_since=AT - 90), False, [(AT - 600, AT, 0.0)]),
        (replace(LOOP, watched_from=AT - 60), False, [(AT - 60, AT, 0.0)]),
        (
            replace(LOOP, holder="", device_free_since=AT - 700),
            False,
            [(AT - 701, AT - 700, 1.0), (AT - 700, AT, 0.0)],
        ),
        (LOOP, True, [(AT - 1, AT, 1.0)]),
        (replace(LOOP, restarts=2), False, [(AT - 1, AT, 1.0)]),
    ],
)
def test_a_crash_loop_is_no_work_of_the_device_while_its_restarts_are_counted(
    activity, is_held_on, device
):
    readings = readings_of(0, activity, is_held_on=is_held_on)
    found = [
        (reading.start, reading.end, reading.value)
        for reading in readings
        if reading.kind is Kind.DEVICE
    ]
    assert found == device


def test_a_crash_loop_leaves_cpu_and_network_at_work():
    kinds = {reading.kind: level_of(reading, was_quiet=False) for reading in readings_of(0, LOOP)}
    assert kinds[Kind.REPORTED_CPU] is kinds[Kind.REPORTED_NETWORK] is Level.ACTIVE


def test_what_has_just_come_to_rest_shows_no_time_at_rest():
    readings = readings_of(0, WorkerActivity(FROM, AT, "", AT, AT, AT))
    assert {(reading.start, reading.end) for reading in readings} == {(AT - 1, AT)}
    assert readings_of(0, WorkerActivity(AT, AT, "", AT, AT, AT)) == ()


def test_a_device_that_was_held_once_is_free_from_its_release_only():
    track = None
    released = WorkerActivity(FROM, AT + 300, "", AT + 120)
    for activity in (QUIET, replace(BUSY, at=AT + 60), released):
        for reading in readings_of(0, activity):
            track = with_reading(track, reading, 0) if reading.kind is Kind.DEVICE else track
    assert track is not None
    assert track.at_rest == ((AT + 120, AT + 300),)


REPORT = {
    "v": 1,
    "seq": 3,
    "state": "IDLE",
    "boot": "b-2",
    "boot_at": FROM - 60,
    "instance": "4711",
}
METERED = {**DOCUMENT, "v": 1, "boot": "b-2"}


def worker(report=REPORT, activity=METERED, since=0):
    return parse_worker(
        {"report": json.dumps(report), "activity": json.dumps(activity), "x": "y"}, NOON, since
    )


def test_a_worker_names_its_instance_and_shows_its_activity():
    assert worker() == WorkerReport("4711", replace(QUIET, boot="b-2"))


@pytest.mark.parametrize(
    ("report", "activity"),
    [
        ({}, {"boot": "b-1"}),
        ({"boot": "b-3"}, {}),
        ({"boot": ""}, {"boot": ""}),
        ({"boot": None}, {"boot": None}),
        ({}, {"v": 2}),
        ({}, {"boot": ["b-2"]}),
    ],
)
def test_a_report_of_another_boot_counts_for_nothing(report, activity):
    assert worker({**REPORT, **report}, {**METERED, **activity}).activity is None


def test_nothing_counts_from_before_the_boot_or_the_node():
    late = worker({**REPORT, "boot_at": FROM + 100}).activity
    assert (late.watched_from, late.cpu_quiet_since) == (FROM + 100, FROM + 100)
    assert worker(since=AT - 50).activity.watched_from == AT - 50
    assert worker(since=AT + 1).activity is None


def test_a_report_that_is_dated_in_the_future_counts_for_nothing():
    near = worker(activity={**METERED, "at": NOON + AHEAD_SECONDS})
    assert (near.is_ahead, near.activity.at) == (False, NOON)
    for far in (NOON + AHEAD_SECONDS + 1, 2**52):
        assert worker(activity={**METERED, "at": far}) == WorkerReport("4711", is_ahead=True)
    assert not worker(activity={**METERED, "at": 2**52, "boot": "b-1"}).is_ahead


@pytest.mark.parametrize("instance", ["", "47x", "-1", "1" * 21, None, 4711, "4711\n5", "\u0664"])
def test_an_instance_that_is_no_number_is_none(instance):
    assert worker({**REPORT, "instance": instance}).instance == ""


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", "[" * 200_000, '{"v":1' + " " * MAX_ACTIVITY_BYTES + "}"]
)
def test_what_is_no_document_is_no_activity(text):
    values = {"report": json.dumps(REPORT), "activity": text}
    assert parse_worker(values, NOON) == WorkerReport("4711", None)
    assert parse_worker({"report": text}, NOON) == WorkerReport()
    assert parse_worker({}, NOON) == WorkerReport()


@pytest.mark.parametrize(
    ("seq", "boot", "expected"),
    [(8, "b", True), (8, "c", True), (7, "b", True), (7, "a", False), (6, "b", False)],
)
def test_a_report_of_before_does_not_count(seq, boot, expected):
    assert is_current(SupervisorReport(seq, boot), SupervisorReport(7, "b")) is expected
    assert is_current(SupervisorReport(seq, boot), None)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(DOCUMENT, anything)))
def test_whatever_is_written_claims_no_time_that_is_still_to_come(changes):
    activity = parse_activity({**DOCUMENT, **changes}, NOON)
    if activity is not None:
        for reading in readings_of(0, activity):
            assert reading.start < reading.end <= NOON
            assert min(reading.start, activity.at - 1) >= min(
                activity.watched_from, activity.at - 1
            )
        activity.holder.encode()
