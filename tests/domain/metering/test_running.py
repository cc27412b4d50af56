"""Running nodes cost in a list what the meter charges, to the nano-dollar."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.ids import new_id
from service.domain.metering.line_items import lines_of, make_meters
from service.domain.metering.meter import Evidence, Usage
from service.domain.metering.reservation import Reservation
from service.domain.metering.running import PriceParts, RunningCost, price_parts_of
from service.domain.metering.usage import start_usage
from service.domain.nodes.slices import slice_as_node
from service.domain.pricing.burn import BilledUnits, burn_of
from service.domain.pricing.discounts import Discount
from service.domain.pricing.driver_vm import UserVm
from service.domain.pricing.price_book import PriceBook
from tests import factories
from tests.domain.drawn import CHANGES, moderate
from tests.hands import NOON

INSTANTS = st.integers(NOON - DAY, NOON + 9 * DAY)
PERIODS = st.tuples(INSTANTS, INSTANTS).map(sorted)
MODELS = [ProvisioningModel.ON_DEMAND, ProvisioningModel.SPOT, ProvisioningModel.RESERVED]
VM = UserVm("n1-standard-8")


@st.composite
def books(draw):
    """Prices of each model and of the machine that change, with a discount and a reservation; some
    are unknown at first, or always."""
    rows = [
        factories.price(nanos, at, id=f"{model}/{region}/{at}", model=model, region=region)
        for model in MODELS
        for region in ("us-west4", "us")
        for at, nanos in draw(CHANGES).items()
    ]
    rows += [
        factories.price(nanos, at, id=f"vm/{at}", generation=VM.machine_type, unit="vm_hour")
        for at, nanos in draw(CHANGES).items()
    ]
    start, end = draw(PERIODS)
    bought = Reservation(new_id(), "autumn", "lab", factories.ZONE, "v5e", 64, start, end)
    since, until = draw(PERIODS)
    off = Discount("half", "", "", 333_333, since, until, "a test")
    return PriceBook(rows, [off], [bought.purchase] if end > start else [])


@st.composite
def running(draw):
    """A node of one form or of several slices, with usage of each slice."""
    slices = draw(st.sampled_from([1, 1, 2, 3]))
    node = factories.node(
        chips=slices * draw(st.sampled_from([1, 8, 256])),
        hosts=slices * draw(st.sampled_from([1, 2])),
        slices=slices,
        provisioning_model=draw(st.sampled_from(MODELS)),
        vm=draw(st.sampled_from([None, VM])) if slices == 1 else None,
    )
    starts = draw(st.lists(INSTANTS, min_size=slices, max_size=slices))
    parts = [node] if slices == 1 else [slice_as_node(node, number) for number in range(slices)]
    return node, [
        start_usage(part, start, start, Evidence.OPERATION)
        for part, start in zip(parts, starts, strict=True)
    ]


@settings(max_examples=500, deadline=None)
@given(running(), books(), st.integers(0, 9 * DAY), st.integers(-HOUR, 9 * DAY))
def test_the_growth_of_running_usage_is_what_its_meters_charge(found, book, posted_for, later):
    node, usages = found
    for usage in usages:
        posted = usage.start + posted_for
        now = posted + later
        nanos, unpriced = RunningCost(price_parts_of(node.spec, node.zone), book, now).growth_of(
            usage.start, posted
        )
        meters = list(make_meters([usage], book, max(now, posted)))
        until = meters[0].end
        assert nanos == sum(meter.charge_in(posted, until) for meter in meters)
        assert unpriced == sum(meter.seconds_in(posted, until, priced=False) for meter in meters)


@moderate
@given(running(), books(), INSTANTS)
def test_the_burn_of_a_node_is_that_of_all_its_running_usage(found, book, now):
    node, usages = found
    lines = [line for usage in usages for line in lines_of(usage)]
    parts = price_parts_of(node.spec, node.zone)
    assert RunningCost(parts, book, now).burn == burn_of(lines, book, now)
    assert {line.sku for line in lines} == {line.sku for line in parts.list_lines()}


@pytest.mark.parametrize(
    ("lines", "burn"),
    [
        ([], 0),
        ([BilledUnits(factories.usage().sku, 8)], 9_600_000_000),
        ([factories.usage(), factories.usage(chips=16)], 28_800_000_000),
        ([factories.usage(), factories.usage(sku=replace(factories.usage().sku, model="x"))], None),
    ],
)
def test_the_burn_is_the_sum_of_its_lines_and_unknown_if_one_price_is(lines, burn):
    assert burn_of(lines, factories.book(), NOON) == burn


def test_usage_and_billed_units_are_billed_alike():
    usage: Usage = factories.usage()
    parts = PriceParts(usage.sku, usage.chips)
    assert parts.list_lines() == (BilledUnits(usage.sku, usage.units),)
