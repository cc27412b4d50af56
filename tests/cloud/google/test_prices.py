"""Google's own catalogue client, mocked for what it says and against the emulator for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pytest
import requests
from google.api_core import exceptions
from google.cloud import billing_v1

from service.cloud.google.channel import open_channel
from service.cloud.google.prices import PAGE_SIZE, GooglePrices, catalog_client, from_message
from service.cloud.google.retries import PATIENT
from service.domain.clock import parse_rfc3339
from service.domain.errors import CloudUnavailable, NotAllowed, RateLimited
from service.domain.pricing.price_book import PriceBook, Sku
from service.domain.pricing.shipped_prices import embedded_prices
from service.domain.pricing.skus import SERVICES, PriceTier, SkuFacts, SkusRead, read_skus
from service.emulator.app import Emulator, run_in_thread
from tests.hands import NOON

COLUMBUS = Sku("v6e", "spot", "us-east5")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with run_in_thread() as started:
        yield started


@pytest.fixture
def feed(emulator: Emulator) -> Iterator[GooglePrices]:
    """Our adapter over a channel of its own, the emulator as if it were new."""
    requests.post(f"{emulator.rest_url}/_emulator/reset", json={}, timeout=10).raise_for_status()
    channel = open_channel(emulator.grpc_address)
    yield GooglePrices(catalog_client(channel), replace(PATIENT, listing=PATIENT.read))
    channel.close()


def set_prices(emulator: Emulator, **prices: Any) -> None:
    url = f"{emulator.rest_url}/_emulator/config"
    requests.patch(url, json={"prices": prices}, timeout=10).raise_for_status()


def quoted(reading: SkusRead) -> dict[Sku, int]:
    return {quote.sku: quote.nanos for quote in reading.quotes}


def test_the_emulators_whole_list_is_understood(feed: GooglePrices) -> None:
    found = feed.list_skus()
    reading = read_skus(found)
    assert {facts.service for facts in found} == set(SERVICES)
    assert reading.refused == ()
    assert len(reading.look_alikes) > 100
    assert {quote.sku.generation for quote in reading.quotes} == {
        *("v2", "v3", "v4", "v5e", "v5p", "v6e", "v7")
    }
    assert {quote.sku.model for quote in reading.quotes} == {
        *("on_demand", "spot", "flex_start", "calendar")
    }


def test_nothing_but_tpus_is_read(feed: GooglePrices) -> None:
    assert not [f for f in feed.list_skus() if "Core" in f.description or "GPU" in f.description]


@pytest.mark.parametrize(
    ("sku", "nanos"),
    [
        (Sku("v6e", "on_demand", "us-east5"), 2_700_000_000),
        (COLUMBUS, 1_403_300_000),
        (Sku("v6e", "flex_start", "us-east5"), 1_350_000_000),
        (Sku("v6e", "calendar", "us-east5"), 1_890_000_000),
        (Sku("v5p", "calendar", "asia-south2"), 2_940_000_000),
        (Sku("v5p", "on_demand", "europe-west1"), 4_459_455_000),
        (Sku("v7", "on_demand", "us-east1"), 12_000_000_000),
        (Sku("v7", "on_demand", "us-west1"), 12_000_000_000),
        (Sku("v4", "on_demand", "us-central2"), 3_220_000_000),
        (Sku("v4", "spot", "us-central2"), 921_500_000),
        (Sku("v2", "on_demand", "us-central1", single_device=True), 4_500_000_000),
        (Sku("v2", "on_demand", "us-central1"), 1_500_000_000),
        (Sku("v2", "spot", "europe-west4", single_device=True), 1_262_250_000),
        (Sku("v2", "spot", "europe-west4"), 382_500_000),
        (Sku("v3", "on_demand", "us-east1", single_device=True), 8_000_000_000),
        (Sku("v3", "spot", "europe-west4"), 660_000_000),
    ],
)
def test_a_price_is_the_one_that_is_listed(feed: GooglePrices, sku: Sku, nanos: int) -> None:
    assert quoted(read_skus(feed.list_skus()))[sku] == nanos


def test_what_ships_with_the_service_differs_in_the_one_price_that_was_never_seen_there(
    feed: GooglePrices,
) -> None:
    """v3 in us-east1 was taken over by hand once; the list has had one price for the USA since."""
    book = PriceBook(embedded_prices())
    differing = {
        (quote.sku, quote.nanos, known.nanos)
        for quote in read_skus(feed.list_skus()).quotes
        if (known := book.find_listed(quote.sku, NOON)) and known.nanos != quote.nanos
    }
    known_late = Sku("v3", "spot", "us-east1", single_device=True)
    assert differing == {(known_late, 2_040_000_000, 2_400_000_000)}


def test_a_spot_price_that_changed_is_read_with_its_instant(
    emulator: Emulator, feed: GooglePrices
) -> None:
    before = next(quote for quote in read_skus(feed.list_skus()).quotes if quote.sku == COLUMBUS)
    assert before.effective_at == parse_rfc3339("2026-08-07T00:00:00Z")
    at = before.effective_at + 3_600
    change = {"generation": "v6e", "region": "us-east5", "usd": "1.75", "at": at}
    set_prices(emulator, spot_price_changes=[change])
    after = next(quote for quote in read_skus(feed.list_skus()).quotes if quote.sku == COLUMBUS)
    assert (after.nanos, after.effective_at) == (1_750_000_000, at)


@pytest.mark.parametrize("absurd", ["0", "-1.5", "1000000"])
def test_a_price_that_cannot_be_is_told_and_not_taken(
    emulator: Emulator, feed: GooglePrices, absurd: str
) -> None:
    set_prices(emulator, listed={"TpuV6e running in Columbus": absurd})
    reading = read_skus(feed.list_skus())
    assert [refusal.description for refusal in reading.refused] == ["TpuV6e running in Columbus"]
    assert Sku("v6e", "on_demand", "us-east5") not in quoted(reading)


def test_a_list_that_breaks_off_gives_nothing_and_says_what_to_do(
    emulator: Emulator, feed: GooglePrices
) -> None:
    fault = {"rpc": "ListSkus", "action": "error", "code": "RESOURCE_EXHAUSTED", "times": 1}
    url = f"{emulator.rest_url}/_emulator/faults"
    requests.post(url, json=fault, timeout=10).raise_for_status()
    with pytest.raises(RateLimited):
        feed.list_skus()


# ---- what the mock knows


@pytest.fixture
def client() -> Any:
    return create_autospec(billing_v1.CloudCatalogClient, instance=True, spec_set=True)


def test_every_call_asks_for_dollars_with_a_timeout_and_tries_again(client: Any) -> None:
    client.list_skus.return_value.pages = iter(())
    assert GooglePrices(client).list_skus() == []
    calls = [call.kwargs for call in client.list_skus.call_args_list]
    assert [call["request"].parent for call in calls] == [
        f"services/{service}" for service in SERVICES
    ]
    assert {call["request"].currency_code for call in calls} == {"USD"}
    assert {call["request"].page_size for call in calls} == {PAGE_SIZE}
    assert {call["timeout"] for call in calls} == {PATIENT.listing.timeout}
    assert {call["retry"] for call in calls} == {PATIENT.listing.retry}


@pytest.mark.parametrize(
    ("raised", "meant"),
    [
        (exceptions.ServiceUnavailable("away"), CloudUnavailable),
        (exceptions.PermissionDenied("the API is not enabled"), NotAllowed),
    ],
)
def test_what_goes_wrong_is_said_in_our_words(client: Any, raised: Any, meant: Any) -> None:
    client.list_skus.side_effect = raised
    with pytest.raises(meant):
        GooglePrices(client).list_skus()


def test_a_later_page_that_fails_fails_the_whole(client: Any) -> None:
    def pages() -> Iterator[Any]:
        yield billing_v1.ListSkusResponse(next_page_token="2")
        raise exceptions.ServiceUnavailable("away")

    client.list_skus.return_value.pages = pages()
    with pytest.raises(CloudUnavailable):
        GooglePrices(client).list_skus()


def test_a_list_that_leads_back_is_left(client: Any) -> None:
    page = billing_v1.ListSkusResponse(next_page_token="1")
    client.list_skus.return_value.pages = iter([page, page, page])
    with pytest.raises(CloudUnavailable, match="does not end"):
        GooglePrices(client).list_skus()


def test_the_last_of_the_listed_prices_counts() -> None:
    def info(units: int, at: int) -> dict[str, Any]:
        price = {"currency_code": "USD", "units": units, "nanos": 5}
        rates = [{"unit_price": price, "start_usage_amount": 0}]
        return {
            "effective_time": {"seconds": at},
            "pricing_expression": {"usage_unit": "h", "tiered_rates": rates},
        }

    sku = billing_v1.Sku(
        sku_id="S",
        description="TpuV6e running in Columbus",
        category={"usage_type": "OnDemand"},
        service_regions=["us-east5"],
        pricing_info=[info(1, 10), info(2, 20)],
    )
    assert from_message("service", billing_v1.Sku.pb(sku)) == SkuFacts(
        "service",
        "S",
        "TpuV6e running in Columbus",
        "OnDemand",
        ("us-east5",),
        "h",
        (PriceTier("0", "USD", 2, 5),),
        20,
    )


def test_a_sku_that_says_nothing_is_read_all_the_same() -> None:
    facts = from_message("service", billing_v1.Sku.pb(billing_v1.Sku()))
    assert facts == SkuFacts("service", "", "", "", (), "", (), None)
