"""What can be written down as bought, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.domain.clock import DAY, HOUR
from service.domain.errors import Conflict, Rejected
from service.domain.metering.meter import Evidence
from service.domain.metering.reservation import (
    MAX_CHIPS,
    Reservation,
    check_countable,
    check_reservation,
    usage_of,
)
from service.domain.money import NANOS
from service.domain.pricing.purchases import find_purchase, pool_of
from tests import factories
from tests.hands import NOON

BOUGHT = Reservation(
    id="r-1",
    name="autumn",
    project="lab",
    zone="us-west4-a",
    generation="v5e",
    chips=64,
    start=NOON,
    end=NOON + 7 * DAY,
)


def test_what_google_sells_can_be_written_down():
    check_reservation(BOUGHT, [])
    check_reservation(replace(BOUGHT, end=NOON + DAY), [])
    check_reservation(replace(BOUGHT, end=NOON + 90 * DAY), [])


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"end": NOON}, "ends_at"),
        ({"end": NOON - DAY}, "ends_at"),
        ({"end": NOON + DAY - 1}, "ends_at"),
        ({"end": NOON + 90 * DAY + 1}, "ends_at"),
        ({"chips": 0}, "chips"),
        ({"chips": -4}, "chips"),
        ({"chips": 10**9}, "chips"),
        ({"zone": "moon-east1-a"}, "zone"),
        ({"generation": "v9"}, "generation"),
        ({"zone": "us-central1-c", "generation": "v2"}, "generation"),
        ({"name": ""}, "name"),
        ({"name": "../../etc"}, "name"),
        ({"name": "Autumn"}, "name"),
        ({"labels": {"steward-id": "x"}}, "labels"),
    ],
)
def test_what_nobody_can_have_bought_is_refused(wrong, field):
    with pytest.raises(Rejected) as caught:
        check_reservation(replace(BOUGHT, **wrong), [])
    assert caught.value.facts["field"] == field


@pytest.mark.parametrize(
    ("nanos", "chips"),
    [(100_000 * NANOS, 64), (10 * NANOS, MAX_CHIPS)],
    ids=["an absurd price", "all the chips there can be"],
)
def test_what_comes_to_more_than_can_be_counted_is_refused(nanos, chips):
    book = factories.book(factories.price(nanos, model="calendar"))
    much = replace(BOUGHT, chips=chips, end=NOON + 90 * DAY)
    with pytest.raises(Rejected, match=r"more than \$922,") as caught:
        check_countable(much, book)
    assert caught.value.facts["field"] == "chips"
    check_countable(replace(much, chips=1, end=NOON + DAY), book)


def test_the_largest_slice_for_the_longest_time_can_be_counted():
    book = factories.book(factories.price(15 * NANOS, model="calendar"))
    check_countable(replace(BOUGHT, chips=9_216, end=NOON + 90 * DAY), book)


def test_a_zone_that_lacks_the_generation_says_what_it_has():
    with pytest.raises(Rejected, match=r"us-west4-a has .*not v5p") as caught:
        check_reservation(replace(BOUGHT, generation="v5p"), [])
    generations: Any = caught.value.facts["generations"]
    assert "v5e" in generations


def test_one_name_stands_for_one_reservation_at_a_time():
    with pytest.raises(Conflict, match="is recorded for"):
        check_reservation(replace(BOUGHT, id="r-2", start=NOON + DAY, end=NOON + 8 * DAY), [BOUGHT])
    after = replace(BOUGHT, id="r-2", start=BOUGHT.end, end=BOUGHT.end + DAY)
    elsewhere = replace(BOUGHT, id="r-2", zone="us-east5-b")
    for other in (after, elsewhere, replace(BOUGHT, id="r-2", name="winter")):
        check_reservation(other, [BOUGHT])


def test_it_is_paid_from_its_first_second_to_its_last():
    usage = usage_of(BOUGHT, "u-1")
    assert (usage.start, usage.end, usage.chips) == (NOON, NOON + 7 * DAY, 64)
    assert usage.start_evidence is usage.end_evidence is Evidence.PURCHASE
    assert usage.uncertain_seconds == 0
    assert usage.is_purchase
    assert usage.is_open(NOON + DAY)
    assert not usage.is_open(NOON + 7 * DAY)
    assert usage.end_as_of(NOON - HOUR) == NOON, "nothing is due before it begins"


def test_it_is_running_between_its_ends_unless_the_record_was_wrong():
    instants = (NOON - 1, NOON, BOUGHT.end - 1, BOUGHT.end)
    assert [BOUGHT.state_at(now) for now in instants] == ["planned", "running", "running", "over"]
    wrong = replace(BOUGHT, withdrawn_at=NOON, reason="it was for spring")
    assert wrong.state_at(NOON) == "withdrawn"
    assert usage_of(wrong, "u-1").free == "withdrawn: it was for spring"


# ---- what serves whom


@pytest.mark.parametrize(
    ("pool", "generation", "served"),
    [
        (pool_of("lab", "us-west4-a", "autumn"), "v5e", True),
        (pool_of("lab", "us-west4-a"), "v5e", True),
        (pool_of("lab", "us-west4-a", "winter"), "v5e", False),
        (pool_of("lab", "us-west4-b"), "v5e", False),
        (pool_of("other", "us-west4-a", "autumn"), "v5e", False),
        (pool_of("lab", "us-west4-a", "autumn"), "v6e", False),
        ("", "v5e", False),
    ],
)
def test_it_serves_who_names_it_and_who_names_none(pool, generation, served):
    assert BOUGHT.purchase.serves_pool(pool, generation) is served


def test_it_is_met_by_its_full_name_too():
    named = pool_of("lab", "us-west4-a", BOUGHT.purchase.path)
    assert BOUGHT.purchase.serves_pool(named, "v5e")


def test_of_several_the_one_that_began_first_serves_and_none_outside_its_time():
    later = replace(BOUGHT, id="r-0", name="autumn-too", start=NOON + DAY).purchase
    anyone = pool_of("lab", "us-west4-a")
    some = [later, BOUGHT.purchase]
    assert find_purchase(some, anyone, "v5e", NOON + 2 * DAY) == BOUGHT.purchase
    assert find_purchase([later], anyone, "v5e", NOON + 2 * DAY) == later
    for outside in (NOON - 1, BOUGHT.end):
        assert find_purchase(some, anyone, "v5e", outside) is None
