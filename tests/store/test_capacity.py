"""What became of all attempts, counted in the database."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from service.domain.nodes.placement import HardwareKey, Outcome, Placement
from service.domain.time_window import Window
from service.store.capacity import AttemptCounts
from tests.hands import NOON
from tests.store.given import stored

HERE = HardwareKey("us-west4-a", "v5litepod-8", "v5e", "spot")
THERE = HardwareKey("us-east5-a", "v6e-8", "v6e", "spot")
HOUR = Window(NOON, NOON + 3_600)


def written(units, *attempts):
    """These attempts in the database, all of one node."""
    node, numbers = stored(units), count(1)
    with units() as unit:
        for attempt in attempts:
            number = next(numbers)
            unit.placements.add(
                replace(attempt, node_id=node.id, attempt=number, cloud_id=f"c-{number}")
            )


def attempt(outcome=Outcome.OPEN, key=HERE, ready=None, ended=None, **changes):
    base = Placement(
        node_id="",
        attempt=0,
        zone=key.zone,
        model=key.model,
        cloud_id="",
        started_at=NOON,
        outcome=outcome,
        project="lab",
        accelerator_type=key.accelerator_type,
        generation=key.generation,
        ready_at=None if ready is None else NOON + ready,
        ended_at=None if ended is None else NOON + ended,
    )
    return replace(base, **changes)


def tried(units, **only):
    with units.reading() as unit:
        return unit.capacity.count_attempts(HOUR, only)


def test_attempts_are_counted_by_what_became_of_them(units):
    written(
        units,
        attempt(Outcome.STOCK_OUT, ended=5),
        attempt(Outcome.STOCK_OUT, ended=5),
        attempt(Outcome.QUOTA, ended=5),
        attempt(Outcome.DENIED, ended=5),
        attempt(Outcome.FAILED, ended=5),
        attempt(Outcome.REFUSED, ended=5),
        attempt(Outcome.NAME_TAKEN, ended=5),
        attempt(started_at=NOON + 9),
        attempt(Outcome.READY, ready=100),
        attempt(Outcome.DELETED, ready=120, ended=900),
        attempt(Outcome.PREEMPTED, ready=140, ended=1_140),
        attempt(Outcome.PREEMPTED, ended=30),
    )
    assert tried(units) == [AttemptCounts("lab", HERE, 12, 3, 2, 1, 1, 3, 1, NOON + 9, 120, 1_000)]


def test_the_median_is_the_lower_one_of_two_and_none_where_nothing_came_up(units):
    written(
        units,
        *(attempt(Outcome.READY, ready=seconds) for seconds in (400, 100, 300, 200)),
        *(attempt(Outcome.PREEMPTED, ready=0, ended=seconds) for seconds in (50, 70)),
        attempt(Outcome.STOCK_OUT, key=THERE, ended=1),
    )
    there, here = tried(units)
    assert (here.seconds_to_ready, here.preempted, here.seconds_lived) == (100, 2, 50)
    assert (there.key, there.seconds_to_ready, there.seconds_lived) == (THERE, None, None)


def test_only_what_began_in_the_window_counts(units):
    written(
        units,
        attempt(started_at=NOON - 1),
        attempt(started_at=NOON),
        attempt(started_at=NOON + 3_599),
        attempt(started_at=NOON + 3_600),
    )
    (found,) = tried(units)
    assert found.attempts == 2


def test_every_column_of_the_key_can_be_asked_for(units):
    written(
        units,
        attempt(),
        attempt(project="other"),
        attempt(key=replace(HERE, model="on_demand")),
        attempt(key=THERE),
    )
    assert len(tried(units)) == 4
    assert [place.key for place in tried(units, zone="us-east5-a")] == [THERE]
    assert [place.key for place in tried(units, generation="v6e")] == [THERE]
    assert [place.key for place in tried(units, accelerator_type="v6e-8")] == [THERE]
    assert [place.project for place in tried(units, project="other")] == ["other"]
    assert [place.key.model for place in tried(units, model="on_demand")] == ["on_demand"]
    assert tried(units, zone="nowhere") == []
