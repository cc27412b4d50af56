"""Limits are learned from refusals, weighed against what is held, and believed for a day."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog import catalog
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.errors import CapacityUnavailable, QuotaExceeded
from service.domain.placement.quota import (
    HardwareAmount,
    Limit,
    LimitStanding,
    QuotaFit,
    QuotaHolding,
    Size,
    Tier,
    claim_of,
    judge_fit,
    learn_limit,
    list_stocks,
    scope_of,
    tally_limit,
    tier_of,
)
from tests import factories
from tests.hands import NOON

DAY = 86_400
SAID = "Quota limit 'TPUV6EPerProjectPerRegionForTPUAPI' has been exceeded. Limit: 16."
LIMIT = Limit(
    "lab", "TPUV6E", "us-east5", "v6e", Tier.ON_DEMAND, Size.ANY, allowed=16, observed_at=NOON
)
AMOUNTS = st.builds(
    lambda chips, each: HardwareAmount(chips, chips * each),
    st.integers(0, 4_096),
    st.sampled_from((1, 2)),
)


def claim(zone="us-east5-a", name="v6e-8", model="on_demand", chips=None):
    known = catalog.load_catalog().accelerators[name]
    return claim_of(zone, known, model, known.chips if chips is None else chips)


def holding(*, used=True, granted_at=None, **of):
    return QuotaHolding(claim(**of), used, granted_at)


def refused(zone="us-east5-a", name="v6e-8", error=None, **changes):
    accelerator = catalog.load_catalog().accelerators[name]
    spec = factories.spec(
        accelerator_type=name,
        generation=accelerator.generation,
        chips=changes.pop("chips", accelerator.chips),
        **changes,
    )
    facts = {"limit": "TPUV6E", "allowed": 16, "region": "us-east5"}
    return learn_limit(spec, zone, error or QuotaExceeded(SAID, **facts), NOON)


# ---- what a refusal teaches


def test_a_refusal_teaches_the_limit_that_it_names():
    assert refused() == replace(LIMIT, said=SAID)


@pytest.mark.parametrize(
    "error",
    [
        CapacityUnavailable("There is no more capacity", allowed=0, region="us-east5"),
        QuotaExceeded("Quota exhausted"),
        QuotaExceeded("Quota exhausted", region="us-east5"),
        QuotaExceeded("Quota exhausted", allowed="16", region="us-east5"),
        QuotaExceeded("Quota exhausted", allowed=0, region="asia-east1"),
        QuotaExceeded("Quota exhausted", allowed=0, zone="us-east5-b"),
    ],
)
def test_what_names_no_number_or_only_another_place_teaches_nothing(error):
    assert refused(error=error) is None


def test_a_limit_without_a_place_is_taken_for_the_zones_own():
    assert refused(error=QuotaExceeded("Quota", allowed=0)).place == "us-east5-a"


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("v2-8", Size.SINGLE),
        ("v2-32", Size.POD),
        ("v5litepod-8", Size.SINGLE),
        ("v5litepod-16", Size.POD),
        ("v4-8", Size.ANY),
        ("v5p-64", Size.ANY),
        ("v6e-64", Size.ANY),
    ],
)
def test_where_pods_have_a_limit_of_their_own_it_says_nothing_of_the_others(name, size):
    limit = refused(name=name)
    assert limit.size is size
    assert limit.applies_to(claim(name=name))


@pytest.mark.parametrize(
    ("model", "tier"),
    [
        (ProvisioningModel.ON_DEMAND, Tier.ON_DEMAND),
        (ProvisioningModel.RESERVED, Tier.RESERVED),
        (ProvisioningModel.SPOT, Tier.PREEMPTIBLE),
        (ProvisioningModel.PREEMPTIBLE, Tier.PREEMPTIBLE),
        (ProvisioningModel.FLEX_START, Tier.PREEMPTIBLE),
    ],
)
def test_what_can_be_taken_back_or_ends_by_itself_shares_a_limit(model, tier):
    assert tier_of(model) is tier


def test_a_limit_is_the_same_whatever_it_allows_and_another_of_another_name():
    assert replace(LIMIT, allowed=0, observed_at=1, said="x").id == LIMIT.id
    others: list[dict[str, Any]] = [{name: "x"} for name in ("project", "name", "place")]
    assert len({replace(LIMIT, **other).id for other in others}) == 3


# ---- what counts


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"zone": "us-east5-b"}, True),
        ({"name": "v6e-256"}, True),
        ({"zone": "us-east1-d"}, False),
        ({"model": "spot"}, False),
        ({"name": "v5p-8"}, False),
    ],
)
def test_a_limit_of_a_region_covers_its_zones_its_generation_and_its_tier(changes, counts):
    assert LIMIT.applies_to(claim(**changes)) is counts


def test_a_limit_of_a_zone_covers_no_other_zone():
    limit = replace(LIMIT, place="us-east5-a")
    assert limit.applies_to(claim())
    assert not limit.applies_to(claim(zone="us-east5-b"))


@pytest.mark.parametrize(
    ("name", "amount", "said"),
    [
        ("v2-8", HardwareAmount(4, 8), "4 chips (8 cores)"),
        ("v4-4096", HardwareAmount(2_048, 4_096), "2,048 chips (4,096 cores)"),
        ("v5p-8", HardwareAmount(4, 8), "4 chips (8 cores)"),
        ("v5litepod-1", HardwareAmount(1, 1), "1 chip"),
        ("v6e-8", HardwareAmount(8, 8), "8 chips"),
    ],
)
def test_an_amount_is_kept_in_chips_and_in_cores(name, amount, said):
    found = claim(name=name).amount
    assert (found, str(found)) == (amount, said)


@pytest.mark.parametrize(
    ("need", "allowed", "taken", "fit"),
    [
        (HardwareAmount(8, 8), 0, HardwareAmount(), QuotaFit.NEVER),
        (HardwareAmount(8, 8), 7, HardwareAmount(), QuotaFit.NEVER),
        (HardwareAmount(8, 8), 8, HardwareAmount(), QuotaFit.YES),
        (HardwareAmount(8, 8), 16, HardwareAmount(8, 8), QuotaFit.YES),
        (HardwareAmount(8, 8), 16, HardwareAmount(9, 9), QuotaFit.NOT_NOW),
        (HardwareAmount(4, 8), 3, HardwareAmount(), QuotaFit.NEVER),
        (HardwareAmount(4, 8), 4, HardwareAmount(), QuotaFit.NOT_NOW),
        (HardwareAmount(4, 8), 7, HardwareAmount(), QuotaFit.NOT_NOW),
        (HardwareAmount(4, 8), 8, HardwareAmount(), QuotaFit.YES),
        (HardwareAmount(4, 8), 15, HardwareAmount(4, 8), QuotaFit.NOT_NOW),
    ],
)
def test_only_what_is_too_much_in_either_unit_can_never_fit(need, allowed, taken, fit):
    assert judge_fit(need, allowed, taken) is fit


@given(AMOUNTS, st.integers(0, 10_000), AMOUNTS, AMOUNTS)
def test_what_is_taken_never_makes_room_and_never_makes_it_impossible(need, allowed, some, more):
    ranks = (QuotaFit.YES, QuotaFit.NOT_NOW, QuotaFit.NEVER)
    before, after = judge_fit(need, allowed, some), judge_fit(need, allowed, some + more)
    assert ranks.index(before) <= ranks.index(after)
    assert (
        (before is QuotaFit.NEVER)
        == (after is QuotaFit.NEVER)
        == (min(need.chips, need.cores) > allowed)
    )


@given(AMOUNTS, st.integers(0, 10_000), AMOUNTS)
def test_what_fits_does_so_in_both_units(need, allowed, taken):
    sums = need.chips + taken.chips, need.cores + taken.cores
    assert (judge_fit(need, allowed, taken) is QuotaFit.YES) == (max(sums) <= allowed)


def test_what_works_and_what_only_holds_are_counted_apart_and_others_not_at_all():
    found = tally_limit(
        LIMIT,
        [
            holding(),
            holding(zone="us-east5-c", name="v6e-4"),
            holding(used=False, name="v6e-16"),
            holding(model="spot"),
            holding(zone="us-east1-d"),
            holding(name="v5p-8"),
        ],
        [],
        NOON,
    )
    assert (found.used, found.held) == (HardwareAmount(12, 12), HardwareAmount(16, 16))


# ---- how long it is believed


@pytest.mark.parametrize(
    ("age", "standing"),
    [
        (-5, LimitStanding.FRESH),
        (0, LimitStanding.FRESH),
        (DAY - 1, LimitStanding.FRESH),
        (DAY, LimitStanding.OLD),
        (40 * DAY, LimitStanding.OLD),
    ],
)
def test_a_limit_is_believed_for_a_day(age, standing):
    assert tally_limit(LIMIT, [], [], NOON + age).standing is standing


@pytest.mark.parametrize(
    ("held", "granted", "standing"),
    [
        ([], [holding(name="v6e-32", granted_at=NOON + 1)], LimitStanding.CONTRADICTED),
        ([], [holding(name="v6e-32", granted_at=NOON)], LimitStanding.FRESH),
        ([], [holding(name="v6e-16", granted_at=NOON + 1)], LimitStanding.FRESH),
        ([], [holding(name="v6e-32", model="spot", granted_at=NOON + 1)], LimitStanding.FRESH),
        ([holding(granted_at=NOON + n) for n in (-9, 1, 2)], [], LimitStanding.CONTRADICTED),
        ([holding(granted_at=NOON + n) for n in (1, 2)], [], LimitStanding.FRESH),
        ([holding(granted_at=NOON - n) for n in (1, 2, 3)], [], LimitStanding.FRESH),
        ([holding(granted_at=None) for _ in range(3)], [], LimitStanding.FRESH),
        (
            [holding(granted_at=NOON + 1), holding(used=False, name="v6e-16")],
            [],
            LimitStanding.FRESH,
        ),
    ],
)
def test_more_that_was_granted_later_contradicts_it_and_what_was_there_before_does_not(
    held, granted, standing
):
    assert tally_limit(LIMIT, held, granted, NOON + 60).standing is standing


def test_what_may_be_within_the_limit_in_one_unit_contradicts_nothing():
    limit = replace(LIMIT, generation="v5p", allowed=4)
    found = tally_limit(limit, [], [holding(name="v5p-8", granted_at=NOON + 1)], NOON + 2)
    assert found.standing is LimitStanding.FRESH


HERE, EAST_V5E = ("us-east5", "v6e", Tier.ON_DEMAND), ("us-east5", "v5e", Tier.ON_DEMAND)
POD = {"name": "v5litepod-16", "zone": "us-east5-a"}
SINGLE = {"name": "v5litepod-8", "zone": "us-east5-a"}
PODS = replace(LIMIT, generation="v5e", size=Size.POD)


@pytest.mark.parametrize(
    ("holdings", "limits", "listed"),
    [
        ([], [LIMIT], []),
        ([holding()], [], [HERE]),
        ([holding()], [LIMIT], []),
        ([holding()], [replace(LIMIT, place="us-east5-a")], [HERE]),
        ([holding()], [replace(LIMIT, tier=Tier.PREEMPTIBLE)], [HERE]),
        ([holding()], [replace(LIMIT, generation="v5e")], [HERE]),
        ([holding(**POD)], [PODS], []),
        ([holding(**POD), holding(**SINGLE)], [PODS], [EAST_V5E]),
        ([holding(), holding(**POD)], [], [EAST_V5E, HERE]),
    ],
)
def test_what_is_held_is_listed_unless_a_limit_of_the_whole_region_tells_of_it(
    holdings, limits, listed
):
    found = list_stocks("lab", holdings, limits)
    assert [(quota.place, quota.generation, quota.tier) for quota in found] == listed


def test_what_is_held_in_a_region_is_summed_over_its_zones():
    some = [holding(), holding(zone="us-east5-b"), holding(used=False, chips=4)]
    (stock,) = list_stocks("lab", some, [])
    assert (stock.project, stock.used, stock.held) == (
        "lab",
        HardwareAmount(16, 16),
        HardwareAmount(4, 4),
    )


@pytest.mark.parametrize(
    ("error", "scope"),
    [
        (QuotaExceeded("no", region="us-west4"), "us-west4"),
        (QuotaExceeded("no", zone="us-west4-a"), "us-west4-a"),
        (QuotaExceeded("no"), ""),
        (QuotaExceeded("no", region="europe-west4"), ""),
        (QuotaExceeded("no", zone="us-west4-b"), ""),
        (QuotaExceeded("no", region=7), ""),
        (CapacityUnavailable("no", region="us-west4"), ""),
    ],
)
def test_a_quota_goes_as_far_as_the_cloud_says_if_that_is_around_the_zone(error, scope):
    assert scope_of(error, "us-west4-a") == scope
