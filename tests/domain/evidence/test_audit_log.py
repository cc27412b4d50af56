"""Late truth: an end that was seen between two looks, and what the log says of it afterwards."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR, MINUTE, to_rfc3339
from service.domain.evidence.audit_log import (
    FIRST_QUERY_SECONDS,
    QUERIED_AFTER,
    Termination,
    correct_end,
    describe_correction,
    due_windows,
    find_termination,
    is_end_uncertain,
    is_possible_end,
    latest_start,
    needs_creation_time,
    window_of,
)
from service.domain.metering.meter import CLOCK_TOLERANCE, Evidence, Meter
from service.domain.metering.usage import with_end, with_first_minute_rule
from service.domain.time_window import Window
from tests import factories
from tests.domain.account import Account
from tests.domain.drawn import BOOKS, CHIPS, moderate
from tests.domain.metering.test_ledger import known_at_once
from tests.hands import NOON

PATH = "projects/lab/locations/us-west4-a/nodes/n-1"
LAST_UP, FIRST_GONE = NOON + HOUR, NOON + HOUR + 30


def ended(end_lo=LAST_UP, end=FIRST_GONE, **changes):
    """Usage that was READY at one look and not at the next."""
    base = with_end(factories.usage(), end_lo, end, Evidence.OBSERVED)
    return replace(base, **changes)


def entry(at, reason="PREEMPTED"):
    return Termination(PATH, at, reason)


# ---- what is open to better evidence, and when it is looked for


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (ended(), True),
        (factories.usage(), False),
        (ended(end_evidence=Evidence.OPERATION), False),
        (ended(end_evidence=Evidence.AUDIT), False),
        (ended(end_lo=FIRST_GONE), False),
        (ended(start_evidence=Evidence.UNSEEN), False),
        (with_first_minute_rule(ended(NOON + 50, NOON + 80), NOON), True),
    ],
)
def test_only_an_end_between_two_looks_is_open_to_better_evidence(usage, expected):
    assert is_end_uncertain(usage) is expected


def test_who_has_never_asked_asks_about_all_of_the_last_days():
    assert due_windows(None, NOON) == (Window(NOON - FIRST_QUERY_SECONDS, NOON + 1),)
    assert due_windows(NOON + 5, NOON) == due_windows(None, NOON), "the clock was set back"


def test_the_same_second_has_one_turn():
    assert due_windows(NOON, NOON) == ()


@moderate
@given(st.lists(st.integers(1, 2 * DAY), min_size=1, max_size=40), st.integers(-HOUR, HOUR))
def test_whatever_ended_has_each_of_its_turns_once_whenever_one_ticks(steps, offset):
    ended_at, asked, had = NOON + offset, NOON, 0
    for step in steps:
        now = asked + step
        had += sum(window.start <= ended_at < window.end for window in due_windows(asked, now))
        asked = now
    assert had == sum(NOON < ended_at + after <= asked for after in QUERIED_AFTER)


def test_turns_come_rarer_and_rarer_and_end_after_a_week():
    gaps = [later - sooner for sooner, later in pairwise(QUERIED_AFTER)]
    assert gaps == sorted(gaps)
    assert (QUERIED_AFTER[0], QUERIED_AFTER[2], QUERIED_AFTER[-1]) == (0, MINUTE, 7 * DAY)


def test_one_question_covers_all_ends_and_the_error_of_clocks():
    early, late = ended(), ended(NOON + 2 * HOUR, NOON + 3 * HOUR)
    window = window_of([late, early])
    assert window == Window(LAST_UP - CLOCK_TOLERANCE, NOON + 3 * HOUR + CLOCK_TOLERANCE + 1)
    assert all(
        window.start <= at < window.end
        for usage in (early, late)
        for at in range(usage.end_lo - 10, usage.end + 10)
        if is_possible_end(usage, at)
    )


# ---- which entry counts


@pytest.mark.parametrize(
    ("entries", "counts"),
    [
        ([], None),
        ([LAST_UP + 7], LAST_UP + 7),
        ([LAST_UP], LAST_UP),
        ([FIRST_GONE], FIRST_GONE),
        ([LAST_UP + 1 - CLOCK_TOLERANCE], LAST_UP + 1 - CLOCK_TOLERANCE),
        ([LAST_UP - CLOCK_TOLERANCE], None),
        ([FIRST_GONE + CLOCK_TOLERANCE], FIRST_GONE + CLOCK_TOLERANCE),
        ([FIRST_GONE + CLOCK_TOLERANCE + 1], None),
        ([LAST_UP + 7, LAST_UP + 7], LAST_UP + 7),
        ([LAST_UP + 20, LAST_UP + 7], LAST_UP + 7),
        ([LAST_UP - HOUR, LAST_UP + 20, FIRST_GONE + HOUR], LAST_UP + 20),
    ],
)
def test_the_earliest_entry_between_the_two_looks_counts(entries, counts):
    found = find_termination(ended(), [entry(at) for at in entries])
    assert (found and found.at) == counts


def test_what_still_runs_was_ended_by_nothing():
    assert find_termination(factories.usage(), [entry(NOON + 5)]) is None


# ---- what is believed then


@pytest.mark.parametrize(
    ("at", "end"),
    [
        (LAST_UP + 7, LAST_UP + 7),
        (LAST_UP - 3, LAST_UP),
        (FIRST_GONE + 3, FIRST_GONE),
    ],
)
def test_the_end_is_exact_and_never_outside_the_two_looks(at, end):
    after = correct_end(ended(), entry(at), NOON, None)
    assert (after.end_lo, after.end, after.end_evidence) == (end, end, Evidence.AUDIT)
    assert (after.uncertain_seconds, after.free, after.dirty) == (0, "", True)
    assert not is_end_uncertain(after)


def test_how_well_the_beginning_is_known_stays():
    usage = ended(start_evidence=Evidence.OBSERVED, start_hi=NOON + 15)
    after = correct_end(usage, entry(LAST_UP + 7), latest_start(usage, NOON + 15), None)
    assert (after.start_hi, after.uncertain_seconds) == (NOON + 15, 15)


@pytest.mark.parametrize(
    ("at", "created_at", "free", "uncertain"),
    [
        (NOON + 55, NOON - 4, True, 0),
        (NOON + 55, NOON - 5, False, 0),
        (NOON + 59, NOON, True, 0),
        (NOON + 60, NOON, False, 0),
        (NOON + 60, None, False, 0),
        (NOON + 59, None, False, 59),
    ],
)
def test_whether_it_was_lost_in_its_first_minute_is_decided_anew(at, created_at, free, uncertain):
    """Seen up at fifty seconds and gone at eighty, all of it was charged, and none of it sure."""
    before = with_first_minute_rule(ended(NOON + 50, NOON + 80), NOON - 4)
    assert before.uncertain_seconds == 80
    began = latest_start(before, before.start_hi)
    after = correct_end(before, entry(at), began, created_at)
    assert (bool(after.free), after.uncertain_seconds) == (free, uncertain)
    assert after.end == at


def test_what_is_free_already_stays_free():
    before = with_first_minute_rule(ended(NOON + 10, NOON + 50), NOON)
    after = correct_end(before, entry(NOON + 20), NOON, None)
    assert before.free == after.free != ""


@pytest.mark.parametrize(
    ("at", "matters"), [(NOON + 59, True), (NOON + 60, False), (NOON + 90, False)]
)
def test_when_it_was_created_matters_only_to_what_was_ready_for_less_than_a_minute(at, matters):
    assert needs_creation_time(ended(NOON + 50, NOON + 80), NOON, entry(at)) is matters


def test_a_beginning_by_an_operation_is_exact_whatever_was_said_of_it_since():
    usage = ended(start_hi=FIRST_GONE)
    assert latest_start(usage, FIRST_GONE) == NOON
    seen = replace(usage, start_evidence=Evidence.OBSERVED)
    assert latest_start(seen, NOON + 15) == NOON + 15


LIVED = st.integers(0, 3 * HOUR)
OFFSETS = st.integers(-60, 3 * HOUR)


@st.composite
def seen_to_end(draw):
    """Usage as two looks leave it, with what was believed of its beginning before."""
    start_hi = NOON + draw(st.sampled_from([0, 0, 15, 300]))
    evidence = Evidence.OPERATION if start_hi == NOON else Evidence.OBSERVED
    usage = factories.usage(chips=draw(CHIPS), start_hi=start_hi, start_evidence=evidence)
    end_lo = NOON + draw(LIVED)
    usage = with_end(usage, end_lo, end_lo + draw(LIVED), Evidence.OBSERVED)
    created = NOON - draw(st.integers(0, 90))
    return with_first_minute_rule(usage, draw(st.sampled_from([None, created]))), start_hi, created


@moderate
@given(seen_to_end(), OFFSETS, st.booleans())
def test_no_entry_moves_an_end_out_of_its_bracket_or_charges_more(drawn, offset, known):
    usage, start_hi, created = drawn
    found = find_termination(usage, [entry(usage.end_lo + offset)])
    if found is None:
        assert not is_possible_end(usage, usage.end_lo + offset)
        return
    began = latest_start(usage, start_hi)
    after = correct_end(usage, found, began, created if known else None)
    assert after.end is not None
    assert after.end_lo is not None
    assert usage.end_lo <= after.end <= usage.end
    assert after.end_lo == after.end >= after.start
    assert after.start <= after.start_hi <= after.end
    assert not is_end_uncertain(after)
    if known or not needs_creation_time(usage, began, found):
        assert after.uncertain_seconds <= usage.uncertain_seconds


@moderate
@given(seen_to_end(), OFFSETS, BOOKS, st.lists(st.integers(0, 8 * HOUR), max_size=4))
def test_a_late_end_comes_to_the_same_sums_as_one_known_at_once(drawn, offset, book, ticks):
    """Invariant 11 of reference/metering-idle-dashboard.md."""
    usage, start_hi, created = drawn
    at = max(usage.end_lo, min(usage.end, usage.end_lo + offset))
    after = correct_end(usage, entry(at), latest_start(usage, start_hi), created)
    account, now = Account(), NOON + 9 * DAY
    for tick in sorted(ticks):
        running = replace(usage, end=None, end_lo=None, end_evidence=None, free="")
        account.post(running, book, min(NOON + tick, usage.end_lo))
    account.post(usage, book, now)
    account.post(after, book, now)
    at_once = with_end(factories.usage(chips=usage.chips), at, at, Evidence.OPERATION)
    assert account.sums() == known_at_once(with_first_minute_rule(at_once, created), book, now)
    assert account.post(after, book, now) == []


@moderate
@given(seen_to_end(), OFFSETS, BOOKS)
def test_what_is_taken_back_was_said_to_be_uncertain(drawn, offset, book):
    usage, start_hi, _ = drawn
    at = max(usage.end_lo, min(usage.end, usage.end_lo + offset))
    after = correct_end(usage, entry(at), latest_start(usage, start_hi), None)
    before_meter, after_meter = (Meter(metered, book, NOON + 9 * DAY) for metered in (usage, after))
    taken_back = before_meter.total_charge() - after_meter.total_charge()
    assert 0 <= taken_back <= before_meter.total_uncertainty()


# ---- how it is told


@pytest.mark.parametrize(
    ("before", "at", "words"),
    [
        (ended(), LAST_UP + 8, "; the charge for 22 s more is credited: $0.058666667"),
        (ended(), FIRST_GONE, "; the charge does not change"),
        (
            with_first_minute_rule(ended(NOON + 50, NOON + 80), NOON),
            NOON + 55,
            (
                ", preempted in its first minute, which is free; the charge is credited:"
                " $0.213333333"
            ),
        ),
    ],
)
def test_what_changed_is_told_in_a_sentence(before, at, words):
    found = entry(at)
    after = correct_end(before, found, NOON, NOON)
    book, now = factories.book(), NOON + DAY
    taken_back = Meter(before, book, now).total_charge() - Meter(after, book, now).total_charge()
    expected = f"ended at {to_rfc3339(at)} by Google's audit log (PREEMPTED){words}"
    assert describe_correction(before, after, found, taken_back) == expected


def test_without_a_price_or_a_reason_no_sum_and_no_reason_are_told():
    before, found = ended(), entry(LAST_UP + 8, reason="")
    words = describe_correction(before, correct_end(before, found, NOON, None), found, 0)
    assert words.endswith("by Google's audit log; the charge for 22 s more is credited")
