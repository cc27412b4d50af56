"""Markers of a chart: changed prices of what is used, preemptions, and corrections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.clock import DAY
from service.domain.costs.markers import CostMarker, UsedHardware, list_markers
from service.domain.pricing.price_book import PriceBook
from service.domain.time_window import Window
from tests import factories

START = 1_793_836_800
WINDOW = Window(START, START + 3 * DAY)
USED = UsedHardware("v5e", "spot", "us-west4-a")


def price(at, nanos, **changes):
    made = factories.price(nanos, at, model="spot")
    return replace(made, id=f"{at}/{nanos}/{changes}", **changes)


def texts(*prices, used=(USED,)):
    found = list_markers(WINDOW, PriceBook(prices), used, (), {})
    return [(marker.day, marker.text) for marker in found]


BEFORE = price(START - DAY, 500_000_000)


def test_a_changed_list_price_of_used_hardware_is_a_marker_of_its_day():
    said = "the list price of v5e spot in us-west4 changes from $0.50 to $0.4623"
    changed = price(START + DAY + 7, 462_300_000)
    assert texts(BEFORE, changed) == [(START + DAY, said)]
    preemptible = UsedHardware("v5e", "preemptible", "us-west4-b")
    assert texts(BEFORE, changed, used=[preemptible]) == [(START + DAY, said)]


@pytest.mark.parametrize(
    "later",
    [
        price(START + DAY, 500_000_000),
        price(START + 3 * DAY, 462_300_000),
        price(START - 9, 462_300_000),
        price(START + DAY, 1, region="us-east5"),
        price(START + DAY, 1, generation="v6e"),
        price(START + DAY, 1, model="on_demand"),
    ],
    ids=["the same amount", "after", "before", "elsewhere", "another generation", "another model"],
)
def test_what_changes_no_cost_of_the_window_is_no_marker(later):
    first = price(START - DAY, 2, region=later.region, model=later.model, generation="v6e")
    assert texts(BEFORE, later, first) == []


def test_the_first_price_of_a_product_is_no_change():
    assert texts(price(START + DAY, 462_300_000)) == []


def test_a_price_that_another_one_of_the_same_second_replaces_is_no_change():
    typo = price(START + DAY, 4_623_000_000, recorded_at=1)
    corrected = price(START + DAY, 462_300_000, recorded_at=2)
    assert texts(BEFORE, typo, corrected) == texts(BEFORE, corrected)
    undone = price(START + DAY, 500_000_000, recorded_at=2)
    assert texts(BEFORE, typo, undone) == []


def test_the_price_of_a_group_of_regions_changes_no_price_of_a_region_of_its_own():
    group = [price(at, nanos, region="us") for at, nanos in ((0, 9), (START + DAY, 8))]
    assert texts(BEFORE, *group) == []
    elsewhere = UsedHardware("v5e", "spot", "us-east5-a")
    assert texts(BEFORE, *group, used=[USED, elsewhere]) == [
        (START + DAY, "the list price of v5e spot in us changes from $0.000000009 to $0.000000008")
    ]


def test_the_first_price_of_a_region_changes_that_of_its_group():
    group, own = price(0, 500_000_000, region="us"), price(START, 400_000_000)
    text = "the list price of v5e spot in us-west4 changes from $0.50 to $0.40"
    assert texts(group, own, used=[USED, replace(USED, zone="us-west4-b")]) == [(START, text)]


def test_preemptions_and_corrections_are_counted_by_day():
    at = [START + 5, START + 2 * DAY, START + 2 * DAY + 9]
    corrected = {START + DAY: -1_500_000_000}
    assert list_markers(WINDOW, PriceBook([]), [], at, corrected) == [
        CostMarker(START, "1 preemption"),
        CostMarker(START + DAY, "earlier months are corrected by -$1.50"),
        CostMarker(START + 2 * DAY, "2 preemptions"),
    ]
