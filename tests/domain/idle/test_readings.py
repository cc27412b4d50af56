"""Tests of which node a measurement is about, and of what is known from many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cloud.ports import Sample
from service.domain.idle.proof import MetricFamily
from service.domain.idle.readings import (
    FamilyRead,
    WorkerNames,
    families_of,
    family_of,
    is_read_since,
    newest_end,
    with_samples,
)
from service.domain.idle.signals.signal import COUNTED, Kind

NOW = 1_000_000
WORKERS = WorkerNames(
    parts={"100": ("n", 0), "101": ("n", 4), "200": ("m", 0)},
    instances={"i-7": ("m", 3)},
)


def by_node(uid, worker=0, end=60, value=0.0):
    return Sample(uid, worker, "", end - 60, end, value)


def places_of(*samples):
    """The node and worker of each sample that is of one of ours."""
    found = with_samples({}, WORKERS, [(Kind.CPU, samples)], 0)
    return {(node, worker) for node, tracks in found.tracks.items() for worker, _ in tracks}


def test_the_workers_of_later_slices_follow_those_of_the_first():
    assert places_of(by_node("100", 3)) == {("n", 3)}
    assert places_of(by_node("101", 3)) == {("n", 7)}
    assert places_of(Sample("", 0, "i-7", 0, 60, 1.0)) == {("m", 3)}


def test_machines_of_others_are_left_out():
    assert places_of(by_node("999"), Sample("", 0, "i-8", 0, 60, 1.0)) == set()
    found = with_samples({}, WORKERS, [(Kind.CPU, [by_node("999")])], 0)
    assert (found.tracks, found.readings) == ({}, {})


def test_a_measurement_changes_the_track_of_its_worker_alone():
    first = with_samples({}, WORKERS, [(Kind.CPU, [by_node("100"), by_node("200")])], 0)
    before = first.tracks
    after = with_samples(before, WORKERS, [(Kind.CPU, [by_node("101", 1, 120, 50.0)])], 0).tracks
    assert set(after) == {"n"}
    assert set(after["n"]) == {(0, Kind.CPU), (5, Kind.CPU)}
    assert after["n"][5, Kind.CPU].broken_at == 120
    assert set(before["n"]) == {(0, Kind.CPU)}, "what was known before stays as it was"


@pytest.mark.parametrize(
    ("value", "up_since", "busy"),
    [
        (20, 100 - 60, None),  # the counter began within the first minute
        (20, 100 - 61, 120),  # up for longer: it was active
        (0, 100, 120),  # active now, however young it is
        (90, 0, None),
    ],
)
def test_an_idle_counter_that_began_with_the_boot_shows_no_work(value, up_since, busy):
    workers = WorkerNames(parts={"100": ("n", 0)}, up_since={"n": up_since})
    sample = by_node("100", end=120, value=float(value))
    found = with_samples({}, workers, [(Kind.TENSORCORE_IDLE, [sample])], 0)
    track = found.tracks["n"][0, Kind.TENSORCORE_IDLE]
    assert track.broken_at == busy
    if value == 20 and busy is None:
        assert track.at_rest == ((100, 120),)


def test_what_is_known_already_is_not_read_again():
    rest = [by_node("100", end=60), by_node("100", end=120), by_node("100", end=180)]
    before = with_samples({}, WORKERS, [(Kind.CPU, rest)], 0).tracks
    again = with_samples(before, WORKERS, [(Kind.CPU, rest[:2])], 0)
    assert (again.tracks, again.readings) == ({}, {})
    corrected = with_samples(
        before, WORKERS, [(Kind.CPU, [by_node("100", end=120, value=90.0)])], 0
    )
    assert corrected.tracks["n"][0, Kind.CPU].broken_at == 120


def test_two_reads_of_one_metric_are_both_taken():
    reads = [(Kind.CPU, [by_node("100", end=60)]), (Kind.CPU, [by_node("200"), by_node("999")])]
    found = with_samples({}, WORKERS, reads, 0)
    assert set(found.tracks) == set(found.readings) == {"n", "m"}
    assert found.strange == {Kind.CPU: [by_node("999")]}


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 30), st.sampled_from([0.0, 80.0])),
        unique_by=lambda one: one[:2],
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_samples_does_not_matter(drawn, random):
    samples = [by_node("100", worker, 60 * minute, value) for worker, minute, value in drawn]
    shuffled = random.sample(samples, len(samples))
    known = with_samples({}, WORKERS, [(Kind.CPU, samples)], 0).tracks
    assert with_samples({}, WORKERS, [(Kind.CPU, shuffled)], 0).tracks == known
    halves = dict(with_samples({}, WORKERS, [(Kind.CPU, shuffled[::2])], 0).tracks)
    halves.update(with_samples(halves, WORKERS, [(Kind.CPU, shuffled[1::2])], 0).tracks)
    assert halves == known


@pytest.mark.parametrize(
    ("seen_at", "read_at", "expected"),
    [
        (NOW - 100, NOW - 60, MetricFamily.PRESENT),
        (NOW - 86_399, NOW, MetricFamily.PRESENT),
        (NOW - 86_400, NOW, MetricFamily.ABSENT),
        (None, NOW, MetricFamily.ABSENT),
        (None, NOW - 180, MetricFamily.ABSENT),
        (None, NOW - 181, MetricFamily.FAILED),
        (NOW - 200, NOW - 181, MetricFamily.FAILED),
        (None, None, MetricFamily.FAILED),
    ],
)
def test_a_metric_is_absent_only_by_a_read_that_succeeded(seen_at, read_at, expected):
    assert family_of(FamilyRead(seen_at, read_at), NOW, 180) is expected
    assert family_of(FamilyRead(seen_at, read_at, "no answer"), NOW, 180) is MetricFamily.FAILED


@pytest.mark.parametrize(
    ("kind", "read", "is_fresh"),
    [
        (Kind.CPU, FamilyRead(NOW - 60, NOW - 120), True),
        (Kind.CPU, FamilyRead(NOW - 60, NOW - 121), False),
        (Kind.CPU, FamilyRead(None, NOW - 121), True),
        (Kind.SCHEDULED_CHIPS, FamilyRead(NOW - 60, NOW - 121), True),
    ],
)
def test_monitoring_is_read_when_each_metric_that_is_there_and_counts_was(kind, read, is_fresh):
    reads = {**dict.fromkeys(COUNTED, FamilyRead(NOW - 60, NOW)), kind: read}
    families = families_of(reads, NOW, 240, 60)
    assert is_read_since(reads, families, NOW - 120) is is_fresh


def test_the_newest_sample():
    assert (
        newest_end([by_node("100", end=60), by_node("100", end=180), by_node("1", end=120)]) == 180
    )
    assert newest_end([]) is None
