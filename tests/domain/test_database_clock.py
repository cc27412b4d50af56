"""A daemon tells the time by the database's clock where its machine's own is wrong."""

from __future__ import annotations

import pytest

from service.domain.database_clock import AgreedClock
from tests.hands import NOON

RIGHT = NOON + 0.9


class Machine:
    """A machine whose clock is ahead of the true time by so much."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead
        self.gone_by = 0.0
        self.clock = AgreedClock(lambda: self.true + self.ahead, lambda: 7.0 + self.gone_by)

    @property
    def true(self) -> float:
        return RIGHT + self.gone_by


def test_before_anything_was_agreed_a_machine_believes_itself():
    machine = Machine(ahead=3_600)
    assert machine.clock() == NOON + 3_600
    assert not machine.clock.has_jumped


@pytest.mark.parametrize("ahead", [0.0, 0.4, -0.4])
def test_clocks_that_nearly_agree_are_left_alone(ahead):
    machine = Machine(ahead)
    assert machine.clock.agree_with(machine.true) == 0
    machine.gone_by = 10
    assert machine.clock() == int(machine.true + ahead)


@pytest.mark.parametrize("ahead", [0.6, 20, -20, 3_600, -3_600])
def test_a_clock_that_is_wrong_is_corrected_to_the_second(ahead):
    machine = Machine(ahead)
    assert machine.clock.agree_with(machine.true) == ahead
    for gone_by in (0.0, 0.05, 0.2, 3.3):
        machine.gone_by = gone_by
        assert machine.clock() == int(machine.true)


@pytest.mark.parametrize("jump", [5, -5, 3_600, -3_600])
def test_a_clock_that_jumps_is_not_followed(jump):
    machine = Machine(ahead=20)
    machine.clock.agree_with(machine.true)
    machine.ahead += jump
    machine.gone_by = 2
    assert machine.clock.has_jumped
    assert machine.clock() == int(machine.true)


def test_after_the_next_agreement_it_is_believed_again():
    machine = Machine()
    machine.clock.agree_with(machine.true)
    machine.ahead = 60
    assert machine.clock.agree_with(machine.true) == 60
    assert not machine.clock.has_jumped
    assert machine.clock() == NOON
    machine.ahead = 0
    assert machine.clock.agree_with(machine.true) == 0
    assert machine.clock() == NOON
