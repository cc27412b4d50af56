"""Tests of who ends a node, and what holds whom back: the table of the manual, row by row."""

from __future__ import annotations

import pytest

from service.domain.lifecycle.precedence import EndCause, Holder, decide_end, describe_others

KEEP, UNKNOWN, JOB = Holder.KEEP, Holder.UNKNOWN, Holder.BUSY_JOB
RAILS, PAUSE, MODE = Holder.RAILS, Holder.PAUSE, Holder.MODE


@pytest.mark.parametrize(
    ("ender", "held_by"),
    [
        (EndCause.PERSON, set()),
        (EndCause.GOOGLE, set()),
        (EndCause.JOB_END, {KEEP}),
        (EndCause.BUDGET, set()),
        (EndCause.TTL, {KEEP, PAUSE}),
        (EndCause.IDLE, {KEEP, UNKNOWN, JOB, RAILS, PAUSE, MODE, Holder.NOTICE}),
        (EndCause.ORPHAN, {KEEP}),
    ],
)
def test_what_holds_each_back(ender, held_by):
    for holder in Holder:
        found = decide_end([ender], [holder])
        assert (found.ender is None) == (holder in held_by), (ender, holder)
        assert found.held == ({ender: {holder}} if holder in held_by else {})


def test_the_strongest_that_nothing_holds_back_decides_and_the_others_are_shown():
    found = decide_end([EndCause.IDLE, EndCause.BUDGET, EndCause.TTL], [])
    assert (found.ender, found.others) == (EndCause.BUDGET, (EndCause.TTL, EndCause.IDLE))
    kept = decide_end([EndCause.IDLE, EndCause.BUDGET, EndCause.TTL], [KEEP])
    assert kept.ender is EndCause.BUDGET, "a cap is a cap"
    assert decide_end([EndCause.IDLE, EndCause.TTL], [KEEP]).ender is None
    assert decide_end([EndCause.IDLE, EndCause.TTL], [RAILS]).ender is EndCause.TTL
    assert decide_end([], []).ender is None


@pytest.mark.parametrize(
    ("causes", "reason", "said"),
    [
        ([], "it is over", ""),
        (["it is over"], "it is over", ""),
        (["it is idle since noon"], "it is idle since noon: every device is quiet", ""),
        (["it is over"], "", " (also: it is over)"),
        (["a job", "it is over"], "a budget", " (also: a job; it is over)"),
        (["a job", "it is over", "it is idle"], "it is over", " (also: a job; it is idle)"),
    ],
)
def test_every_cause_but_the_deciding_one_stands_beside_the_reason(causes, reason, said):
    assert describe_others(causes, reason) == said
