"""What the judge of the jobs makes of the moves of a node: lost before a claim, READY in time."""

from __future__ import annotations

from service.emulator.world.bill import Transition
from tests.simulation.jobs.oracle import first_ready, list_downs


def moves(*what):
    return [
        Transition(at, "node", uid, "v5litepod-8", 8, "zone", "spot", created, "", after)
        for at, uid, created, after in what
    ]


FIRST = (10.0, 1, 10.0, "CREATING"), (20.0, 1, 10.0, "READY")
TAKEN = (30.0, 1, 10.0, "PREEMPTED"), (40.0, 1, 10.0, "DELETING"), (50.0, 1, 10.0, "")
SECOND = (60.0, 2, 60.0, "CREATING"), (70.0, 2, 60.0, "READY")


def test_hardware_that_was_lost_before_the_claim_counts_from_its_loss():
    assert list_downs(moves(*FIRST, *TAKEN), 35) == [30.0]
    assert list_downs(moves(*FIRST, *TAKEN), 55) == [30.0]
    assert list_downs(moves(*FIRST, *TAKEN), 25) == []


def test_hardware_that_was_replaced_or_came_back_before_the_claim_does_not_count():
    assert list_downs(moves(*FIRST, *TAKEN, *SECOND), 75) == []
    back = (25.0, 1, 10.0, "RESTARTING"), (28.0, 1, 10.0, "READY")
    assert list_downs(moves(*FIRST, *back), 29) == []


def test_one_of_several_slices_that_was_lost_before_the_claim_counts():
    other = (10.0, 3, 10.0, "CREATING"), (20.0, 3, 10.0, "READY")
    lost = ((30.0, 1, 10.0, "PREEMPTED"),)
    assert list_downs(moves(*FIRST, *other, *lost), 35) == [30.0]


def test_a_node_is_first_ready_at_the_begin_or_where_it_becomes_so():
    life = moves(*FIRST, *TAKEN, *SECOND)
    assert first_ready(life, 15, 20) == 20
    assert first_ready(life, 25, 26) == 25, "it was READY before"
    assert first_ready(life, 35, 70) == 70, "it is READY again"


def test_a_node_that_was_not_ready_at_any_instant_of_a_time_was_not():
    life = moves(*FIRST, *TAKEN, *SECOND)
    assert first_ready(life, 12, 19) is None
    assert first_ready(life, 35, 69) is None
    assert first_ready(life, 26, 25) is None, "the time has not begun"
