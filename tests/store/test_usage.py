"""Usage: at most one open interval a node, and what is still to be posted."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from service.domain.clock import HOUR
from service.domain.errors import StaleVersion
from service.domain.metering.meter import Evidence
from service.domain.pricing.price_book import Sku
from service.domain.time_window import Window
from service.store import usage as usage_store
from service.store.engine import make_engine
from service.store.unit import Units
from tests import factories
from tests.databases import fresh_database
from tests.hands import NOON
from tests.store.given import ran, stored

ENDED: dict[str, Any] = {"end": NOON + 100, "end_lo": NOON + 90, "end_evidence": Evidence.OBSERVED}


def test_an_interval_comes_back_as_it_was_written(units):
    node = stored(units)
    usage = ran(
        units, node, **ENDED, start_hi=NOON + 5, free="preempted in its first minute", dirty=True
    )
    with units.reading() as unit:
        assert unit.usage.list_by_node(node.id) == [usage]
        assert unit.usage.find_open(node.id) is None


def test_an_interval_that_changed_is_written_over(units):
    node = stored(units)
    usage = ran(units, node)
    with units() as unit:
        assert unit.usage.find_open(node.id) == usage
        unit.usage.save(replace(usage, **ENDED))
    with units.reading() as unit:
        assert unit.usage.list_by_node(node.id) == [replace(usage, **ENDED)]


def test_nodes_that_run_are_grouped_by_what_is_priced_and_by_nothing_else(units, monkeypatch):
    first, second, third = (stored(units).id for _ in range(3))
    ran(units, stored(units), **ENDED)
    here = factories.usage().sku
    there = replace(here, region="us-east5")
    with units() as unit:
        for node_id, zone, sku in (
            (first, "us-west4-a", here),
            (second, "us-west4-b", here),
            (third, "us-east5-b", there),
        ):
            unit.usage.save(factories.usage(id=node_id, node_id=node_id, zone=zone, sku=sku))
    monkeypatch.setattr(usage_store, "IDS_AT_ONCE", 2)  # the third is read by another statement
    with units.reading() as unit:
        of_project = unit.usage.find_open_in(factories.PROJECT)
        of_ids = unit.usage.find_open_of([first, second, third])
        of_some = unit.usage.find_open_of([third])
    for groups in (of_project, of_ids):
        found = {key: sorted(ids) for key, ids in groups.items()}
        assert found == {(here, 8): sorted([first, second]), (there, 8): [third]}
    assert of_some == {(there, 8): [third]}


def test_the_database_refuses_a_second_open_interval_of_a_node(units):
    node, other = stored(units), stored(units)
    ran(units, node)
    ran(units, other)
    with pytest.raises(StaleVersion):
        ran(units, node, start=NOON + 10)
    with units.reading() as unit:
        assert len(unit.usage.list_by_node(node.id)) == 1


def test_after_one_interval_ended_the_next_may_begin(units):
    node = stored(units)
    first = ran(units, node, **ENDED)
    second = ran(units, node, start=NOON + 200)
    with units.reading() as unit:
        assert unit.usage.list_by_node(node.id) == [first, second]
        assert unit.usage.find_open(node.id) == second


def test_the_database_refuses_an_end_before_the_start(units):
    with pytest.raises(StaleVersion):
        ran(units, stored(units), end=NOON - 1, end_lo=NOON - 1, end_evidence=Evidence.OBSERVED)


def test_what_is_to_be_posted_is_what_runs_behind_or_changed(units):
    behind = ran(units, stored(units), start=NOON - HOUR)
    ran(units, stored(units), start=NOON)
    ran(units, stored(units), **ENDED)
    changed = ran(units, stored(units), **ENDED, dirty=True)
    ran(units, stored(units), start=NOON - HOUR, project="other")
    with units.reading() as unit:
        assert unit.usage.list_to_post("lab", NOON, 10) == [behind, changed]
        assert unit.usage.list_to_post("lab", NOON, 1) == [behind]


def test_how_far_the_ledger_has_come_is_remembered(units):
    usage = ran(units, stored(units), start=NOON - HOUR, dirty=True)
    with units() as unit:
        after = unit.usage.save_posted(usage, NOON, 60)
    assert (after.posted_until, after.unpriced_seconds, after.dirty) == (NOON, 60, False)
    with units.reading() as unit:
        assert unit.usage.list_by_node(usage.node_id) == [after]
        assert unit.usage.list_to_post("lab", NOON, 10) == []


def test_who_has_read_an_interval_before_a_price_became_known_posts_nothing_after_it(units):
    usage = ran(units, stored(units))
    with units() as unit:
        unit.usage.mark_dirty({"v5e": NOON})
    with pytest.raises(StaleVersion), units() as unit:
        unit.usage.save_posted(usage, NOON + HOUR, 0)
    with units.reading() as unit:
        (kept,) = unit.usage.list_by_node(usage.node_id)
    assert (kept.dirty, kept.posted_until) == (True, usage.posted_until)


def test_a_price_that_became_known_has_what_ran_since_then_looked_at_anew(units):
    open_one = ran(units, stored(units))
    touched = ran(units, stored(units), **ENDED)
    ran(units, stored(units), start=NOON - 500, end=NOON + 50, end_lo=NOON + 50)
    ran(units, stored(units), sku=Sku("v6e", "spot", "us-east1"))
    with units() as unit:
        unit.usage.mark_dirty({"v5e": NOON + 50})
    with units.reading() as unit:
        assert {usage.id for usage in unit.usage.list_to_post("lab", NOON, 10)} == {
            open_one.id,
            touched.id,
        }


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (NOON - 10, NOON, 0),
        (NOON - 10, NOON + 1, 2),
        (NOON + 99, NOON + 200, 2),
        (NOON + 100, NOON + 200, 1),
    ],
)
def test_intervals_are_half_open(units, start, end, found):
    ran(units, stored(units))
    ran(units, stored(units), **ENDED)
    with units.reading() as unit:
        assert len(list(unit.usage.iter_overlapping(start, end))) == found
        assert len(unit.usage.list_open()) == 1


def test_a_sku_survives_the_database(units):
    sku = Sku("v2", "preemptible", "europe-west4", single_device=True)
    usage = ran(units, stored(units), sku=sku)
    with units.reading() as unit:
        assert unit.usage.find_open(usage.node_id).sku == sku
    assert usage == replace(factories.usage(), id=usage.id, node_id=usage.node_id, sku=sku)


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(NOON, NOON + 1, True), (NOON - 10, NOON, False), (NOON + 100, NOON + 200, False)],
)
def test_what_has_seconds_without_a_price_is_found_again(units, start, end, found):
    exact = ENDED | {"end_lo": ENDED["end"]}
    usage = ran(units, stored(units), **exact, unpriced_seconds=5)
    ran(units, stored(units), **exact)
    with units.reading() as unit:
        assert list(unit.usage.iter_doubtful(start, end)) == ([usage] if found else [])


@pytest.mark.parametrize(
    ("moved", "found"), [({"start_hi": NOON + 3}, 1), ({"end_lo": NOON}, 1), ({}, 0)]
)
def test_what_is_uncertain_at_either_end_is_found_again(units, moved, found):
    exact = ENDED | {"end_lo": ENDED["end"]}
    ran(units, stored(units), **exact)
    usage = ran(units, stored(units), **(exact | moved))
    with units.reading() as unit:
        assert list(unit.usage.iter_doubtful(NOON, NOON + 10)) == [usage][:found]


def test_usage_that_ended_in_doubt_is_found_by_when_it_ended(units):
    mine, other = stored(units), stored(units, project="other")
    doubtful = ran(units, mine, **ENDED)
    ran(units, other, **ENDED, project="other")
    for changes in (
        {"end": NOON + 100, "end_lo": NOON + 100},
        {"end_evidence": Evidence.OPERATION},
        {"start_evidence": Evidence.UNSEEN},
    ):
        ran(units, mine, **(ENDED | changes))
    ran(units, mine)

    def found(*windows):
        with units.reading() as unit:
            return unit.usage.list_ended_in_doubt("lab", [Window(*window) for window in windows])

    assert found((NOON, NOON + 101)) == [doubtful]
    assert found((NOON + 500, NOON + 600), (NOON + 100, NOON + 101)) == [doubtful]
    assert found((NOON, NOON + 100), (NOON + 101, NOON + 500)) == []


WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
"""Unlike pg_stat_activity, it is read anew within one transaction."""
PATIENCE = 20


def test_prices_of_several_generations_lock_usage_in_the_order_of_everybody_else(tmp_path):
    """Whoever waits for the first interval holds no later one, for which others would wait."""
    v6e = Sku("v6e", "on_demand", "us-west4")
    with fresh_database("postgresql", tmp_path) as address:
        engine = make_engine(address)
        units = Units(engine)
        first, last = stored(units), stored(units)
        ran(units, first, id="1", sku=v6e)
        ran(units, last, id="2")

        def reprice():
            with units() as unit:
                unit.usage.mark_dirty({"v5e": NOON, "v6e": NOON})

        repricing = threading.Thread(target=reprice)
        with units() as unit:
            unit.usage.lock([first.id])
            repricing.start()
            deadline = time.monotonic() + PATIENCE
            while not unit.usage._connection.execute(WAITING).scalar_one():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            unit.usage.lock([last.id])
        repricing.join(PATIENCE)
        with units.reading() as unit:
            assert [
                usage.dirty for node in (first, last) for usage in unit.usage.list_by_node(node.id)
            ] == [
                True,
                True,
            ]
        engine.dispose()
