"""Usage begins where it was seen to, and never before the one before it has ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.metering.meter import Evidence
from service.domain.metering.usage import start_usage, with_start_after
from tests import factories
from tests.hands import NOON


def test_what_is_opened_is_of_the_node_as_it_is_now():
    node = factories.sent(chips=16, hosts=4, zone="europe-west4-b")
    usage = start_usage(node, NOON, NOON + 9, Evidence.OBSERVED)
    assert (usage.node_id, usage.chips, usage.zone) == (node.id, 16, "europe-west4-b")
    assert (usage.sku.region, usage.sku.model) == ("europe-west4", ProvisioningModel.ON_DEMAND)
    assert (usage.start, usage.start_hi, usage.posted_until) == (NOON, NOON + 9, NOON)


def test_the_second_in_which_a_slow_look_was_answered_is_charged_once():
    usage = factories.usage(start=NOON + 380, start_hi=NOON + 900)
    after = with_start_after(usage, NOON + 381)
    assert (after.start, after.start_hi, after.posted_until) == (NOON + 381, NOON + 900, NOON + 381)


def test_what_begins_later_or_first_stays_as_it_is():
    usage = factories.usage()
    assert with_start_after(usage, None) == with_start_after(usage, NOON) == usage


@given(st.integers(-50, 50), st.integers(0, 50), st.none() | st.integers(0, 90))
def test_bounds_stay_in_order_and_no_second_of_the_last_is_charged_again(moved, unsure, lasted):
    end = None if lasted is None else NOON + lasted
    usage = factories.usage(start_hi=NOON + unsure, end=end, end_lo=end)
    after = with_start_after(usage, NOON + moved)
    assert after.start >= max(usage.start, NOON + moved)
    assert after.start <= after.start_hi
    if after.end is not None:
        assert after.end_lo is not None
        assert after.start <= after.end_lo <= after.end
