"""SKUs: which descriptions are the price of a TPU, and what looks like one and is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.pricing.price_book import Sku
from service.domain.pricing.skus import (
    CLOUD_TPU,
    COMPUTE_ENGINE,
    PriceTier,
    SkuFacts,
    SkuQuote,
    UnreadSku,
    is_about_tpus,
    read_skus,
)

SINCE = 1_786_060_800


def facts(description: str = "TpuV6e running in Columbus", **changes) -> SkuFacts:
    """A SKU of Compute Engine in one region, at 2.70 dollars an hour."""
    base = SkuFacts(
        service=COMPUTE_ENGINE,
        id="AAAA-BBBB-CCCC",
        description=description,
        usage_type="OnDemand",
        regions=("us-east5",),
        unit="h",
        tiers=(PriceTier("0", "USD", 2, 700_000_000),),
        effective_at=SINCE,
    )
    return replace(base, **changes)


def legacy(description: str, units: int = 8, nanos: int = 0, **changes) -> SkuFacts:
    """A SKU of the service of TPUs' own, whose usage type is OnDemand whatever it is."""
    tiers = (PriceTier("0", "USD", units, nanos),)
    return facts(description, service=CLOUD_TPU, regions=("us-central1",), tiers=tiers, **changes)


def quote_of(one: SkuFacts) -> SkuQuote:
    reading = read_skus([one])
    assert (reading.look_alikes, reading.refused) == ((), ())
    (quote,) = reading.quotes
    return quote


