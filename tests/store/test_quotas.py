"""Limits are kept as they were last named, and weighed against all that the books know of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.errors import NotFound
from service.domain.nodes.node import NodeState, Place
from service.domain.nodes.placement import Outcome, Placement
from service.domain.orphans.orphan import ADOPTED
from service.domain.placement.quota import HardwareAmount, Limit, LimitStanding, Size, Tier
from tests.garbage import orphan, shown
from tests.hands import NOON
from tests.store.given import stored

LIMIT = Limit(
    "lab", "TPUV5s", "us-west4", "v5e", Tier.ON_DEMAND, Size.ANY, 16, NOON, "Limit: 16 in us-west4."
)


def learned(units, *limits):
    with units() as unit:
        for limit in limits:
            unit.quotas.save(limit)


def tally(units, limit=LIMIT, now=NOON):
    with units.reading() as unit:
        (found,) = unit.quotas.tally_limits("lab", [limit], now)
    return found


def sent(units, started_at=NOON, ready_at=None, outcome=Outcome.OPEN, **changes):
    """A node that was sent, with its attempt."""
    node = stored(units, attempt=1, sent_at=NOON, **changes)
    spec = node.spec
    with units() as unit:
        unit.placements.add(
            Placement(
                node.id,
                1,
                node.zone,
                spec.provisioning_model,
                f"c-{node.id}",
                started_at,
                outcome,
                project="lab",
                accelerator_type=spec.accelerator_type,
                generation=spec.generation,
                ready_at=ready_at,
            )
        )
    return node


def orphaned(units, *some):
    with units() as unit:
        for quota in some:
            unit.orphans.add(quota)


def test_a_limit_comes_back_as_it_was_written(units):
    learned(units, LIMIT)
    with units.reading() as unit:
        assert unit.quotas.list_all(["lab"]) == [LIMIT]
        assert unit.quotas.list_all(["theirs"]) == []
        assert unit.quotas.list_all([]) == []


def test_what_was_said_last_counts_whoever_writes_it_last(units):
    later = replace(LIMIT, allowed=0, observed_at=NOON + 9, said="Limit: 0")
    learned(units, LIMIT, later, replace(LIMIT, allowed=8, observed_at=NOON + 8))
    with units.reading() as unit:
        assert unit.quotas.list_all(["lab"]) == [later]


def test_limits_of_other_names_places_and_sizes_stand_side_by_side(units):
    others = [replace(LIMIT, name="b"), replace(LIMIT, place="us-east5")]
    others += [
        replace(LIMIT, size=Size.POD),
        replace(LIMIT, allowed=10**12 - 1, tier=Tier.RESERVED),
    ]
    learned(units, LIMIT, *others)
    with units.reading() as unit:
        assert set(unit.quotas.list_all(["lab"])) == {LIMIT, *others}


def test_only_what_was_said_since_is_asked_for(units):
    learned(units, LIMIT)
    with units.reading() as unit:
        assert unit.quotas.list_all(["lab"], NOON - 1) == [LIMIT]
        assert unit.quotas.list_all(["lab"], NOON) == []


def test_what_is_forgotten_is_gone_and_another_project_cannot(units):
    learned(units, LIMIT)
    with units() as unit, pytest.raises(NotFound, match="GET /v1/catalog/quotas lists them"):
        unit.quotas.delete(LIMIT.id, ["theirs"])
    with units() as unit:
        assert unit.quotas.delete(LIMIT.id, ["lab"]) == LIMIT
    with units.reading() as unit:
        assert unit.quotas.list_all(["lab"]) == []


@pytest.mark.parametrize(
    ("changes", "used", "held"),
    [
        ({"state": NodeState.READY}, 8, 0),
        ({"state": NodeState.REPAIRING}, 8, 0),
        ({"state": NodeState.REQUESTED}, 0, 8),
        ({"state": NodeState.CREATING}, 0, 8),
        ({"state": NodeState.QUEUED, "queued": True}, 0, 8),
        ({"state": NodeState.STOPPED}, 0, 8),
        ({"state": NodeState.PREEMPTED}, 0, 8),
        ({"state": NodeState.DELETING}, 0, 8),
        ({"state": NodeState.READY, "chips": 24, "slices": 3, "queued": True}, 24, 0),
        ({"state": NodeState.READY, "zone": "us-west4-b"}, 8, 0),
        ({"state": NodeState.READY, "zone": "us-east5-a"}, 0, 0),
        ({"state": NodeState.READY, "provisioning_model": "spot"}, 0, 0),
        ({"state": NodeState.READY, "accelerator_type": "v6e-8", "generation": "v6e"}, 0, 0),
        ({"state": NodeState.DELETED, "ended_at": NOON}, 0, 0),
    ],
)
def test_a_node_counts_from_when_it_was_sent_until_it_is_gone(units, changes, used, held):
    sent(units, **changes)
    found = tally(units)
    assert (found.used, found.held) == (HardwareAmount(used, used), HardwareAmount(held, held))


def test_what_was_never_sent_holds_nothing(units):
    stored(units)
    assert tally(units).held == HardwareAmount()


def test_a_node_without_an_attempt_counts_by_its_size(units):
    stored(units, attempt=1, sent_at=NOON, state=NodeState.READY)
    assert tally(units).used == HardwareAmount(8, 8)


def test_many_nodes_are_summed_where_they_are_stored(units):
    for _ in range(5):
        sent(units, state=NodeState.READY)
        sent(units, state=NodeState.CREATING)
    found = tally(units)
    assert (found.used, found.held) == (HardwareAmount(40, 40), HardwareAmount(40, 40))


def test_what_no_record_accounts_for_counts_too(units):
    orphaned(
        units,
        orphan(),
        orphan(shown=shown("taken", state=NodeState.PREEMPTED)),
        orphan(shown=shown("unknown", accelerator_type="v9-8")),
        orphan(shown=shown("adopted"), wanted=ADOPTED),
        orphan(shown=shown("gone"), gone_at=NOON),
        orphan(shown=shown("theirs", place=Place("theirs", "us-west4-a", "theirs"))),
    )
    found = tally(units)
    assert (found.used, found.held) == (HardwareAmount(8, 8), HardwareAmount(8, 8))


def test_a_spent_queued_resource_counts_by_the_model_that_the_books_have_of_it(units):
    node = sent(units, ended_at=NOON, state=NodeState.DELETED)
    spent = shown(
        f"c-{node.id}", queued=True, state="SUSPENDED", provisioning_model="", nodes=("a", "b")
    )
    strange = shown("strange", queued=True, state="SUSPENDED", provisioning_model="")
    orphaned(units, orphan(shown=spent), orphan(shown=strange))
    assert tally(units).held == HardwareAmount(16, 16)


def test_a_queued_resource_and_its_node_are_not_counted_twice(units):
    node = sent(units, ended_at=NOON, state=NodeState.DELETED)
    ticket = shown(f"c-{node.id}", queued=True, state="ACTIVE", provisioning_model="")
    orphaned(
        units,
        orphan(shown=ticket),
        orphan(shown=shown("member", queued_resource=ticket.place.queue_path)),
    )
    assert tally(units).used == HardwareAmount(8, 8)


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({"started_at": NOON + 1, "ready_at": NOON + 90}, LimitStanding.CONTRADICTED),
        ({"started_at": NOON, "ready_at": NOON + 90}, LimitStanding.FRESH),
        ({"started_at": NOON + 1}, LimitStanding.FRESH),
        (
            {"started_at": NOON + 1, "ready_at": NOON + 90, "zone": "us-east5-a"},
            LimitStanding.FRESH,
        ),
    ],
)
@pytest.mark.parametrize("ended_at", [None, NOON + 99])
def test_what_came_up_later_contradicts_a_limit_that_is_too_small_for_it(
    units, changes, standing, ended_at
):
    sent(units, state=NodeState.READY, ended_at=ended_at, **changes)
    assert tally(units, replace(LIMIT, allowed=7), NOON + 100).standing is standing


def test_what_came_up_by_and_by_contradicts_it_together(units):
    for number in range(3):
        sent(units, state=NodeState.READY, started_at=NOON + number, ready_at=NOON + 90)
        expected = LimitStanding.CONTRADICTED if number == 2 else LimitStanding.FRESH
        assert tally(units).standing is expected


def test_nothing_is_counted_where_no_limit_is_asked_about(units):
    with units.reading() as unit:
        assert unit.quotas.tally_limits("lab", [], NOON) == []
