"""What the judge of the rails makes of the rounds in which a mass of nodes was held."""

from __future__ import annotations

from service.domain.idle.rails import Rail
from tests.simulation.cleanup.rails import Round, measure_mass


def rounds(*what):
    return [
        Round(60 * number, frozenset({Rail.MASS} if held else ()), {}, 8, may_be_mass)
        for number, (held, may_be_mass) in enumerate(what)
    ]


HELD, OVER, NO_MASS = (True, True), (False, True), (False, False)


def test_a_mass_is_held_until_the_round_in_which_it_goes():
    assert measure_mass(rounds(NO_MASS, HELD, HELD, HELD)) == 120
    assert measure_mass(rounds(NO_MASS, HELD, HELD, HELD, OVER)) == 180
    assert measure_mass(rounds(NO_MASS, HELD, HELD, HELD, OVER, OVER)) == 180


def test_a_mass_that_was_never_held_or_is_another_one_counts_as_not_held():
    assert measure_mass(rounds(NO_MASS, OVER, OVER)) == 0
    assert measure_mass(rounds(HELD, HELD, HELD, NO_MASS, OVER)) == 0
    assert measure_mass(rounds(HELD, HELD, NO_MASS, HELD, OVER)) == 60
    assert measure_mass(rounds(HELD, HELD, OVER, HELD, OVER)) == 60
