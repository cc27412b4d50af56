"""What to commit to, from usage and prices over a real database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.application.pricing.recommendations import CommitmentAdvice, RecommendationService
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.commitments.recommendation import Recommendation
from service.domain.metering.meter import Evidence
from service.domain.pricing.discounts import Discount
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.commitments import commitment
from tests.hands import NOON
from tests.store import given as there

TODAY = floor_to(NOON, DAY)
DOLLAR = 1_000_000_000


@pytest.fixture
def service(units, clock):
    """What asks the books."""
    return RecommendationService(units, PriceBookCache(), clock)


def ran(units: Any, start: int, end: int | None, zone: str = "us-west4-a", **sku: Any) -> None:
    """A node of eight chips that was charged for these seconds."""
    node = there.stored(units)
    usage = factories.usage(
        node_id=node.id,
        chips=8,
        zone=zone,
        start=start,
        start_hi=start,
        posted_until=start,
        end=end,
        end_lo=end,
        end_evidence=None if end is None else Evidence.OPERATION,
    )
    priced = {"region": zone.rpartition("-")[0], **sku}
    with units() as unit:
        unit.usage.save(replace(usage, sku=replace(usage.sku, **priced)))


def advised(
    service: RecommendationService, **asked: Any
) -> dict[tuple[str, str], CommitmentAdvice]:
    """What is told, by generation and region."""
    found = service.list_advices(**asked).places
    return {(term.generation, term.region): term for term in found}


def one_year(advice: CommitmentAdvice) -> Recommendation:
    return advice.terms[0]


def test_use_on_demand_is_told_by_generation_and_region_and_no_other_use(service, units):
    ran(units, TODAY - 100 * DAY, None)
    ran(units, TODAY - 100 * DAY, None)
    ran(units, TODAY - 100 * DAY, TODAY, "us-central1-a")
    ran(units, TODAY - 100 * DAY, TODAY, model="spot")
    ran(units, TODAY - 100 * DAY, TODAY, model="reserved")
    found = advised(service)
    assert found.keys() == {("v5e", "us-central1"), ("v5e", "us-west4")}
    west = found["v5e", "us-west4"]
    assert [term.chips for term in west.terms] == [16, 16]
    assert [term.rates.years for term in west.terms] == [1, 3]
    assert one_year(found["v5e", "us-central1"]).chips == 8


def test_the_prices_are_those_of_the_terms_and_of_demand(service, units):
    ran(units, TODAY - 100 * DAY, None)
    one, three = advised(service)["v5e", "us-west4"].terms
    assert (one.rates.on_demand, one.rates.committed) == (1_200_000_000, 840_000_000)
    assert three.rates.committed == 540_000_000
    assert (one.rates.break_even, three.rates.break_even) == (700_000, 450_000)
    assert one.saving == 8 * 730 * 360_000_000


def test_a_discount_on_demand_moves_the_break_even(service, units):
    discount = Discount("d", "v5e", "on_demand", 250_000, 0, None, "contract")
    ran(units, TODAY - 100 * DAY, None)
    before = one_year(advised(service)["v5e", "us-west4"])
    with units() as unit:
        unit.prices.add_discount(discount, 0)
    after = one_year(advised(service)["v5e", "us-west4"])
    assert (before.rates.break_even, after.rates.break_even) == (700_000, 933_333)
    assert after.rates.committed == before.rates.committed
    assert after.saving < before.saving


def test_today_does_not_count_and_older_days_than_asked_for_neither(service, units):
    for day in range(30, 60):
        ran(units, TODAY - day * DAY, TODAY - (day - 1) * DAY)
    ran(units, TODAY, None)
    assert service.list_advices(28).places == ()
    whole = service.list_advices(40)
    assert (whole.days, whole.end) == (40, TODAY)
    (advice,) = whole.places
    assert advice.course.extremes == [(8, 8)] * 11 + [(0, 0)] * 29


def test_fewer_full_days_than_28_give_no_recommendation(service, units):
    ran(units, TODAY - 20 * DAY - HOUR, None)
    found = service.list_advices()
    assert found.days == 20
    assert [term.reason for term in found.places[0].terms] == [
        "20 full days of use are known; a recommendation needs 28"
    ] * 2


def test_before_the_first_use_there_is_nothing_to_tell(service):
    found = service.list_advices()
    assert (found.places, found.days, found.start) == ((), 0, TODAY)


def test_chips_that_are_committed_already_are_taken_off_until_their_term_is_over(
    service, units, clock
):
    ran(units, TODAY - 200 * DAY, None)
    ran(units, TODAY - 200 * DAY, None)
    over = commitment(id="c-0", name="old", start=NOON - 365 * DAY)
    with units() as unit:
        unit.commitments.add(over)
        unit.commitments.add(commitment(chips=10, region="us-west4"))
        unit.commitments.add(commitment(id="c-2", name="far", region="us-east1"))
        unit.commitments.add(commitment(id="c-3", name="wrong", chips=5, generation="v6e"))
    place = "v5e", "us-west4"
    clock.now = over.end - 1
    assert one_year(advised(service)[place]).chips == 0
    clock.now = over.end
    assert one_year(advised(service)[place]).chips == 6
    with units() as unit:
        unit.commitments.withdraw("c-1", "never bought", NOON)
    assert one_year(advised(service)[place]).chips == 16


def test_what_is_priced_by_the_device_cannot_be_committed(service, units):
    ran(units, TODAY - 100 * DAY, None, "us-central1-a", generation="v2")
    assert service.list_advices().places == ()


def test_a_generation_without_a_committed_price_says_so(service, units):
    ran(units, TODAY - 100 * DAY, None, "nowhere-east1-a")
    (advice,) = service.list_advices().places
    assert one_year(advice).reason == "the price book has no on-demand price"


def test_what_was_free_is_no_use_that_could_be_committed(service, units):
    ran(units, TODAY - 100 * DAY, None)
    with units() as unit:
        (usage,) = unit.usage.list_open()
        unit.usage.save(replace(usage, free="first_minute"))
    assert service.list_advices().places == ()
