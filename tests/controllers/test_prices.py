"""The price list through the real controller: what it changes in the book and in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.controllers.prices import PricesController
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR, parse_rfc3339
from service.domain.errors import CloudUnavailable, LeaseLost, Rejected
from service.domain.money import half_even
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import Price, PriceBook, Sku
from service.domain.pricing.skus import COMPUTE_ENGINE, PriceTier, SkuFacts
from service.store.pricebook import HasPrices, PriceBookCache
from tests import factories
from tests.controllers.conftest import Lab
from tests.fakes import OutsideTransactions
from tests.hands import NOON

SPOT = Sku("v5e", "spot", "us-west4")
WAS = 577_900_000
"""Nano-dollars for one v5e chip-hour as spot in us-west4, in the prices that ship."""


def spot(nanos: int, at: int, **changes: Any) -> SkuFacts:
    """The price list's word on v5e as spot in us-west4."""
    base = SkuFacts(
        service=COMPUTE_ENGINE,
        id="AAAA-BBBB-CCCC",
        description="TpuV5e attached to Spot Preemptible VMs running in Las Vegas",
        usage_type="Preemptible",
        regions=("us-west4",),
        unit="h",
        tiers=(PriceTier("0", "USD", *divmod(nanos, 1_000_000_000)),),
        effective_at=at,
    )
    return replace(base, **changes)


@dataclass
class FakeFeed:
    """A price list that a test writes."""

    found: list[SkuFacts] = field(default_factory=list)
    broken: Exception | None = None
    times_read: int = 0

    def list_skus(self) -> Sequence[SkuFacts]:
        """What the test wrote, or what it broke."""
        self.times_read += 1
        if self.broken is not None:
            raise self.broken
        return self.found


@pytest.fixture
def feed() -> FakeFeed:
    return FakeFeed()


@pytest.fixture
def prices(lab: Lab, feed: FakeFeed) -> PricesController:
    return controller(lab, feed)


def controller(lab: Lab, feed: FakeFeed, every: int = DAY) -> PricesController:
    outside: Any = OutsideTransactions(feed, lab.engine)  # type: ignore[arg-type]
    return PricesController(lab.units, outside, PriceBookCache(), lab.clock, every)


def entered(lab: Lab) -> Sequence[Price]:
    with lab.units.reading() as unit:
        return unit.prices.list_all()


def test_a_spot_price_that_changes_cuts_the_interval_that_runs(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    node = lab.up(provisioning_model=ProvisioningModel.SPOT)
    ready = node.ready_at or 0
    lab.tick(2 * HOUR + 123)
    changed = lab.clock() - 60
    feed.found = [spot(750_000_000, changed)]
    prices.tick(lab.lease)
    lab.tick(3 * HOUR + 77)
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)
    deleted = lab.clock()
    lab.tick(50)
    exact = 8 * (WAS * (changed - ready) + 750_000_000 * (deleted - changed))
    assert lab.posted(node) == lab.cost(node) == half_even(exact, HOUR)
    (new,) = entered(lab)
    seconds: Counter[str] = Counter()
    for line in lab.nodes.list_ledger_lines(node.id, 0, 1_000):
        seconds[line.price_id] += line.chip_seconds
    assert seconds[new.id] == 8 * (deleted - changed)
    assert seconds.total() == 8 * (deleted - ready)
    assert len(seconds) == 2


