"""The row of a project: its pause and its breaker."""

from __future__ import annotations

import pytest

from service.domain.errors import Conflict, Rejected
from service.domain.idle.cleanup import Cleanup, RailHold, new_alarms
from service.domain.idle.rails import Breaker, Rail

NOW = 1_000_000


def test_a_pause_wants_a_reason_and_counts():
    row = Cleanup("lab").with_pause(NOW, "ada", " a demo ")
    assert (row.paused_at, row.paused_by, row.pause_reason, row.pauses) == (NOW, "ada", "a demo", 1)
    assert row.with_pause(NOW + 9, "bob", "two").paused_at == NOW, "since the first of them"
    assert (row.without_pause().is_paused, row.without_pause().pauses) == (False, 2)
    with pytest.raises(Rejected):
        Cleanup("lab").with_pause(NOW, "ada", " ")
    with pytest.raises(Conflict):
        Cleanup("lab").without_pause()


def test_a_breaker_is_closed_by_hand_where_it_is_open_with_a_reason():
    mass, held = RailHold(Rail.MASS, "why", NOW), RailHold(Rail.BREAKER, "why", NOW)
    row = Cleanup("lab", breaker=Breaker(opened_at=NOW, reason="why"), holds=(held, mass))
    after = row.with_closed_breaker(NOW + 9, "ada", f" seen {'x' * 600}")
    assert (after.breaker.is_open, after.breaker.reason) == (False, "")
    assert (after.breaker.closed_at, after.breaker.closed_by) == (NOW + 9, "ada")
    assert after.breaker.closed_reason.startswith("seen x")
    assert len(after.breaker.closed_reason) == 500
    assert after.holds == (mass,)
    assert new_alarms(after, row) == (held,), "one that opens at the next check is told of again"
    with pytest.raises(Rejected, match="reason"):
        row.with_closed_breaker(NOW, "ada", "  ")
    with pytest.raises(Conflict):
        Cleanup("lab").with_closed_breaker(NOW, "ada", "why")


@pytest.mark.parametrize(
    ("rail", "is_told"),
    [
        (Rail.MASS, True),
        (Rail.BREAKER, True),
        (Rail.INVENTORY, True),
        (Rail.CLOCK, True),
        (Rail.START, False),
        (Rail.PAUSE, False),
    ],
)
def test_people_are_told_of_a_rail_when_it_begins_to_hold(rail, is_told):
    held = RailHold(rail, "why", NOW)
    free, holding = Cleanup("lab"), Cleanup("lab", holds=(held,))
    assert new_alarms(free, holding) == ((held,) if is_told else ())
    assert new_alarms(holding, holding) == ()
    assert new_alarms(holding, free) == ()


def test_each_rail_that_begins_to_hold_is_told_of():
    mass, clock = RailHold(Rail.MASS, "why", NOW), RailHold(Rail.CLOCK, "why", NOW + 60)
    before, after = Cleanup("lab", holds=(mass,)), Cleanup("lab", holds=(mass, clock))
    assert new_alarms(before, after) == (clock,)
