"""A reader of a job's log gets every line once, however late and however many come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.jobs.job import Attempt
from service.domain.jobs.log import (
    MAX_SEEN,
    NANOS,
    OVERLAP_SECONDS,
    SETTLE_SECONDS,
    LogCursor,
    LogLine,
    after_failure,
    build_page,
    estimated_cost,
    is_complete,
)
from service.domain.jobs.report import SupervisorReport, WorkerState
from tests.hands import NOON


def line(seconds: float, insert_id: str = "a") -> LogLine:
    return LogLine(NOON * NANOS + int(seconds * NANOS), 0, 1, f"line {insert_id}", insert_id)


def read(log: list[LogLine], cursor: LogCursor, limit: int = 10):
    """What the cloud shows from the cursor on, cut into a page."""
    found = [each for each in log if each.at_ns >= cursor.from_ns]
    return build_page(cursor, found, limit, more=False)


def test_a_second_look_at_the_same_log_delivers_nothing():
    log = [line(1), line(1, "b"), line(2)]
    first = read(log, LogCursor.start(NOON))
    assert (list(first.lines), first.more) == (log, False)
    second = read(log, first.cursor)
    assert (list(second.lines), second.cursor) == ([], first.cursor)


def test_lines_before_the_start_are_not_delivered():
    assert read([line(-1)], LogCursor.start(NOON)).lines == []


def test_a_line_with_the_time_of_a_delivered_line_is_delivered():
    first = read([line(1, "b")], LogCursor.start(NOON))
    assert read([line(1, "a"), line(1, "b")], first.cursor).lines == [line(1, "a")]


def test_a_line_that_comes_late_is_delivered_after_newer_ones():
    first = read([line(20)], LogCursor.start(NOON))
    late = line(20 - OVERLAP_SECONDS)
    assert read([late, line(20)], first.cursor).lines == [late]


def test_a_line_that_comes_later_than_the_overlap_is_lost():
    first = read([line(20)], LogCursor.start(NOON))
    late = line(20 - OVERLAP_SECONDS - 1)
    assert build_page(first.cursor, [late, line(20)], 10, more=False).lines == []


def test_an_entry_that_is_in_the_log_twice_is_delivered_once():
    assert read([line(1), line(1)], LogCursor.start(NOON)).lines == [line(1)]


def test_a_limit_leaves_the_rest_for_the_next_page():
    log = [line(n) for n in range(5)]
    first = read(log, LogCursor.start(NOON), limit=3)
    assert (list(first.lines), first.more) == (log[:3], True)
    second = read(log, first.cursor, limit=3)
    assert (list(second.lines), second.more) == (log[3:], False)


def test_a_storm_bounds_what_a_cursor_remembers_and_repeats_nothing():
    log = [line(n / 1000, f"{n:06}") for n in range(4 * MAX_SEEN)]
    cursor, delivered = LogCursor.start(NOON), []
    while True:
        page = read(log, cursor, limit=700)
        delivered += page.lines
        cursor = page.cursor
        assert len(cursor.seen) <= MAX_SEEN
        if not page.more:
            break
    assert delivered == log


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, OVERLAP_SECONDS), st.sampled_from("abcde")),
    max_size=40,
)
"""Lines by second, by how many seconds late they arrive, and by id."""


@given(ARRIVALS, st.integers(1, 7))
def test_every_line_is_delivered_once_whatever_is_late(arrivals, limit):
    log = sorted({(line(at, name), at + late) for at, late, name in arrivals}, key=lambda x: x[1])
    log = list({each.identity: (each, seen) for each, seen in log}.values())
    cursor, delivered = LogCursor.start(NOON), []
    for now in range(80):
        arrived = sorted((each for each, seen in log if seen <= now), key=lambda x: x.identity)
        page = read(arrived, cursor, limit if now < 70 else 100)
        delivered += page.lines
        cursor = page.cursor
    assert sorted(delivered, key=lambda x: x.identity) == sorted(
        (each for each, _ in log), key=lambda x: x.identity
    )


def told(state, lines):
    return SupervisorReport(seq=1, state=state, shipped_bytes=900, shipped_lines=lines)


@pytest.mark.parametrize(
    ("reports", "is_over"),
    [
        ([told(WorkerState.EXITED, 3)], True),
        ([told(WorkerState.EXITED, 2), told(WorkerState.EXITED, 1)], True),
        ([told(WorkerState.EXITED, 3), told(WorkerState.EXITED, 1)], False),
        ([told(WorkerState.RUNNING, 3)], False),  # it vanished: what it shipped after is unknown
        ([told(WorkerState.EXITED, None)], False),
        ([], True),
    ],
)
def test_a_log_is_complete_once_every_line_that_was_shipped_is_delivered(reports, is_over):
    log = [line(at) for at in range(3)]
    cursor = LogCursor.start(NOON)
    for _ in range(2):  # a line that is read again is not counted again
        cursor = read(log, cursor).cursor
    assert is_complete(cursor, reports) is is_over


def test_what_a_worker_said_of_the_attempt_before_is_not_counted_again():
    before = replace(told(WorkerState.EXITED, 3), attempt="job-1-1")
    reports = {"0": before, "1": replace(before, attempt="job-1-2")}
    attempt = Attempt("job-1-2", "job-1", 2, "lab", "node", NOON, reports=reports)
    assert attempt.own_reports == [reports["1"]]


def test_the_cost_of_a_log_is_that_of_its_text_and_of_each_line():
    gibibyte = SupervisorReport(seq=1, shipped_bytes=2**30 - 1_100 * 10, shipped_lines=10)
    assert estimated_cost([gibibyte]) == 500_000_000
    assert estimated_cost([told(WorkerState.RUNNING, None), SupervisorReport(seq=1)]) == 419


@pytest.mark.parametrize(
    ("count", "waited", "is_permanent", "is_lasting"),
    [(1, 0, True, True), (2, 120, False, False), (3, 119, False, False), (3, 120, False, True)],
)
def test_a_failure_lasts_at_once_or_after_a_while_and_ends_the_log_of_a_settled_job(
    count, waited, is_permanent, is_lasting
):
    failed, now = None, NOON + waited
    for _ in range(count):
        failed = after_failure(failed, "no answer", NOON, is_permanent=is_permanent)
    assert failed is not None
    assert failed.is_lasting(now) is is_lasting
    assert failed.is_final(now - SETTLE_SECONDS, now) is is_lasting
    assert not failed.is_final(now - SETTLE_SECONDS + 1, now)
    assert not failed.is_final(None, now)
