"""Plans: which hardware fits a need, in time and within money."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog import catalog
from service.domain.errors import Rejected
from service.domain.pricing.estimate import list_offers
from service.domain.pricing.sizing import Batch, Need, list_options, measure_type
from tests import factories
from tests.hands import NOON

CATALOG = catalog.load_catalog()
BOOK = factories.book(
    factories.price(1_200_000_000),
    factories.price(600_000_000, id="spot", model="spot"),
    factories.price(2_700_000_000, id="v6e", generation="v6e"),
)
V5E = "v5e"


def cheapest(accelerator, seconds):
    places = [("us-west4-a", "on_demand"), ("us-west4-a", "spot")]
    return [list_offers(accelerator, [place], BOOK, NOON, seconds)[0] for place in places]


def planned(generation=V5E, **need):
    return list_options(
        Need(**need), CATALOG.list_served(generation), CATALOG.generations, cheapest
    )


def fits(found, model="on_demand"):
    return [plan.fit.accelerator.name for plan in found if plan.offer.model == model]


def test_of_each_generation_the_smallest_that_fits_and_the_next_larger():
    assert fits(planned(chips=5)) == ["v5litepod-8", "v5litepod-16"]
    found = fits(planned(generation=None, chips=5))
    assert {"v5litepod-8", "v5litepod-16", "v6e-8", "v6e-16", "v2-32", "v2-128"} <= set(found)
    assert not {"v5litepod-4", "v5litepod-32"} & set(found)


@pytest.mark.parametrize(
    ("need", "smallest"),
    [
        ({"chips": 1}, "v5litepod-1"),
        ({"chips": 256}, "v5litepod-256"),
        ({"hbm_gib": 16}, "v5litepod-1"),
        ({"hbm_gib": 17}, "v5litepod-4"),
        ({"flops_per_second": 4 * 197 * 10**12}, "v5litepod-4"),
        ({"flops_per_second": 4 * 197 * 10**12 + 1}, "v5litepod-8"),
        ({"chips": 2, "hbm_gib": 200}, "v5litepod-16"),
    ],
)
def test_every_need_is_a_lower_bound(need, smallest):
    assert fits(planned(**need))[0] == smallest


def test_the_work_says_how_long_it_takes_rounded_up():
    (fit, *_) = (
        plan.fit for plan in planned(chips=4, flops=197 * 4 * 10**12 * 100, utilisation=50)
    )
    assert fit.seconds == 200
    (fit, *_) = (plan.fit for plan in planned(chips=4, flops=197 * 4 * 10**12 * 100 + 1))
    assert fit.seconds == 251


def test_a_type_that_comes_in_time_is_among_them_though_smaller_ones_fit():
    work = 197 * 10**12 * 64 * 3_600
    found = planned(chips=1, flops=work, utilisation=100, available=3_600)
    assert fits(found)[0] == "v5litepod-64"
    in_time = {plan.fit.accelerator.name: plan.fit.in_time for plan in found}
    assert in_time == {"v5litepod-1": False, "v5litepod-4": False, "v5litepod-64": True}


def test_work_with_a_deadline_is_need_enough():
    work = 197 * 10**12 * 64 * 3_600
    assert fits(planned(flops=work, utilisation=100, available=3_600))[0] == "v5litepod-64"


def test_what_meets_everything_comes_first_and_the_cheapest_before_the_others():
    found = planned(chips=8, seconds=3_600, spend=9_600_000_000)
    assert [
        (plan.fit.accelerator.chips, plan.offer.model, plan.cost, plan.within) for plan in found
    ] == [
        (8, "spot", 4_800_000_000, True),
        (8, "on_demand", 9_600_000_000, True),
        (16, "spot", 9_600_000_000, True),
        (16, "on_demand", 19_200_000_000, False),
    ]


def test_what_has_no_known_price_is_last_and_nobody_says_that_it_is_within():
    found = planned(generation=None, chips=8, seconds=3_600, spend=10**12)
    unpriced = [plan.cost is None for plan in found]
    assert unpriced == sorted(unpriced)
    assert any(unpriced)
    assert {plan.within for plan in found if plan.cost is None} == {None}


def test_without_a_duration_the_money_says_how_long_it_does():
    found = planned(chips=8, spend=19_200_000_000)
    dearest = next(plan for plan in found if plan.offer.model == "on_demand")
    assert (dearest.cost, dearest.lasts, dearest.within) == (None, 7_200, True)


def test_the_money_lasts_by_the_prices_that_are_in_force_meanwhile():
    rise = factories.price(2_400_000_000, id="rise", effective_from=NOON + 3_600)
    book = factories.book(factories.price(1_200_000_000), rise)

    def there(accelerator, seconds):
        return list_offers(accelerator, [("us-west4-a", "on_demand")], book, NOON, seconds)

    known = CATALOG.list_served(V5E), CATALOG.generations, there
    asked = list_options(Need(chips=8, spend=19_200_000_000), *known)
    assert (asked[0].fit.accelerator.name, asked[0].lasts) == ("v5litepod-8", 5_400)
    (first, *_) = list_options(Need(chips=8, seconds=7_200, spend=28_800_000_000), *known)
    assert (first.cost, first.within) == (28_800_000_000, True)
    with pytest.raises(Rejected, match="is closest"):
        list_options(Need(chips=8, seconds=7_200, spend=28_799_999_999), *known)


def test_a_deadline_alone_is_how_long_it_runs():
    (first, *_) = planned(chips=8, available=7_200)
    assert (first.fit.seconds, first.fit.in_time, first.cost) == (7_200, True, 9_600_000_000)


@pytest.mark.parametrize(
    ("chips", "batch"),
    [(4, Batch(8, even=True)), (8, Batch(4, even=True)), (64, Batch(1, even=False))],
)
def test_a_smaller_slice_accumulates_gradients(chips, batch):
    need = Need(chips=chips, global_batch=256, per_chip_batch=8)
    accelerator = CATALOG.choose_accelerator(V5E, chips=chips)
    assert measure_type(need, accelerator, CATALOG.generations[V5E]).batch == batch


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 10**4))
def test_the_steps_are_the_fewest_that_hold_the_batch(whole, each, chips):
    need = Need(chips=1, global_batch=whole, per_chip_batch=each)
    batch = measure_type(
        need, CATALOG.choose_accelerator(V5E, chips=8), CATALOG.generations[V5E]
    ).batch
    assert batch is not None
    assert (batch.steps - 1) * 8 * each < whole <= batch.steps * 8 * each
    assert batch.even == (whole == batch.steps * 8 * each)
    assert chips >= 1


@given(
    chips=st.integers(0, 300),
    hbm=st.integers(1, 5_000),
    flops=st.integers(1, 10**24),
    utilisation=st.integers(1, 100),
)
def test_whatever_is_planned_fits_and_its_duration_is_the_shortest_that_does_the_work(
    chips, hbm, flops, utilisation
):
    need = {"chips": chips, "hbm_gib": hbm, "flops": flops, "utilisation": utilisation}
    if chips > 256 or hbm > 256 * 16:
        with pytest.raises(Rejected, match="v5litepod-256 is closest"):
            planned(**need)
        return
    found = planned(**need)
    for plan in found:
        assert plan.fit.accelerator.chips >= chips
        assert plan.fit.hbm_gib >= hbm
        speed = Fraction(plan.fit.flops_per_second * utilisation, 100)
        assert plan.fit.seconds is not None
        assert speed * (plan.fit.seconds - 1) < flops <= speed * plan.fit.seconds


@pytest.mark.parametrize(
    ("need", "said"),
    [
        ({}, "give what is needed"),
        ({"flops": 10**20}, "or flops with a deadline"),
        ({"available": 60}, "give what is needed"),
        ({"chips": 8, "flops": 1, "seconds": 1}, "flops or duration_seconds, not both"),
        ({"chips": 8, "available": 0}, "deadline has passed"),
        ({"chips": 8, "global_batch": 8}, "go together"),
        ({"chips": 8, "per_chip_batch": 8}, "go together"),
    ],
)
def test_a_need_that_makes_no_sense_is_refused(need, said):
    with pytest.raises(Rejected, match=said):
        planned(**need)


@pytest.mark.parametrize(
    ("need", "closest", "said"),
    [
        ({"chips": 257}, "v5litepod-256", "no accelerator type has 257 chips"),
        ({"hbm_gib": 4_097}, "v5litepod-256", "4097 GiB of HBM"),
        (
            {"chips": 8, "flops": 10**30, "available": 60},
            "v5litepod-256",
            "no hardware does it in 60",
        ),
        ({"chips": 8, "seconds": 3_600, "spend": 1}, "v5litepod-8", "for 0.000000001 dollars"),
        (
            {"chips": 8, "flops": 197 * 10**15, "available": 900, "spend": 1},
            "v5litepod-8",
            "in 900 seconds for 0.000000001 dollars",
        ),
        ({"chips": 8, "seconds": 90, "available": 60}, "v5litepod-8", "no hardware does it in 60"),
    ],
)
def test_what_nothing_can_meet_is_refused_with_what_comes_closest(need, closest, said):
    with pytest.raises(Rejected, match=said) as caught:
        planned(**need)
    assert caught.value.facts["closest"] == closest


def test_a_generation_that_nobody_serves_has_nothing_that_comes_closest():
    with pytest.raises(Rejected, match="no such hardware"):
        planned(generation="v7", chips=8)


def test_a_model_that_is_sold_nowhere_is_said_so():
    with pytest.raises(Rejected, match="sold that way"):
        list_options(Need(chips=8), CATALOG.list_served(V5E), CATALOG.generations, lambda *_: [])
