"""Costs by day: the rollup is what the ledger sums to, and can be made anew."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from service.domain.budgets.budget import Scope
from service.domain.clock import DAY, HOUR
from service.domain.pricing.price_book import Sku
from service.domain.time_window import Window
from service.store.costs import DIMENSIONS, FINE
from service.store.tables import node_days
from tests import factories
from tests.hands import NOON
from tests.store.given import entry, metered, posted, ran, stored

MIDNIGHT = NOON - NOON % DAY
NUMBERS = count(1)

LINES = st.lists(
    st.tuples(
        st.integers(-48, 48),
        st.integers(-(10**12), 10**12),
        st.integers(-(10**6), 10**6),
    ),
    min_size=1,
    max_size=6,
)
WHO = st.tuples(
    st.sampled_from(["vision", "nlp", ""]),
    st.sampled_from(["ada", "grace"]),
    st.sampled_from(["v5e", "v6e"]),
    st.sampled_from(["spot", "on_demand"]),
)


BY_NODE = (*FINE, *DIMENSIONS)


def everything(units, dimensions=DIMENSIONS, only=None):
    with units.reading() as unit:
        return unit.costs.sum_by_day(0, 2 * NOON, dimensions, only or {})


@pytest.mark.deep
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(WHO, LINES), min_size=1, max_size=4))
def test_the_rollup_that_was_added_to_is_the_one_that_is_made_anew(units, posts):
    for (team, owner, generation, model), lines in posts:
        sku = Sku(generation, model, "us-west4")
        usage = ran(units, stored(units, team=team, owner=owner), sku=sku)
        entries = [
            entry(
                usage,
                hour=MIDNIGHT + hour * HOUR,
                number=next(NUMBERS),
                amount=amount,
                chip_seconds=chip_seconds,
                list_amount=None if amount % 3 == 0 else 2 * amount,
            )
            for hour, amount, chip_seconds in lines
        ]
        posted(units, usage, entries[:1])
        posted(units, usage, entries[1:])
    added, by_node = everything(units), everything(units, BY_NODE)
    with units() as unit:
        unit.costs.rebuild()
    assert everything(units) == added
    assert everything(units, BY_NODE) == by_node
    total = [sum(row[2] for row in added), sum(row[3] for row in added)]
    for dimensions in [
        (),
        ("team",),
        ("owner", "generation"),
        ("zone", "project"),
        ("node_id",),
        ("node_id", "team"),
        FINE,
    ]:
        grouped = everything(units, dimensions)
        assert [sum(row[2] for row in grouped), sum(row[3] for row in grouped)] == total


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [(-1, 2, [-1, 0, 1]), (0, 1, [0]), (0, 2, [0, 1]), (1, 1, []), (2, 9, [])],
)
def test_days_are_half_open_and_in_order(units, start, end, days):
    usage = ran(units, stored(units))
    posted(units, usage, [entry(usage, hour=MIDNIGHT + day * DAY) for day in (1, -1, 0)])
    posted(units, usage, [entry(usage, hour=MIDNIGHT + DAY - HOUR)])
    with units.reading() as unit:
        rows = unit.costs.sum_by_day(MIDNIGHT + start * DAY, MIDNIGHT + end * DAY, (), {})
    assert [row[0] for row in rows] == [MIDNIGHT + day * DAY for day in days]
    assert all(row[1] == () for row in rows)


@pytest.mark.parametrize(
    ("only", "teams"),
    [
        ({}, [("nlp",), ("vision",)]),
        ({"team": ["nlp"]}, [("nlp",)]),
        ({"owner": ["ada"], "team": ["nlp", "vision"]}, [("vision",)]),
        ({"zone": ["us-east1-c"]}, []),
    ],
)
def test_only_what_is_asked_for_counts(units, only, teams):
    for team, owner in (("vision", "ada"), ("nlp", "grace")):
        usage = ran(units, stored(units, team=team, owner=owner))
        posted(units, usage, [entry(usage)])
    assert [row[1] for row in everything(units, ("team",), only)] == teams


def test_a_day_that_an_older_program_began_without_labels_has_them_with_its_next_hour(
    units, engine
):
    usage = ran(units, stored(units, labels={"run": "1"}))
    posted(units, usage, [entry(usage, hour=MIDNIGHT)])
    with engine.begin() as connection:
        connection.execute(update(node_days).values(labels="{}"))
    posted(units, usage, [entry(usage, hour=MIDNIGHT + HOUR)])
    with units.reading() as unit:
        told = unit.holds.sum_posted(Scope(label=("run", "1")), Window(MIDNIGHT, MIDNIGHT + DAY))
    assert told == sum(row[2] for row in everything(units))


def test_corrections_of_closed_months_are_summed_by_the_day_on_which_they_were_posted(units):
    """A month is closed 72 hours after its end, so October's seconds were known too late."""
    october, november = NOON - 10 * DAY, NOON
    for began in (october, october + HOUR, november):
        usage = ran(units, stored(units), start=began, end=began + 100, end_lo=began + 100)
        for_day = NOON + 2 * DAY if began == october + HOUR else NOON + DAY + 77
        metered(units, usage, factories.book(), for_day)
    per_node = 266_666_667  # 800 chip-seconds at 1.20 dollars an hour
    with units.reading() as unit:
        found = unit.costs.sum_corrections(MIDNIGHT - 4 * DAY, MIDNIGHT + 9 * DAY)
        assert found == {
            MIDNIGHT + DAY: per_node,
            MIDNIGHT + 2 * DAY: per_node,
        }
        assert all(type(amount) is int for amount in found.values())
        assert unit.costs.sum_corrections(MIDNIGHT + 2 * DAY, MIDNIGHT + 2 * DAY + 60) == {}
