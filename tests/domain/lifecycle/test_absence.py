"""When what is not shown counts as gone: the table of cases."""

from __future__ import annotations

import pytest

from service.domain.errors import CapacityUnavailable
from service.domain.lifecycle.absence import (
    CONFIRM_SECONDS,
    Absence,
    FleetCensus,
    describe_mass_absence,
    judge_absence,
    never_came,
    was_deleted,
)
from service.domain.nodes.node import Asked
from service.domain.nodes.operation import Operation
from tests import factories
from tests.hands import NOON

FEW = FleetCensus(40, 4)
LATER = NOON + CONFIRM_SECONDS


def operation(verb="delete", at=NOON, **changes):
    return Operation("op", verb, "a node", at, at + 1, **{"done": True} | changes)


@pytest.mark.parametrize(
    ("missed_at", "misses", "now", "expected"),
    [
        (None, 0, LATER, Absence.UNPROVED),
        (NOON, 1, LATER, Absence.UNPROVED),
        (NOON, 2, LATER - 1, Absence.UNPROVED),
        (NOON, 2, LATER, Absence.CERTAIN),
    ],
)
def test_it_takes_two_lists_and_a_minute(missed_at, misses, now, expected):
    node = factories.node(missed_at=missed_at, misses=misses)
    assert judge_absence(node, FEW, now) is expected


@pytest.mark.parametrize(
    ("wanted", "missing", "too_many"),
    [(1, 1, False), (2, 2, False), (3, 3, True), (30, 3, False), (29, 3, True), (100, 11, True)],
)
def test_more_than_two_and_a_tenth_at_once_is_too_many(wanted, missing, too_many):
    census = FleetCensus(wanted, missing)
    node = factories.node(missed_at=NOON, misses=2)
    expected = Absence.TOO_MANY if too_many else Absence.CERTAIN
    assert judge_absence(node, census, LATER) is expected
    leaving = factories.node(missed_at=NOON, misses=2, asked=Asked.ABSENT)
    assert judge_absence(leaving, census, LATER) is Absence.CERTAIN


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (operation(), True),
        (operation(at=NOON - 1), False),
        (operation(done=False), False),
        (operation(error=CapacityUnavailable("no")), False),
        (operation("stop"), False),
    ],
)
def test_a_deletion_proves_it_that_succeeded_after_the_node_was_sent(known, expected):
    assert was_deleted([known], factories.node(sent_at=NOON)) is expected


def test_what_never_came_cannot_be_gone():
    assert never_came(operation("create", error=CapacityUnavailable("no")))
    assert not never_came(operation("create"))
    assert not never_came(operation(error=CapacityUnavailable("no")))
    assert not never_came(None)


def test_what_a_human_is_told_names_the_number_and_what_to_do():
    said = describe_mass_absence(FleetCensus(40, 12), "lab")
    assert "12 of the 40 nodes of project lab" in said
    assert "delete those that are really gone" in said
