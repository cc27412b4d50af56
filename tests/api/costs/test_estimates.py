"""What hardware would cost, asked over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from service.application.budgets.shares import BudgetShares
from service.application.pricing.estimates import Caller, EstimateService, OfferShare
from service.domain.budgets.admission import hold_for
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY
from service.domain.money import half_even
from service.domain.nodes.request import RequestedNode
from service.domain.pricing.estimate import PriceOffer
from service.domain.time_window import Window
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.hands import NOON


def estimate(client, **body):
    return client.post("/v1/estimates", json={"accelerator_type": "v5litepod-16"} | body)


def test_an_estimate_is_by_place_and_model_with_the_price_it_stands_on(client):
    answer = estimate(client, zone="us-west4-a", provisioning_model="on_demand", ttl_seconds=1_800)
    assert answer.status_code == 200
    (offer,) = answer.json().pop("estimates")
    price = offer.pop("price")
    assert offer == {
        "zone": "us-west4-a",
        "region": "us-west4",
        "provisioning_model": "on_demand",
        "hourly_cost": "19.200000000",
        "cost": "9.600000000",
    }
    assert (price["usd"], price["unit"]) == ("1.200000000", "chip_hour")
    assert price["source"]


def test_the_cheapest_come_first_and_the_unpriced_last(client):
    found = estimate(client).json()
    costs = [offer["hourly_cost"] for offer in found["estimates"]]
    priced = [cost for cost in costs if cost is not None]
    assert (found["chips"], found["duration_seconds"]) == (16, 3_600)
    assert found["as_of"] == "2026-11-05T12:00:00Z"
    assert costs == priced + [None] * (len(costs) - len(priced))
    assert [float(cost) for cost in priced] == sorted(float(cost) for cost in priced)
    assert {offer["provisioning_model"] for offer in found["estimates"]} >= {"on_demand", "spot"}


def test_what_has_no_known_price_is_not_free(client):
    offers = estimate(client, accelerator_type="v6e-8", provisioning_model="reserved").json()
    unpriced = [offer for offer in offers["estimates"] if offer["price"] is None]
    assert all(offer["cost"] is None and offer["hourly_cost"] is None for offer in unpriced)


def test_a_price_that_was_entered_counts_at_once(client, clock):
    body = {"generation": "v5e", "provisioning_model": "on_demand", "region": "us-west4"}
    assert client.post("/v1/prices", json=body | {"usd": "2"}).status_code == 201
    assert clock() == NOON
    (offer, *_) = estimate(client, zone="us-west4-a", provisioning_model="on_demand").json()[
        "estimates"
    ]
    assert offer["hourly_cost"] == "32.000000000"


def test_a_price_that_begins_within_the_duration_counts_from_then_on(client):
    body = {"generation": "v5e", "provisioning_model": "on_demand", "region": "us-west4"}
    later = body | {"usd": "2", "effective_from": "2026-11-05T13:00:00Z"}
    assert client.post("/v1/prices", json=later).status_code == 201
    wanted = {"zone": "us-west4-a", "provisioning_model": "on_demand", "ttl_seconds": 7_200}
    (offer,) = estimate(client, **wanted).json()["estimates"]
    assert (offer["hourly_cost"], offer["cost"]) == ("19.200000000", "51.200000000")
    assert offer["price"]["usd"] == "1.200000000"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"accelerator_type": "v5litepod-17"}, "did you mean v5litepod-16"),
        ({"accelerator_type": None}, "give the hardware"),
        ({"zone": "us-west4-a", "regions": ["us-west4"]}, "at most one of"),
        ({"duration_seconds": 0}, "greater than 0"),
        ({"duration_seconds": 60, "ttl_seconds": 60}, "duration_seconds or ttl_seconds, not both"),
        ({"provisioning_model": "free"}, "'spot'"),
        ({"model": "spot"}, "unknown field 'model'"),
    ],
)
def test_an_estimate_of_what_cannot_be_is_refused(client, body, said):
    answer = estimate(client, **body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_flex_start_is_among_the_offers_only_where_it_is_sold(client):
    offers = estimate(client, accelerator_type="v6e-8").json()["estimates"]
    flexible = {offer["zone"] for offer in offers if offer["provisioning_model"] == "flex_start"}
    zones = client.get("/v1/catalog/zones?generation=v6e").json()["zones"]
    sold = {
        zone["name"]
        for zone in zones
        for generation in zone["generations"]
        if generation["generation"] == "v6e" and generation["flex_start"]
    }
    assert flexible == sold
    assert flexible < {offer["zone"] for offer in offers}


def test_flex_start_is_offered_for_no_longer_than_it_may_run(client):
    week = 7 * 86_400
    everything = estimate(client, accelerator_type="v6e-8", duration_seconds=week + 1).json()
    assert not [x for x in everything["estimates"] if x["provisioning_model"] == "flex_start"]
    body = {"accelerator_type": "v6e-8", "provisioning_model": "flex_start"}
    assert estimate(client, **body, duration_seconds=week).status_code == 200
    refused = estimate(client, **body, duration_seconds=week + 1)
    assert refused.status_code == 422
    assert "at most 604800 seconds (7 days)" in refused.json()["detail"]


class OneBudget:
    """A budget of a hundred dollars, of which thirty are spent."""

    def __init__(self) -> None:
        self.asked: list[tuple[Caller, int | None]] = []

    def list_shares(self, caller: Caller, offer: PriceOffer, now: int) -> Sequence[OfferShare]:
        self.asked.append((caller, offer.cost))
        whole = Window(now, now + 10 * DAY)
        held = hold_for(offer.cuts, offer.chips, offer.seconds).remaining_cost(whole, now)
        budget = factories.budget(amount=100 * 10**9)
        return [OfferShare(budget, whole.end, 30 * 10**9, offer.cost or 0, held)]


@pytest.mark.parametrize(
    ("seconds", "percent", "left", "fits"),
    [
        (3_600, 10, "60.400000000", True),
        (26_190, 70, "0.160000000", True),
        (26_191, 70, "0.157333333", False),
        (28_800, 77, "-6.800000000", False),
    ],
)
def test_an_estimate_says_what_the_cheapest_offer_takes_of_the_callers_budgets(
    client, services, units, clock, seconds, percent, left, fits
):
    budgets = OneBudget()
    estimates = EstimateService(units, PriceBookCache(), clock, budgets)
    client.app.state.services = replace(services, estimates=estimates)
    body = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}
    asked = {"provisioning_model": "on_demand", "duration_seconds": seconds}
    (share,) = estimate(client, **body, **asked, labels={"run": "17"}).json()["budgets"]
    assert (share["percent"], share["left"], share["fits"]) == (percent, left, fits)
    cost = half_even(seconds * 9_600_000_000, 3_600)
    assert budgets.asked == [(Caller(team="vision", labels={"run": "17"}), cost)]


def test_where_no_price_is_known_no_share_is(units, clock):
    budgets = OneBudget()
    service = EstimateService(units, PriceBookCache(), clock, budgets)
    request = RequestedNode(accelerator_type="v2-8")
    found = service.estimate(request, ProvisioningModel.RESERVED, caller=Caller(team="vision"))
    assert {offer.cost for offer in found.offers} == {None}
    assert (found.shares, budgets.asked) == ((), [])


def with_budgets(client, services, units, clock):
    shares = BudgetShares(services.budgets)
    estimates = EstimateService(units, PriceBookCache(), clock, shares, factories.PROJECT)
    client.app.state.services = replace(services, estimates=estimates)


def share_of(client, **changes):
    asked = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}
    asked |= {"provisioning_model": "on_demand"}
    return estimate(client, **(asked | changes)).json()["budgets"]


def put(client, **changes):
    body = {"name": "b", "amount": "20", "period": "month", "scope": {"team": "vision"}} | changes
    answer = client.post("/v1/budgets", json=body)
    assert answer.status_code == 201, answer.text


def launch(client, seconds):
    """A node of the same kind is asked for; the answer."""
    asked = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}
    return client.post("/v1/nodes", json={"name": "n", **asked, "ttl_seconds": seconds})


def test_every_budget_that_covers_the_caller_says_its_part_the_tightest_first(
    client, services, units, clock
):
    with_budgets(client, services, units, clock)
    assert share_of(client) == []
    put(client, name="wide", amount="500")
    put(client, name="tight", on_exceeded="refuse")
    found, wide = share_of(client, duration_seconds=3_600)
    assert (wide["name"], wide["left"], wide["fits"]) == ("wide", "490.400000000", True)
    del found["budget_id"]
    assert found == {
        "name": "tight",
        "on_exceeded": "refuse",
        "ends_at": "2026-12-01T00:00:00Z",
        "amount": "20.000000000",
        "used": "0.000000000",
        "cost": "9.600000000",
        "left": "10.400000000",
        "percent": 48,
        "fits": True,
    }
    assert share_of(client, team="nlp") == []


def test_a_day_that_has_less_left_hides_no_month_that_would_refuse(client, services, units, clock):
    with_budgets(client, services, units, clock)
    clock.pass_(10 * 3_600)  # two hours before midnight
    put(client, name="day", amount="20", period="day", on_exceeded="refuse")
    put(client, name="month", amount="40", on_exceeded="refuse")
    month, day = share_of(client, duration_seconds=5 * 3_600)
    assert (month["name"], month["left"], month["fits"]) == ("month", "-8.000000000", False)
    assert (day["name"], day["left"], day["fits"]) == ("day", "0.800000000", True)
    refused = launch(client, 5 * 3_600)
    assert refused.status_code == 403
    assert "'month'" in refused.json()["detail"]


def test_a_budget_that_only_tells_hides_none_that_would_refuse(client, services, units, clock):
    with_budgets(client, services, units, clock)
    put(client, name="tells", amount="5")
    put(client, name="refuses", amount="9", on_exceeded="refuse")
    found = share_of(client, duration_seconds=3_600)
    said = [(budget["name"], budget["on_exceeded"], budget["fits"]) for budget in found]
    assert said == [("tells", "notify", False), ("refuses", "refuse", False)]
    assert launch(client, 3_600).status_code == 403


def test_the_budget_of_the_project_counts_where_none_is_named(client, services, units, clock):
    with_budgets(client, services, units, clock)
    put(client, scope={"project": factories.PROJECT}, amount="5", on_exceeded="refuse")
    (found,) = share_of(client, duration_seconds=3_600)
    assert (found["name"], found["fits"]) == ("b", False)
    assert share_of(client, project=factories.PROJECT, duration_seconds=3_600) == [found]
    assert share_of(client, project="other", duration_seconds=3_600) == []
    assert launch(client, 3_600).status_code == 403


@pytest.mark.parametrize(
    ("amount", "fits"), [("19.360000000", True), ("19.359999999", False), ("19.2", False)]
)
def test_what_an_estimate_says_to_fit_is_what_a_budget_that_refuses_lets_in(
    client, services, units, clock, amount, fits
):
    with_budgets(client, services, units, clock)
    body = {"name": "b", "amount": amount, "period": "month", "scope": {"team": "vision"}}
    body |= {"on_exceeded": "refuse"}
    assert client.post("/v1/budgets", json=body).status_code == 201
    (share,) = share_of(client, duration_seconds=7_200)
    assert (share["cost"], share["fits"]) == ("19.200000000", fits)
    asked = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}
    answer = client.post("/v1/nodes", json={"name": "n", **asked, "ttl_seconds": 7_200})
    assert answer.status_code == (201 if fits else 403), answer.text


def test_of_what_outlives_the_period_only_its_part_counts(client, services, units, clock):
    with_budgets(client, services, units, clock)
    clock.pass_(10 * 3_600)  # two hours before midnight
    body = {"name": "b", "amount": "19.2", "period": "day", "scope": {"team": "vision"}}
    body |= {"on_exceeded": "refuse"}
    assert client.post("/v1/budgets", json=body).status_code == 201
    (share,) = share_of(client, duration_seconds=5 * 3_600)
    assert (share["cost"], share["left"]) == ("19.200000000", "0.000000000")
    assert (share["percent"], share["fits"]) == (100, True)
    asked = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "team": "vision"}
    answer = client.post("/v1/nodes", json={"name": "n", **asked, "ttl_seconds": 5 * 3_600})
    assert answer.status_code == 201, answer.text


def test_without_budgets_no_shares_are_told(client):
    assert estimate(client, zone="us-west4-a", team="vision").json()["budgets"] == []


def test_an_estimate_of_slices_is_of_all_of_them_and_fits_as_the_request_does(
    client, services, units, clock
):
    with_budgets(client, services, units, clock)
    budget = {"amount": "500", "period": "month", "on_exceeded": "refuse", "name": "sweeps"}
    assert client.post("/v1/budgets", json=budget).status_code == 201
    terms = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", "ttl_seconds": 28_800}
    model = {"provisioning_model": "on_demand"}
    for slices, fits in ((1, True), (16, False)):
        found = estimate(client, **terms, **model, slices=slices).json()
        (offer,), (share,) = found["estimates"], found["budgets"]
        assert (found["slices"], found["chips"]) == (slices, 8 * slices)
        assert float(offer["hourly_cost"]) == 9.6 * slices
        assert share["fits"] is fits
        wanted = {"name": f"sweep-{slices}", "slices": slices, **terms, **model}
        assert (client.post("/v1/nodes", json=wanted).status_code == 201) is fits
    assert estimate(client, slices=0).status_code == 422
