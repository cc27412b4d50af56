"""Down and up again, and nobody looked: what is left of an interval is what the record leaves."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import HOUR
from service.domain.errors import CloudUnavailable
from service.domain.evidence.interruptions import (
    describe_interruptions,
    describe_shortened,
    find_interruptions,
    shorten_to_record,
    split_at_interruptions,
)
from service.domain.metering.meter import Evidence
from tests import factories
from tests.domain.drawn import moderate
from tests.hands import NOON

NODE = factories.sent()


def operation(verb, at, ended, **changes):
    values = {"created_at": at, "ended_at": ended, "done": True, "name": f"{verb}-{at}"}
    return factories.operation(verb, **(values | changes))


def stopped(down, up):
    return [operation("stop", down, down + 1), operation("start", up - 1, up)]


INSTANTS = st.lists(st.integers(1, 400), min_size=2, max_size=8, unique=True)


@moderate
@given(INSTANTS, st.one_of(st.none(), st.integers(0, 400)), st.randoms())
def test_what_is_left_is_all_but_the_time_between_each_down_and_up(steps, end, luck):
    instants = sorted(10 * step for step in steps)
    pairs = [(NOON + down, NOON + up) for down, up in zip(*[iter(instants)] * 2, strict=False)]
    operations = [interval for down, up in pairs for interval in stopped(down, up)]
    luck.shuffle(operations)
    until = None if end is None else NOON + 10 * end + 5
    usage = factories.usage(end=until, end_lo=until)
    left = split_at_interruptions(usage, operations) or [usage]
    gone = [pair for pair in pairs if until is None or pair[1] < until]
    assert [(one.end, other.start) for one, other in pairwise(left)] == gone
    assert (left[0].start, left[-1].end) == (NOON, until)
    assert left[0].id == usage.id
    assert all(interval.uncertain_seconds == 0 for interval in left)
    assert split_at_interruptions(left[-1], operations) == [], (
        "the second time there is nothing to cut"
    )
    assert len(describe_interruptions(NODE, left, NOON)) == len(gone)


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [operation("stop", NOON + 60, NOON + 70)],
        [operation("start", NOON + 60, NOON + 70)],
        stopped(NOON - HOUR, NOON - 60),
        stopped(NOON - HOUR, NOON),
        [
            replace(interval, done=False, ended_at=None)
            for interval in stopped(NOON + 60, NOON + 90)
        ],
        [
            replace(interval, error=CloudUnavailable("x"))
            for interval in stopped(NOON + 60, NOON + 90)
        ],
    ],
    ids=str,
)
def test_what_says_nothing_against_it_changes_nothing(operations):
    assert split_at_interruptions(factories.usage(), operations) == []


def test_a_reimage_is_down_from_its_beginning_to_its_end():
    before, after = split_at_interruptions(
        factories.usage(), [operation("reimage", NOON + 60, NOON + 200)]
    )
    assert (before.end, after.start) == (NOON + 60, NOON + 200)
    assert before.end_evidence is after.start_evidence is Evidence.OPERATION


def test_what_was_called_ready_between_a_stop_and_its_start_is_uncertain():
    """The look was stale, or the start was long done: who can tell?"""
    (found,) = split_at_interruptions(factories.usage(), stopped(NOON - 60, NOON + 30))
    assert (found.start, found.start_hi) == (NOON, NOON + 30)
    assert split_at_interruptions(found, stopped(NOON - 60, NOON + 30)) == []


def test_how_it_ended_and_what_it_was_stay():
    usage = factories.usage(
        end=NOON + HOUR, end_lo=NOON + HOUR - 15, end_evidence=Evidence.OBSERVED, vm="n1-standard-8"
    )
    _, last = split_at_interruptions(usage, stopped(NOON + 60, NOON + 120))
    assert (last.end_lo, last.end, last.end_evidence) == (usage.end_lo, usage.end, "observed")
    assert (last.vm, last.sku, last.zone) == (usage.vm, usage.sku, usage.zone)


def test_a_second_stop_of_what_is_stopped_is_no_second_time():
    operations = [*stopped(NOON + 60, NOON + 300), operation("stop", NOON + 100, NOON + 101)]
    assert find_interruptions(operations, NOON) == [(NOON + 60, NOON + 300)]


# ---- for good


def ended(at=NOON + 300, **changes):
    return factories.usage(end=at, end_lo=at, end_evidence=Evidence.OPERATION, **changes)


@pytest.mark.parametrize("error", [None, CloudUnavailable("it was deleted meanwhile")])
@pytest.mark.parametrize("verb", ["stop", "delete"])
def test_what_somebody_took_down_just_before_it_was_ended_here_ended_then(verb, error):
    first = operation(verb, NOON + 290, NOON + 310, error=error)
    record = [first, operation("delete", NOON + 300, NOON + 320)]
    after = shorten_to_record(ended(), record)
    assert after is not None
    assert (after.end_lo, after.end, after.end_evidence) == (
        NOON + 290,
        NOON + 290,
        Evidence.OPERATION,
    )
    assert after.dirty
    said = describe_shortened(NODE, ended(), after, NOON + 400)
    assert "down since 2026-11-05T12:04:50Z already, 10 s longer" in said.message


@pytest.mark.parametrize(
    "record",
    [
        [],
        [operation("delete", NOON + 300, NOON + 320)],
        [operation("stop", NOON + 310, NOON + 320)],
        [operation("stop", NOON - 60, NOON - 50)],
        [*stopped(NOON + 60, NOON + 90), operation("delete", NOON + 300, NOON + 320)],
        [operation("reimage", NOON + 60, NOON + 200)],
        [operation("stop", NOON + 290, NOON + 299, error=CloudUnavailable("x"))],
        [operation("stop", NOON + 290, None, done=False)],
    ],
    ids=str,
)
def test_what_ended_when_it_was_ended_here_is_left_as_it_is(record):
    assert shorten_to_record(ended(), record) is None


def test_what_runs_is_not_shortened():
    assert shorten_to_record(factories.usage(), [operation("stop", NOON + 60, NOON + 70)]) is None
