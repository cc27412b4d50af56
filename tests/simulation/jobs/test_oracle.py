"""What the judge of the jobs makes of hardware that was lost before a job claimed it."""

from __future__ import annotations

from service.emulator.world.bill import Transition
from tests.simulation.jobs.oracle import list_downs


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
