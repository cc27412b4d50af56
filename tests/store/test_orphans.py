"""Orphans are remembered as they are, guarded by their version, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.errors import NotFound, StaleVersion
from service.domain.nodes.node import NodeState, Place
from service.domain.nodes.placement import Placement
from service.domain.orphans.orphan import ADOPTED, OrphanKind, OrphanVerdict
from service.domain.orphans.verdict import KnownAttempt
from tests.factories import PROJECT, ZONE
from tests.garbage import orphan, shown
from tests.hands import NOON
from tests.store.given import stored

FULL = {
    "digest": b"\0\xff",
    "verdict": OrphanVerdict.COLLECT,
    "reason": "it is over",
    "wanted": "delete",
    "asked_by": "ada",
    "confirmed": True,
    "next_try_at": NOON,
    "tries": 3,
    "last_error": "no answer",
    "gone_at": NOON + 1,
}


def kept(units, *some):
    with units() as unit:
        for stored in some:
            unit.orphans.add(stored)


@pytest.mark.parametrize("changes", [{}, FULL, {"shown": shown(queued=True, nodes=("a", "b"))}])
def test_an_orphan_comes_back_as_it_was_written(units, changes):
    one = orphan(**changes)
    kept(units, one)
    with units.reading() as unit:
        assert unit.orphans.get(one.id, [PROJECT]) == one


def test_one_of_another_project_is_not_there(units):
    one = orphan()
    kept(units, one)
    with units.reading() as unit, pytest.raises(NotFound, match="GET /v1/orphans"):
        unit.orphans.get(one.id, ["theirs"])
    with units.reading() as unit:
        assert unit.orphans.list_present(["theirs"]) == []
        assert unit.orphans.list_known("theirs") == []


def test_who_read_it_before_another_wrote_it_cannot_write_it(units):
    one = orphan()
    kept(units, one)
    with units() as unit:
        assert unit.orphans.save(replace(one, tries=1)).version == 1
    for write in ("save", "delete"):
        with pytest.raises(StaleVersion), units() as unit:
            getattr(unit.orphans, write)(one)
    with units.reading() as unit:
        assert unit.orphans.get(one.id, [PROJECT]).tries == 1


def test_the_same_name_cannot_be_added_twice(units):
    kept(units, orphan())
    with pytest.raises(StaleVersion):
        kept(units, orphan())


def test_what_is_gone_or_adopted_is_not_shown_but_known(units):
    there = orphan(shown=shown("there"))
    gone = orphan(shown=shown("gone"), gone_at=NOON)
    adopted = orphan(shown=shown("adopted"), wanted="adopted")
    kept(units, there, gone, adopted)
    with units.reading() as unit:
        assert unit.orphans.list_present([PROJECT]) == [there]
        assert unit.orphans.list_certain(PROJECT) == [there]
        assert len(unit.orphans.list_known(PROJECT)) == 3


def test_only_what_is_certain_goes_by_itself(units):
    old = orphan(shown=shown("old"), since=NOON - 2)
    new = orphan(shown=shown("new"), since=NOON - 1)
    stranger = orphan(shown=shown("theirs"), certain=False, kind=OrphanKind.STRANGER)
    kept(units, new, stranger, old)
    with units.reading() as unit:
        assert unit.orphans.list_certain(PROJECT) == [old, new]


def test_those_that_are_due_come_in_the_order_in_which_they_wait(units):
    late = orphan(shown=shown("late"), next_try_at=NOON)
    early = orphan(shown=shown("early"), next_try_at=NOON - 9)
    later = orphan(shown=shown("later"), next_try_at=NOON + 1)
    gone = orphan(shown=shown("gone"), next_try_at=NOON, gone_at=NOON)
    kept(units, late, early, later, gone, orphan())
    with units.reading() as unit:
        assert unit.orphans.list_due(PROJECT, NOON, 9) == [early, late]
        assert unit.orphans.list_due(PROJECT, NOON, 1) == [early]


def test_what_has_been_gone_for_long_is_forgotten(units):
    long, lately = orphan(shown=shown("a"), gone_at=5), orphan(shown=shown("b"), gone_at=NOON)
    there = orphan(shown=shown("c"))
    kept(units, long, lately, there)
    with units() as unit:
        unit.orphans.delete_gone(PROJECT, NOON)
    with units.reading() as unit:
        left = {orphan.shown.place.cloud_id for orphan in unit.orphans.list_known(PROJECT)}
    assert left == {"b", "c"}


def booked(units, node, *attempts):
    with units() as unit:
        for number, cloud_id in enumerate(attempts, 1):
            unit.placements.add(Placement(node.id, number, ZONE, "spot", cloud_id, NOON))
    return node


def attempts(units, *names):
    with units.reading() as unit:
        return set(unit.orphans.list_attempts(PROJECT, names))


def test_the_books_tell_the_present_attempt_from_those_that_are_over(units):
    live = {"sent_at": NOON, "zone": ZONE, "slices": 3}
    node = booked(units, stored(units, attempt=2, cloud_id="run-2", **live), "run", "run-2")
    assert attempts(units, "run", "run-2", "other") == {
        KnownAttempt(node.id, ZONE, "run", 3, present=False),
        KnownAttempt(node.id, ZONE, "run-2", 3, present=True),
    }
    with units.reading() as unit:
        assert unit.orphans.list_live_places(PROJECT) == {(ZONE, "run-2")}


@pytest.mark.parametrize(
    "over",
    [
        {"state": NodeState.DELETED, "ended_at": NOON, "sent_at": NOON},
        {"state": NodeState.FAILED, "ended_at": NOON, "sent_at": NOON},
        {"sent_at": None},
    ],
)
def test_an_attempt_of_a_record_that_ended_or_has_nothing_in_the_cloud_is_over(units, over):
    node = booked(units, stored(units, attempt=1, cloud_id="run", **over), "run")
    assert attempts(units, "run") == {KnownAttempt(node.id, ZONE, "run", 1, present=False)}
    with units.reading() as unit:
        assert unit.orphans.list_live_places(PROJECT) == set()


def test_a_node_that_was_never_placed_by_us_is_in_the_books_all_the_same(units):
    node = stored(units, attempt=1, cloud_id="adopted", sent_at=NOON)
    assert attempts(units, "adopted") == {KnownAttempt(node.id, ZONE, "adopted", 1, present=True)}


def test_names_of_another_project_say_nothing(units):
    booked(units, stored(units, attempt=1, cloud_id="run", sent_at=NOON, project="other"), "run")
    assert attempts(units, "run") == set()


def test_a_thousand_names_can_be_asked_about(units):
    node = stored(units, attempt=1, cloud_id="n-999", sent_at=NOON)
    found = attempts(units, *(f"n-{number}" for number in range(1_200)))
    assert {orphan.node_id for orphan in found} == {node.id}


def test_those_that_cost_the_same_are_counted_without_being_read_one_by_one(units):
    kept(
        units,
        *(orphan(shown=shown(f"run-{number}", labels={"n": str(number)})) for number in range(3)),
        orphan(shown=shown("elsewhere", place=Place(PROJECT, "us-east5-a", "elsewhere"))),
        orphan(shown=shown("theirs"), kind=OrphanKind.STRANGER),
        orphan(shown=shown("spot", provisioning_model="spot")),
        orphan(shown=shown("gone"), gone_at=NOON),
        orphan(shown=shown("adopted"), wanted=ADOPTED),
        orphan(shown=shown("not-here", place=Place("theirs", ZONE, "not-here"))),
    )
    with units.reading() as unit:
        found = unit.orphans.count_alike([PROJECT])
    keys = {
        (orphan.kind, orphan.shown.place.zone, orphan.shown.provisioning_model) for orphan in found
    }
    assert keys == {
        (OrphanKind.OURS, ZONE, "on_demand"),
        (OrphanKind.OURS, "us-east5-a", "on_demand"),
        (OrphanKind.STRANGER, ZONE, "on_demand"),
        (OrphanKind.OURS, ZONE, "spot"),
    }
    assert sorted(orphan.number for orphan in found) == [1, 1, 1, 3]
