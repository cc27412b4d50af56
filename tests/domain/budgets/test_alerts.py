"""People are told once of each thing, and again only when it was clearly over in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.budgets.alerts import (
    BURN_RATE,
    EXCEEDED,
    Alert,
    deletes_at,
    describe_silence,
    find_changes,
)
from service.domain.budgets.budget import BudgetStanding, HeldAmount, Measure, OnExceeded, Threshold
from service.domain.clock import DAY, HOUR
from service.domain.money import NANOS
from service.domain.time_window import Window
from tests import factories
from tests.hands import NOON

WINDOW = Window(NOON - 10 * DAY, NOON + 20 * DAY)


def budget(*thresholds, **changes):
    said = tuple(
        Threshold(threshold) if isinstance(threshold, int) else threshold
        for threshold in thresholds
    )
    return factories.budget(thresholds=said, **changes)


def standing(spent, *, window=WINDOW, forecast=None, now=NOON):
    """Dollars that were spent, and are expected."""
    return BudgetStanding(window, spent * NANOS, HeldAmount(0), forecast and forecast * NANOS, now)


def lived(of, *steps, paces=(0, 0)):
    """What is told at each step."""
    known: dict[str, Alert] = {}
    told = []
    for step in steps:
        found = find_changes(of, step, paces, known)
        known |= {alert.kind: alert for alert, _ in found}
        told.append([alert.kind for alert, message in found if message])
    return told


def test_each_threshold_fires_once():
    steps = [standing(dollars) for dollars in (10, 50, 60, 79, 80, 95, 100, 101, 120)]
    assert lived(budget(50, 80), *steps) == [
        [],
        ["actual:50"],
        [],
        [],
        ["actual:80"],
        [],
        [],
        [EXCEEDED],
        [],
    ]


def test_several_may_fire_at_once():
    assert lived(budget(50, 80), standing(200)) == [["actual:50", "actual:80", EXCEEDED]]


def test_it_is_armed_again_five_points_below():
    steps = [standing(dollars) for dollars in (80, 76, 80, 75, 80, 74, 80)]
    assert lived(budget(80), *steps) == [["actual:80"], [], [], [], [], [], ["actual:80"]]


def test_a_new_period_arms_all():
    later = Window(WINDOW.end, WINDOW.end + 30 * DAY)
    steps = [standing(80), standing(1, window=later), standing(80, window=later)]
    assert lived(budget(80), *steps) == [["actual:80"], [], ["actual:80"]]
    at_once = [standing(80), standing(80, window=later)]
    assert lived(budget(80), *at_once) == [["actual:80"], ["actual:80"]]


def test_a_forecast_is_a_threshold_of_its_own_and_none_says_nothing():
    of = budget(Threshold(100, Measure.FORECAST))
    steps = [standing(10), standing(10, forecast=99), standing(10, forecast=100), standing(10)]
    assert lived(of, *steps) == [[], [], ["forecast:100"], []]


def test_a_pace_is_too_fast_only_when_both_stretches_are():
    """A hundred dollars in thirty days are 5/36 of one in an hour."""
    of = budget(burn_rate=3)
    even = 100 * NANOS // 720
    fast, slow = 3 * even + 100, 3 * even - NANOS
    assert lived(of, standing(1), paces=(fast, 6 * slow)) == [[]]
    assert lived(of, standing(1), paces=(slow, 6 * fast)) == [[]]
    assert lived(of, standing(1), paces=(fast, 6 * fast)) == [[BURN_RATE]]
    ((alert, message),) = find_changes(of, standing(1), (fast, 6 * fast), {})
    assert "3 times as fast" in message
    assert find_changes(of, standing(1), (fast, 6 * fast), {BURN_RATE: alert}) == []
    assert find_changes(of, standing(1), (0, 6 * fast), {BURN_RATE: alert}) == [
        (Alert(BURN_RATE, WINDOW.start), "")
    ]


@given(st.lists(st.integers(0, 200), max_size=40))
def test_who_asks_twice_is_told_nothing_the_second_time(dollars):
    of = budget(50, 80, 100)
    known: dict[str, Alert] = {}
    for spent in dollars:
        for alert, _ in find_changes(of, standing(spent), (0, 0), known):
            known[alert.kind] = alert
        assert find_changes(of, standing(spent), (0, 0), known) == []


@pytest.mark.parametrize(
    ("on_exceeded", "said"),
    [
        (OnExceeded.NOTIFY, ": $101.00 of $100.00 spent"),
        (OnExceeded.REFUSE, "new nodes are refused, those that run go on"),
        (OnExceeded.DELETE, "those of team vision are deleted at 2026-11-05T12:15:00Z"),
    ],
)
def test_it_is_said_what_follows(on_exceeded, said):
    ((_, message),) = find_changes(budget(on_exceeded=on_exceeded), standing(101), (0, 0), {})
    assert message.endswith(said)


HOOK = {"webhook": "https://hooks.example.com/x"}
EMAILS = {"emails": ("ada@example.com",)}


@pytest.mark.parametrize(
    ("told", "mails", "said"),
    [
        (
            {},
            True,
            "no recipient is notified before its nodes are deleted: add a webhook (--webhook)",
        ),
        (EMAILS, False, "nobody is told before its nodes are deleted: STEWARD_SMTP_URL is not set"),
        (HOOK | EMAILS, False, "nobody at its addresses is told before its nodes are deleted"),
    ],
)
def test_who_is_not_told_before_a_deletion_is_said(told, mails, said):
    budget = factories.budget(on_exceeded=OnExceeded.DELETE, **told)
    assert describe_silence(budget, mails=mails).startswith(said)


@pytest.mark.parametrize(
    ("on_exceeded", "told", "mails"),
    [
        (OnExceeded.DELETE, HOOK, False),
        (OnExceeded.DELETE, EMAILS, True),
        (OnExceeded.REFUSE, {}, False),
        (OnExceeded.NOTIFY, EMAILS, False),
    ],
)
def test_where_somebody_is_told_or_nothing_is_deleted_nothing_is_said(on_exceeded, told, mails):
    assert describe_silence(factories.budget(on_exceeded=on_exceeded, **told), mails=mails) == ""


def test_only_a_budget_that_deletes_has_a_time_for_it():
    fired = Alert(EXCEEDED, WINDOW.start, NOON)
    deleting = budget(on_exceeded=OnExceeded.DELETE, grace_seconds=HOUR)
    assert deletes_at(deleting, fired) == NOON + HOUR
    assert deletes_at(deleting, Alert(EXCEEDED, WINDOW.start)) is None
    assert deletes_at(deleting, None) is None
    assert deletes_at(budget(on_exceeded=OnExceeded.REFUSE), fired) is None
