"""The price list: the right SKU of a chip among those that look like it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import billing_v1
from google.cloud.billing_v1.services.cloud_catalog.transports import CloudCatalogGrpcTransport

from service.emulator.config.telemetry_settings import Prices
from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from service.emulator.telemetry.skus import COMPUTE, list_skus
from tests.emulator.factories import Cloud, configured
from tests.emulator.google_clients import packaged

SERVICE, LEGACY = f"services/{COMPUTE}", "services/E000-3F24-B8AA"


def skus(cloud: Cloud, parent: str = SERVICE, **fields) -> dict[str, Any]:
    found = cloud.ask("ListSkus", parent=parent, **fields).skus
    return {each.description: each for each in found}


def money(price) -> Decimal:
    return price.units + Decimal(price.nanos) / 10**9


def usd(sku) -> Decimal:
    expression = sku.pricing_info[-1].pricing_expression
    return money(expression.tiered_rates[0].unit_price)


def refusal(cloud: Cloud, **fields) -> Code:
    with pytest.raises(ApiError) as caught:
        cloud.ask("ListSkus", **{"parent": SERVICE, **fields})
    return caught.value.code


COLUMBUS = {
    "TpuV6e running in Columbus": ("OnDemand", "2.7"),
    "TpuV6e attached to Spot Preemptible VMs running in Columbus": ("Preemptible", "1.4033"),
    "DWS Defined Duration V6e running in Columbus": ("OnDemand", "1.35"),
    "Reserved V6e TPU in Columbus in Calendar Mode": ("OnDemand", "1.89"),
    "Commitment v1: TpuV6e running in Columbus for 1 Year": ("Commit1Yr", "1.89"),
    "Commitment v1: TpuV6e running in Columbus for 3 Years": ("Commit3Yr", "1.215"),
    "Capacity Optimized TpuV6e running in Columbus": ("OnDemand", "2.7"),
}


def test_one_chip_in_one_region_is_sold_in_seven_ways(cloud):
    found = {
        description: (sku.category.usage_type, str(usd(sku)))
        for description, sku in skus(cloud).items()
        if "V6e" in description and "us-east5" in sku.service_regions
    }
    assert {key: (kind, str(Decimal(price))) for key, (kind, price) in found.items()} == COLUMBUS


PRICES = {
    "TpuV5e running in Americas": "1.2",
    "TpuV5e running in Dallas": "1.416",
    "TpuV5e running in Netherlands": "1.56",
    "TpuV5e attached to Spot Preemptible VMs running in Las Vegas": "0.5779",
    "TpuV5p running in Columbus": "4.2",
    "TpuV5p attached to Spot Preemptible VMs running in Americas": "0.78049",
    "Reserved TpuV5p in Delhi in Calendar Mode": "2.94",
    "TpuV6e running in Tokyo": "3.24",
    "TpuV6e attached to Spot Preemptible VMs running in Netherlands": "1.782",
    "TpuV4 running in Oklahoma": "3.22",
    "TPU7x running in Americas": "12",
    "Commitment v1: TPU7x running in London for 3 Years": "5.94",
}


@pytest.mark.parametrize(("description", "price"), PRICES.items(), ids=PRICES)
def test_the_prices_are_those_that_were_seen(cloud, description, price):
    assert usd(skus(cloud)[description]) == Decimal(price)


def test_one_sku_may_be_sold_in_several_regions(cloud):
    sku = skus(cloud)["TPU7x running in Americas"]
    assert set(sku.service_regions) == {"us-west1", "us-central1", "us-east1"}
    assert sku.sku_id == "0F71-4391-B6CA"
    assert sku.geo_taxonomy.type_ == billing_v1.GeoTaxonomy.Type.MULTI_REGIONAL


def test_no_two_skus_have_one_id():
    ids = [sku.id for sku in list_skus(COMPUTE, Prices())]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}", each) for each in ids)


def test_a_sku_is_priced_by_the_hour_and_named_in_full(cloud):
    sku = skus(cloud)["TpuV6e running in Columbus"]
    (pricing,) = sku.pricing_info
    assert sku.name == f"{SERVICE}/skus/{sku.sku_id}"
    assert (sku.category.resource_group, sku.category.service_display_name) == (
        "TPU",
        "Compute Engine",
    )
    assert pricing.pricing_expression.usage_unit == "h"
    assert pricing.pricing_expression.base_unit_conversion_factor == 3600


def test_tpus_are_few_among_many(cloud):
    groups = [sku.category.resource_group for sku in skus(cloud).values()]
    assert 200 < groups.count("TPU") < len(groups) - 400


def test_the_older_service_sells_devices_and_calls_spot_by_its_description_alone(cloud):
    found = skus(cloud, LEGACY)
    assert usd(found["TPU-v2 Accelerator USA"]) == Decimal("4.5")
    assert usd(found["Tpu-v4 Pod Accelerator USA"]) == Decimal("12.88")
    preemptible = [sku for key, sku in found.items() if "Preemptible" in key]
    assert len(preemptible) > 5
    assert {sku.category.usage_type for sku in preemptible} == {"OnDemand"}
    assert not any("V5" in key or "V6" in key for key in found)


def test_pages_are_walked_to_the_end(cloud):
    everything, token = [], ""
    while True:
        page = cloud.ask("ListSkus", parent=SERVICE, page_size=100, page_token=token)
        everything += [sku.sku_id for sku in page.skus]
        token = page.next_page_token
        if not token:
            break
    assert everything == [sku.sku_id for sku in skus(cloud).values()]
    assert len(everything) > 600


def test_a_spot_price_changes_from_its_moment_on(cloud):
    name = "TpuV6e attached to Spot Preemptible VMs running in Columbus"
    change = {"generation": "v6e", "region": "us-east5", "usd": "1.75", "at": cloud.now + 100}
    control.change_config(cloud.world, {"prices": {"spot_price_changes": [change]}})
    assert usd(skus(cloud)[name]) == Decimal("1.4033")
    before = skus(cloud)[name].pricing_info[0].effective_time.seconds
    cloud.wait(100)
    after = skus(cloud)
    assert usd(after[name]) == Decimal("1.75")
    assert after[name].pricing_info[0].effective_time.seconds == int(cloud.now) > before
    assert usd(after["TpuV6e running in Columbus"]) == Decimal("2.7")


def test_a_change_in_one_region_moves_the_sku_of_all_its_regions():
    change = {"generation": "v6e", "region": "us-east1", "usd": 0.5, "at": "2027-01-01T00:00:00Z"}
    cloud = configured(prices={"spot_price_changes": [change]})
    sku = skus(cloud)["TpuV6e attached to Spot Preemptible VMs running in Americas"]
    assert usd(sku) == Decimal("0.5")
    assert "us-central1" in sku.service_regions


def test_a_span_of_time_shows_every_price_of_it(cloud):
    span: dict[str, Any] = {
        "start_time": {"seconds": 1_760_000_000},
        "end_time": {"seconds": int(cloud.now)},
    }
    sku = skus(cloud, **span)["TpuV6e attached to Spot Preemptible VMs running in Columbus"]
    prices = [
        money(each.pricing_expression.tiered_rates[0].unit_price) for each in sku.pricing_info
    ]
    times = [each.effective_time.seconds for each in sku.pricing_info]
    assert [str(price.normalize()) for price in prices] == ["1.215", "1.27575", "1.4033"]
    assert times == sorted(times)


@pytest.mark.parametrize(("listed_at", "units", "nanos"), [("0", 0, 0), ("-1.5", -1, -500_000_000)])
def test_the_list_may_say_what_is_absurd(listed_at, units, nanos):
    cloud = configured(prices={"listed": {"TpuV6e running in Columbus": listed_at}})
    sku = skus(cloud)["TpuV6e running in Columbus"]
    price = sku.pricing_info[0].pricing_expression.tiered_rates[0].unit_price
    assert (price.units, price.nanos) == (units, nanos)
    by_id = configured(prices={"listed": {sku.sku_id: "1e12"}})
    assert usd(skus(by_id)["TpuV6e running in Columbus"]) == Decimal(10) ** 12


def test_another_currency_has_other_figures(cloud):
    sku = skus(cloud, currency_code="EUR")["TpuV6e running in Columbus"]
    (pricing,) = sku.pricing_info
    assert pricing.pricing_expression.tiered_rates[0].unit_price.currency_code == "EUR"
    assert usd(sku) == Decimal("2.7") * Decimal("0.92")
    assert pricing.currency_conversion_rate == 0.92


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"currency_code": "XXX"}, Code.INVALID_ARGUMENT),
        ({"parent": "services/0000-0000-0000"}, Code.NOT_FOUND),
        ({"parent": "skus"}, Code.INVALID_ARGUMENT),
        ({"start_time": {"seconds": 1}}, Code.INVALID_ARGUMENT),
        ({"start_time": {"seconds": 2}, "end_time": {"seconds": 1}}, Code.INVALID_ARGUMENT),
        ({"start_time": {"seconds": 2}, "end_time": {"seconds": 10**16}}, Code.INVALID_ARGUMENT),
        ({"page_size": -1}, Code.INVALID_ARGUMENT),
        ({"page_token": "x"}, Code.INVALID_ARGUMENT),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(cloud, fields, code):
    assert refusal(cloud, **fields) is code


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"listed": {"x": "cheap"}}, "x must be a price in USD"),
        ({"listed": {"x": float("nan")}}, "x must be a price in USD"),
        ({"listed": {"x": True}}, "x must be a price in USD"),
        ({"listed": []}, "listed must be a JSON object"),
        ({"spot_price_changes": [{"generation": "v6e"}]}, "needs a generation and a region"),
        ({"spot_price_changes": [{"colour": 1}]}, "unknown spot price change colour"),
        ({"spot_price_changes": {}}, "spot_price_changes must be a list"),
        (
            {"spot_price_changes": [{"generation": "v6e", "region": "r", "usd": 1, "at": "noon"}]},
            "at must be unix seconds or RFC 3339",
        ),
    ],
)
def test_prices_that_make_no_sense_are_refused(cloud, patch, text):
    with pytest.raises(ApiError, match=re.escape(text)):
        control.change_config(cloud.world, {"prices": patch})


def test_a_sku_knows_whether_it_is_spot():
    kinds = {sku.is_spot for sku in list_skus(COMPUTE, Prices())}
    assert kinds == {True, False}


@contextmanager
def over_grpc(emulator):
    with grpc.insecure_channel(emulator.grpc_address) as channel:
        yield billing_v1.CloudCatalogClient(transport=CloudCatalogGrpcTransport(channel=channel))


@contextmanager
def over_rest(emulator):
    with billing_v1.CloudCatalogClient(
        transport="rest",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": emulator.rest_url},
    ) as client:
        yield client


@pytest.mark.parametrize("connect", [over_grpc, over_rest])
def test_googles_client_reads_the_list(emulator, connect):
    with connect(emulator) as client:
        names = {each.name: each.display_name for each in client.list_services()}
        assert (names[SERVICE], names[LEGACY]) == ("Compute Engine", "Cloud TPU")
        pager = client.list_skus(request={"parent": SERVICE, "page_size": 300})
        pages = [len(page.skus) for page in pager.pages]
        assert pages[:2] == [300, 300]
        (sku,) = (
            each
            for each in client.list_skus(parent=SERVICE)
            if each.description == "TpuV6e running in Columbus"
        )
        assert usd(sku) == Decimal("2.7")
        with pytest.raises(exceptions.NotFound):
            client.list_skus(parent="services/0000-0000-0000")


def test_the_discovery_client_finds_the_zeros_of_a_price(emulator, web):
    web.ask("PATCH", "/_emulator/config", {"prices": {"listed": {"TPU-v2 Accelerator USA": 0}}})
    with packaged(emulator.rest_url, "cloudbilling", "v1") as service:
        answer = service.services().skus().list(parent=LEGACY, pageSize=5000).execute()
    (sku,) = (each for each in answer["skus"] if each["skuId"] == "3B3D-4CB4-AECC")
    (rate,) = sku["pricingInfo"][-1]["pricingExpression"]["tieredRates"]
    assert rate["unitPrice"] == {"currencyCode": "USD", "units": "0", "nanos": 0}
    assert rate["startUsageAmount"] == 0