@pytest.mark.parametrize(
    ("description", "usage_type", "generation", "model"),
    [
        ("TpuV4 running in Oklahoma", "OnDemand", "v4", "on_demand"),
        ("TpuV5e running in Las Vegas", "OnDemand", "v5e", "on_demand"),
        ("TpuV5p running in Sao Paulo", "OnDemand", "v5p", "on_demand"),
        ("TpuV6e running in Dallas", "OnDemand", "v6e", "on_demand"),
        ("TPU7x running in Americas", "OnDemand", "v7", "on_demand"),
        (
            "TpuV6e attached to Spot Preemptible VMs running in Columbus",
            *("Preemptible", "v6e", "spot"),
        ),
        (
            "TPU7x attached to Spot Preemptible VMs running in Americas",
            *("Preemptible", "v7", "spot"),
        ),
        ("DWS Defined Duration V5e running in Las Vegas", "OnDemand", "v5e", "flex_start"),
        ("DWS Defined Duration V6e running in Columbus", "OnDemand", "v6e", "flex_start"),
        ("DWS Defined Duration TPU7x running in Americas", "OnDemand", "v7", "flex_start"),
        ("Reserved TpuV5p in Delhi in Calendar Mode", "OnDemand", "v5p", "calendar"),
        ("Reserved V6e TPU in Columbus in Calendar Mode", "OnDemand", "v6e", "calendar"),
        ("Reserved TPU7x in Americas in Calendar Mode", "OnDemand", "v7", "calendar"),
    ],
)
def test_a_description_from_its_first_letter_says_what_is_priced(
    description, usage_type, generation, model
):
    quote = quote_of(facts(description, usage_type=usage_type))
    assert quote.sku == Sku(generation, model, "us-east5")
    assert (quote.nanos, quote.effective_at) == (2_700_000_000, SINCE)
    assert (quote.sku_id, quote.description) == ("AAAA-BBBB-CCCC", description)


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ("Capacity Optimized TpuV6e running in Columbus", "capacity optimized"),
        ("Commitment v1: TpuV6e running in Columbus for 1 Year", "commitment"),
        ("Commitment v1: TPU7x running in London for 3 Years", "commitment"),
    ],
)
def test_the_same_chip_sold_in_another_way_is_told_apart_and_counted(description, said):
    reading = read_skus([facts(description)])
    assert (reading.quotes, reading.refused) == ((), ())
    (one,) = reading.look_alikes
    assert one.description == description
    assert said in one.reason


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (facts("A TpuV6e running in Columbus"), "described"),
        (facts("TpuV9 running in Columbus"), "described"),
        (facts("TpuV6e"), "described"),
        (facts("Reserved TpuV6e running in Columbus"), "described"),
        (facts("Reserved V6e in Columbus in Calendar Mode"), "described"),
        (facts("Reserved V6e TPU in Columbus in Calendar Mode", usage_type="Commit1Yr"), "usage"),
        (facts("tpuv6e running in Columbus"), "described"),
        (facts("TpuV6e running in Columbus", usage_type="Preemptible"), "usage type"),
        (facts("TpuV6e running in Columbus", usage_type="Commit1Yr"), "usage type"),
        (facts("TpuV6e attached to Spot Preemptible VMs running in Columbus"), "usage type"),
        (facts(service="0000-0000-0000"), "sells no TPUs"),
        (facts(service=CLOUD_TPU), "described"),
        (facts("Tpu-v2 Pod Accelerator USA"), "described"),
        (legacy("Tpu-v5 Accelerator USA"), "described"),
        (legacy("Tpu-v4 Accelerator USA"), "for a device alone"),
        (legacy("Tpu-v2 Accelerator USA", usage_type="Commit1Yr"), "usage type"),
        (legacy("Tpu-v2 Accelerator USA", nanos=1), "whole number"),
        (legacy("Tpu-v2 Pod Accelerator USA", nanos=2), "whole number"),
        (facts(effective_at=None), "no start date"),
        (facts(unit="mo"), "'mo', not by the hour"),
        (facts(unit=""), "not by the hour"),
        (facts(tiers=()), "0 tiers"),
        (facts(tiers=(PriceTier("0", "USD", 2, 0), PriceTier("100", "USD", 1, 0))), "2 tiers"),
        (facts(tiers=(PriceTier("100", "USD", 2, 0),)), "usage of 100"),
        (facts(tiers=(PriceTier("0", "EUR", 2, 0),)), "EUR, not in USD"),
        (facts(tiers=(PriceTier("0", "", 2, 0),)), "no currency, not in USD"),
        (facts(tiers=(PriceTier("0", "USD", 0, 0),)), "cannot be"),
        (facts(tiers=(PriceTier("0", "USD", -1, -500_000_000),)), "cannot be"),
        (facts(tiers=(PriceTier("0", "USD", 3, -500_000_000),)), "cannot be"),
        (facts(tiers=(PriceTier("0", "USD", 0, 1_000_000_000),)), "cannot be"),
        (facts(tiers=(PriceTier("0", "USD", 100_001, 0),)), "more than any chip costs"),
        (facts(regions=()), "names no region"),
        (facts(regions=("us-east5", "global")), "'global' is no region"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_reason(one, said):
    reading = read_skus([one])
    assert (reading.quotes, reading.look_alikes) == ((), ())
    (refused,) = reading.refused
    assert said in refused.reason


@pytest.mark.parametrize(
    ("description", "units", "nanos", "sku", "each"),
    [
        ("TPU-v2 Accelerator USA", 4, 500_000_000, ("v2", "on_demand", True), 4_500_000_000),
        (
            "Preemptible TPU-v2 Accelerator USA",
            *(1, 262_250_000, ("v2", "spot", True), 1_262_250_000),
        ),
        ("Tpu-v3 Accelerator USA", 8, 0, ("v3", "on_demand", True), 8_000_000_000),
        ("Tpu-v2 Pod Accelerator USA", 6, 0, ("v2", "on_demand", False), 1_500_000_000),
        (
            "Tpu-v2 Pod Preemptible Accelerator USA",
            *(1, 530_000_000, ("v2", "spot", False), 382_500_000),
        ),
        ("Tpu-v4 Pod Accelerator USA", 12, 880_000_000, ("v4", "on_demand", False), 3_220_000_000),
        (
            "Tpu-v4 Pod Preemptible Accelerator USA",
            *(3, 686_000_000, ("v4", "spot", False), 921_500_000),
        ),
    ],
)
def test_the_older_service_sells_by_eight_cores_which_are_four_chips(
    description, units, nanos, sku, each
):
    generation, model, single = sku
    quote = quote_of(legacy(description, units, nanos))
    assert quote.sku == Sku(generation, model, "us-central1", single)
    assert quote.nanos == each


def test_one_sku_is_the_price_of_every_region_it_is_sold_in():
    regions = ("us-west1", "us-central1", "us-east1", "us-east1")
    reading = read_skus([facts("TPU7x running in Americas", regions=regions)])
    assert [quote.sku.region for quote in reading.quotes] == ["us-central1", "us-east1", "us-west1"]


def test_two_skus_that_agree_on_a_price_are_one():
    old = legacy("Tpu-v4 Pod Accelerator USA", 12, 880_000_000)
    new = facts(
        "TpuV4 running in Iowa",
        id="NEW",
        regions=("us-central1",),
        tiers=(PriceTier("0", "USD", 3, 220_000_000),),
        effective_at=SINCE - 1,
    )
    for order in ([old, new], [new, old]):
        (quote,) = read_skus(order).quotes
        assert (quote.nanos, quote.sku_id) == (3_220_000_000, "NEW")


def test_two_skus_that_differ_in_a_price_give_none_and_name_each_other():
    other = facts("TpuV6e running in Ohio", id="OTHER", tiers=(PriceTier("0", "USD", 3, 0),))
    reading = read_skus([facts(), other, facts("TpuV5e running in Columbus", id="THIRD")])
    assert [quote.sku.generation for quote in reading.quotes] == ["v5e"]
    said = "says another price for v6e on_demand in us-east5"
    assert reading.refused == (
        UnreadSku("AAAA-BBBB-CCCC", "TpuV6e running in Columbus", f"OTHER {said}"),
        UnreadSku("OTHER", "TpuV6e running in Ohio", f"AAAA-BBBB-CCCC {said}"),
    )


@given(st.integers(0, 99_999), st.integers(0, 999_999_999))
def test_a_price_is_kept_to_the_nano_dollar(units, nanos):
    reading = read_skus([facts(tiers=(PriceTier("0", "USD", units, nanos),))])
    assert [quote.nanos for quote in reading.quotes] == (
        [units * 1_000_000_000 + nanos] if units or nanos else []
    )


@given(st.text(max_size=60))
def test_no_description_is_an_error_and_none_is_lost(description):
    reading = read_skus([facts(description)])
    assert len(reading.quotes) + len(reading.look_alikes) + len(reading.refused) == 1


@pytest.mark.parametrize(
    ("group", "description", "is_one"),
    [
        ("TPU", "DWS Defined Duration V6e running in Columbus", True),
        ("", "Commitment v1: TpuV6e running in Columbus for 1 Year", True),
        ("", "Reserved V6e TPU in Columbus in Calendar Mode", True),
        ("CPU", "N1 Predefined Instance Core running in Iowa", False),
        ("", "Batch output written in Iowa", False),
    ],
)
def test_only_what_is_about_tpus_is_looked_at(group, description, is_one):
    assert is_about_tpus(group, description) is is_one
