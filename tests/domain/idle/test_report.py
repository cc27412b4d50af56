"""What a supervisor reports becomes readings; whatever else is written does no harm."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.idle.proof import Host
from service.domain.idle.report import WorkerActivity, parse_activity, readings_of
from service.domain.idle.signal import Kind, Level, Reading, level_of, read
from service.domain.jobs.report import Report, is_current, parse
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
    assert readings_of(3, QUIET) == (
        Reading(3, Kind.DEVICE, FROM + 60, AT, 0),
        Reading(3, Kind.REPORTED_CPU, FROM, AT, 0),
        Reading(3, Kind.REPORTED_NETWORK, AT - 30, AT, 0),
    )
    for reading in readings_of(3, QUIET):
        assert level_of(reading, was_quiet=False) is Level.QUIET


def test_work_now_says_nothing_of_the_time_before():
    readings = readings_of(0, BUSY)
    assert {(one.start, one.end) for one in readings} == {(AT - 1, AT)}
    assert {one.kind: level_of(one, was_quiet=True) for one in readings} == {
        Kind.DEVICE: Level.UNKNOWN,
        Kind.REPORTED_CPU: Level.ACTIVE,
        Kind.REPORTED_NETWORK: Level.ACTIVE,
    }


def test_what_has_just_come_to_rest_shows_no_time_at_rest():
    assert readings_of(0, WorkerActivity(FROM, AT, "", AT, AT, AT)) == ()


def test_a_device_that_was_held_once_is_free_from_its_release_only():
    track = None
    released = WorkerActivity(FROM, AT + 300, "", AT + 120)
    for activity in (QUIET, replace(BUSY, at=AT + 60), released):
        (reading,) = [one for one in readings_of(0, activity) if one.kind is Kind.DEVICE]
        track = read(track, reading, 0)
    assert track is not None
    assert track.at_rest == ((AT + 120, AT + 300),)


def test_the_activity_travels_with_the_report():
    document = {"v": 1, "seq": 3, "state": "IDLE", "boot_at": FROM + 30, "activity": DOCUMENT}
    report = parse(json.dumps(document), NOON)
    assert report is not None
    assert report.activity == replace(QUIET, watched_from=FROM + 30, cpu_quiet_since=FROM + 30)
    old = parse(json.dumps({**document, "activity": {"at": -1}}), NOON)
    assert old is not None
    assert old.activity is None


@pytest.mark.parametrize(
    ("seq", "boot", "expected"),
    [(8, "b", True), (8, "c", True), (7, "b", True), (7, "a", False), (6, "b", False)],
)
def test_a_report_of_before_does_not_count(seq, boot, expected):
    assert is_current(Report(seq, boot), Report(7, "b")) is expected
    assert is_current(Report(seq, boot), None)


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
