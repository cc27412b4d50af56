"""Tests of who ends a node, and what holds whom back: the table of the manual, row by row."""

from __future__ import annotations

import pytest

from service.domain.lifecycle.precedence import Ender, Holder, decide

KEEP, UNKNOWN, JOB = Holder.KEEP, Holder.UNKNOWN, Holder.BUSY_JOB
RAILS, PAUSE, MODE = Holder.RAILS, Holder.PAUSE, Holder.MODE


@pytest.mark.parametrize(
    ("ender", "held_by"),
    [
        (Ender.PERSON, set()),
        (Ender.GOOGLE, set()),
        (Ender.JOB_END, {KEEP}),
        (Ender.BUDGET, set()),
        (Ender.TTL, {KEEP, PAUSE}),
        (Ender.IDLE, {KEEP, UNKNOWN, JOB, RAILS, PAUSE, MODE, Holder.NOTICE}),
        (Ender.ORPHAN, {KEEP}),
    ],
)
def test_what_holds_each_back(ender, held_by):
    for holder in Holder:
        found = decide([ender], [holder])
        assert (found.ender is None) == (holder in held_by), (ender, holder)
        assert found.held == ({ender: {holder}} if holder in held_by else {})


def test_the_strongest_that_nothing_holds_back_decides_and_the_others_are_shown():
    found = decide([Ender.IDLE, Ender.BUDGET, Ender.TTL], [])
    assert (found.ender, found.others) == (Ender.BUDGET, (Ender.TTL, Ender.IDLE))
    kept = decide([Ender.IDLE, Ender.BUDGET, Ender.TTL], [KEEP])
    assert kept.ender is Ender.BUDGET, "a cap is a cap"
    assert decide([Ender.IDLE, Ender.TTL], [KEEP]).ender is None
    assert decide([Ender.IDLE, Ender.TTL], [RAILS]).ender is Ender.TTL
    assert decide([], []).ender is None