def test_a_change_that_is_read_late_is_charged_since_google_charges_it(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    node = lab.up(provisioning_model=ProvisioningModel.SPOT)
    ready = node.ready_at or 0
    lab.tick(5 * HOUR)
    before = lab.nodes.list_ledger_lines(node.id, 0, 1_000)
    changed = NOON + 2 * HOUR + 7
    feed.found = [spot(750_000_000, changed)]
    prices.tick(lab.lease)
    lab.metering.tick(lab.lease)
    after = lab.nodes.list_ledger_lines(node.id, 0, 1_000)
    assert after[: len(before)] == before, "corrected by new lines"
    exact = 8 * (WAS * (changed - ready) + 750_000_000 * (lab.clock() - changed))
    assert lab.cost(node) == half_even(exact, HOUR)
    (new,) = entered(lab)
    assert new.effective_from == changed
    assert "2026-11-05T14:00:07Z" in new.source


@pytest.mark.concurrent
@pytest.mark.deep
def test_a_gap_is_filled_by_the_list_or_by_hand_and_never_by_both(
    lab: Lab, feed: FakeFeed, prices: PricesController, monkeypatch: pytest.MonkeyPatch
) -> None:
    taiwan = {"description": "TpuV6e running in Taiwan", "regions": ("asia-east1",)}
    feed.found = [spot(3_000_000_000, NOON - 2 * DAY, usage_type="OnDemand", **taiwan)]
    manual = factories.price(generation="v6e", region="asia-east1", effective_from=NOON - DAY)
    wanted, adds, book = [manual], list[Future[object]](), PriceBookCache.get_book

    def meanwhile(cache: PriceBookCache, unit: HasPrices) -> PriceBook:
        found = book(cache, unit)
        if wanted:
            adds.append(pool.submit(lab.prices.add, wanted.pop()))
            wait(adds, timeout=1)
        return found

    monkeypatch.setattr(PriceBookCache, "get_book", meanwhile)
    with ThreadPoolExecutor(1) as pool:
        prices.tick(lab.lease)
    with pytest.raises(Rejected, match="a price is known"):
        adds[0].result()


def test_what_ran_at_no_known_price_is_charged_from_its_first_second_once_one_is_listed(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    node = lab.up(accelerator_type="v6e-8", zone="asia-east1-c")
    ready = node.ready_at or 0
    lab.tick(2 * HOUR)
    assert lab.nodes.get_cost(node.id).unpriced_seconds == lab.clock() - ready
    assert lab.cost(node) == 0
    taiwan = {"description": "TpuV6e running in Taiwan", "regions": ("asia-east1",)}
    feed.found = [spot(3_000_000_000, NOON - 90 * DAY, usage_type="OnDemand", **taiwan)]
    prices.tick(lab.lease)
    lab.tick(HOUR)
    assert lab.nodes.get_cost(node.id).unpriced_seconds == 0
    assert lab.cost(node) == half_even(8 * 3_000_000_000 * (lab.clock() - ready), HOUR)
    (price,) = entered(lab)
    assert price.effective_from == parse_rfc3339("2026-11-01T00:00:00Z")


def test_a_second_reading_adds_nothing_by_whichever_daemon(lab: Lab, feed: FakeFeed) -> None:
    feed.found = [spot(750_000_000, NOON - DAY)]
    for _ in range(2):
        controller(lab, feed).tick(lab.lease)
        lab.clock.pass_(HOUR)
    assert len(entered(lab)) == 1
    assert feed.times_read == 2


def test_the_list_is_read_once_a_day_whatever_the_number_of_projects(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    for _ in range(3):
        prices.tick(lab.lease)
    lab.clock.pass_(DAY - 1)
    prices.tick(lab.lease)
    assert feed.times_read == 1
    lab.clock.pass_(1)
    prices.tick(lab.lease)
    assert feed.times_read == 2


def test_a_list_that_cannot_be_read_is_asked_for_again_and_changes_nothing(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    feed.broken = CloudUnavailable("away")
    with pytest.raises(CloudUnavailable):
        prices.tick(lab.lease)
    feed.broken, feed.found = None, [spot(750_000_000, NOON - DAY)]
    prices.tick(lab.lease)
    assert len(entered(lab)) == 1


def test_without_its_lease_a_daemon_changes_no_price(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    lost = lab.lease
    lab.start_daemon("second")
    feed.found = [spot(750_000_000, NOON - DAY)]
    with pytest.raises(LeaseLost):
        prices.tick(lost)
    assert entered(lab) == []
    prices.tick(lab.lease)
    assert len(entered(lab)) == 1


def test_a_price_entered_by_hand_stands_until_the_list_has_a_later_one(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    ours = Price("", "v5e", "spot", "chip_hour", "us-west4", 400_000_000, 0, "ours", "manual")
    lab.prices.add(ours)
    feed.found = [spot(750_000_000, NOON - 1)]
    prices.tick(lab.lease)
    assert len(entered(lab)) == 1
    feed.found = [spot(760_000_000, NOON + HOUR)]
    lab.clock.pass_(DAY)
    with capture_logs() as logs:
        prices.tick(lab.lease)
    (said,) = [line for line in logs if line["event"] == "price.changed"]
    assert said["replaces_manual"]
    assert (said["usd_before"], said["usd"]) == ("0.400000000", "0.760000000")


def test_the_list_is_held_against_the_list_price_whatever_was_negotiated(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    lab.prices.discounts.add(Discount("", "v5e", "spot", 100_000, 0, None, "ours"))
    feed.found = [spot(WAS, NOON - DAY)]
    prices.tick(lab.lease)
    assert entered(lab) == []


def test_what_changed_and_what_was_not_understood_is_said(
    lab: Lab, feed: FakeFeed, prices: PricesController
) -> None:
    alike = "Capacity Optimized TpuV5e running in Las Vegas"
    feed.found = [
        spot(750_000_000, NOON - DAY),
        spot(1, NOON, id="NEW", description="TpuV9 running in Las Vegas"),
        spot(1, NOON, description=alike),
    ]
    with capture_logs() as logs:
        prices.tick(lab.lease)
    changed, unknown, summary = logs
    assert (changed["event"], changed["usd_before"], changed["usd"]) == (
        *("price.changed", "0.577900000", "0.750000000"),
    )
    assert (unknown["event"], unknown["sku"]) == ("price.not_understood", "NEW")
    assert unknown["reason"]
    assert summary["event"] == "prices.read"
    assert (summary["understood"], summary["changed"], summary["not_understood"]) == (1, 1, 1)
    assert summary["sold_in_other_ways"] == {"capacity optimized": 1}


def test_an_empty_list_changes_nothing_and_is_warned_of(lab: Lab, prices: PricesController) -> None:
    with capture_logs() as logs:
        prices.tick(lab.lease)
    assert [(line["event"], line["log_level"]) for line in logs] == [("prices.read", "warning")]
    assert entered(lab) == []


def test_a_discount_cuts_the_interval_that_runs_and_its_early_end_cuts_it_again(lab: Lab) -> None:
    node = lab.up()
    ready = node.ready_at or 0
    lab.tick(HOUR + 17)
    began = lab.clock()
    half = lab.prices.discounts.add(Discount("", "", "", 500_000, 0, None, "our contract")).discount
    lab.tick(2 * HOUR + 5)
    ended = lab.clock()
    lab.prices.discounts.end_early(half.id, None)
    lab.tick(3 * HOUR)
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)
    deleted = lab.clock()
    lab.tick(50)
    full = (began - ready) + (deleted - ended)
    exact = 8 * (1_200_000_000 * full + 600_000_000 * (ended - began))
    assert lab.posted(node) == lab.cost(node) == half_even(exact, HOUR)
    listed = half_even(8 * 1_200_000_000 * (deleted - ready), HOUR)
    assert lab.nodes.get_cost(node.id).list_cost == listed
