"""The catalogue: names, sizes, topologies and places."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog import catalog
from service.domain.catalog.accelerators import normalize_name
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.zones import region_of
from service.domain.errors import NotOffered, Rejected, UnknownAcceleratorType

CATALOG = catalog.load_catalog()
SERVED = CATALOG.list_served()


@pytest.mark.parametrize(
    ("name", "chips", "hosts", "chips_per_host", "topology"),
    [
        ("v2-8", 4, 1, 4, "2x2"),
        ("v3-32", 16, 4, 4, "4x4"),
        ("v4-8", 4, 1, 4, "2x2x1"),
        ("v4-6144", 3_072, 768, 4, "12x16x16"),
        ("v5litepod-1", 1, 1, 1, "1x1"),
        ("v5litepod-8", 8, 1, 8, "2x4"),
        ("v5litepod-16", 16, 4, 4, "4x4"),
        ("v5p-128", 64, 16, 4, "4x4x4"),
        ("v6e-8", 8, 1, 8, "2x4"),
        ("v6e-256", 256, 64, 4, "16x16"),
    ],
)
def test_a_name_stands_for_chips_hosts_and_a_topology(name, chips, hosts, chips_per_host, topology):
    found = CATALOG.get_accelerator(name)
    assert (found.chips, found.hosts, found.chips_per_host) == (chips, hosts, chips_per_host)
    assert found.topology == topology
    assert found.single_host is (hosts == 1)


@pytest.mark.parametrize("one", SERVED, ids=lambda one: one.name)
def test_the_figures_of_a_type_agree_with_each_other(one):
    cores = CATALOG.get_generation(one.generation).tensorcores_per_chip * one.chips
    assert one.chips == one.hosts * one.chips_per_host
    assert one.cores == cores
    assert one.size == (one.chips if one.generation in {"v5e", "v6e"} else one.cores)
    assert one.topology in one.topologies
    assert {math.prod(map(int, t.split("x"))) for t in one.topologies} == {one.chips}


def test_the_api_has_a_place_for_every_type_it_serves():
    assert all(CATALOG.zones_for(accelerator) for accelerator in SERVED)


@pytest.mark.parametrize(
    ("wrong", "closest"),
    [
        ("v5e-16", ["v5litepod-16"]),
        ("v5litepod16", ["v5litepod-16"]),
        ("V6E_8", ["v6e-8"]),
        ("trillium-64", ["v6e-64"]),
        ("tpu-v4-8", ["v4-8"]),
        ("v4-12", ["v4-8", "v4-16"]),
        ("v4-4", ["v4-8", "v4-16"]),
        ("v5e-512", ["v5litepod-256", "v5litepod-128"]),
        ("v4-8192", ["v4-6144", "v4-6016"]),
        ("banana", []),
        ("", []),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_closest_ones(wrong, closest):
    with pytest.raises(UnknownAcceleratorType) as refused:
        CATALOG.get_accelerator(wrong)
    assert refused.value.facts["closest"] == closest
    assert all(name in str(refused.value) for name in closest)


def test_a_slip_of_the_pen_is_answered_by_what_looks_alike():
    with pytest.raises(UnknownAcceleratorType) as refused:
        CATALOG.get_accelerator("v5litpod-16")
    closest: Any = refused.value.facts["closest"]
    assert "v5litepod-16" in closest


@pytest.mark.parametrize("name", ["tpu7x-8", "v7x-8", "v7-8", "ironwood-16", "tpu7x-5"])
def test_tpu7x_is_refused_with_the_products_that_have_it(name):
    with pytest.raises(UnknownAcceleratorType, match="not served by the Cloud TPU API") as refused:
        CATALOG.get_accelerator(name)
    assert refused.value.facts == {"closest": [], "served_by": ["GKE", "Compute Engine"]}


@given(st.text(max_size=200).filter(lambda text: text not in CATALOG.accelerators))
def test_no_text_at_all_breaks_the_search_for_a_name(text):
    with pytest.raises(UnknownAcceleratorType) as refused:
        CATALOG.get_accelerator(text)
    assert len(str(refused.value)) < 500


@given(st.sampled_from(SERVED))
def test_googles_own_spelling_stays_as_it_is(one):
    assert normalize_name(one.name) == one.name


@given(st.sampled_from(SERVED))
def test_a_type_is_found_again_by_its_chips_and_by_each_of_its_topologies(one):
    assert CATALOG.choose_accelerator(one.generation, chips=one.chips) == one
    for topology in one.topologies:
        assert CATALOG.choose_accelerator(one.generation, topology=topology) == one


@pytest.mark.parametrize(
    ("generation", "chips", "closest"),
    [
        ("v5e", 2, ["v5litepod-1", "v5litepod-4"]),
        ("v3", 8, ["v3-8", "v3-32"]),
        ("v5p", 0, ["v5p-8", "v5p-16"]),
        ("v6e", 10_000, ["v6e-256", "v6e-128"]),
    ],
)
def test_a_chip_count_that_no_type_has_is_refused_with_those_there_are(generation, chips, closest):
    with pytest.raises(UnknownAcceleratorType) as refused:
        CATALOG.choose_accelerator(generation, chips=chips)
    assert refused.value.facts["closest"] == closest
    assert refused.value.facts["chips"] == [
        accelerator.chips for accelerator in CATALOG.list_served(generation)
    ]


@pytest.mark.parametrize(
    ("generation", "topology", "closest", "named"),
    [
        ("v5p", "8x4x4", ["v5p-256"], ["4x4x8"]),
        ("v4", "2x4x8", ["v4-128"], ["4x4x4"]),
        ("v5e", "3x3", [], ["1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"]),
        ("v5e", "4x", [], ["1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"]),
        ("v5e", "²x4", [], ["1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"]),
    ],
)
def test_a_topology_that_no_type_has_is_refused_with_those_there_are(
    generation, topology, closest, named
):
    with pytest.raises(UnknownAcceleratorType) as refused:
        CATALOG.choose_accelerator(generation, topology=topology)
    assert refused.value.facts == {"closest": closest, "topologies": named}


def test_a_topology_is_read_in_either_case():
    assert CATALOG.choose_accelerator("v4", topology=" 4X8x4 ").name == "v4-256"


@pytest.mark.parametrize("size", [{}, {"chips": 16, "topology": "4x4"}])
def test_a_size_is_said_in_exactly_one_way(size):
    with pytest.raises(Rejected, match="exactly one of chips and topology"):
        CATALOG.choose_accelerator("v5e", **size)


def test_a_generation_that_is_none_is_refused_with_those_there_are():
    with pytest.raises(Rejected) as refused:
        CATALOG.choose_accelerator("v5litepod", chips=16)
    assert refused.value.facts["generations"] == ["v2", "v3", "v4", "v5e", "v5p", "v6e", "v7"]


def test_a_generation_the_api_does_not_serve_is_refused_with_who_does():
    with pytest.raises(UnknownAcceleratorType, match="GKE or Compute Engine"):
        CATALOG.choose_accelerator("v7", chips=4)


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-central1-a", "us-central1"),
        ("us-south1-ai1b", "us-south1"),
        ("northamerica-northeast1-b", "northamerica-northeast1"),
    ],
)
def test_a_zone_names_its_region(zone, region):
    assert region_of(zone) == region


V4, V5E, V6E = map(CATALOG.get_accelerator, ("v4-8", "v5litepod-16", "v6e-8"))


@pytest.mark.parametrize(
    ("accelerator", "place", "candidates"),
    [
        (V4, {}, ("us-central2-b",)),
        (V4, {"zone": "us-central2-b"}, ("us-central2-b",)),
        (V5E, {"zones": ["us-west4-a", "us-east1-c"]}, ("us-west4-a", "us-east1-c")),
        (V5E, {"zones": ["us-west4-a", "us-west4-a"]}, ("us-west4-a",)),
        (V5E, {"regions": ["us-west4", "us-west1"]}, ("us-west4-a", "us-west4-b", "us-west1-c")),
        (V5E, {"regions": ["us-west1", "us-west1"]}, ("us-west1-c",)),
        (V4, {"regions": ["us-west4", "us-central2"]}, ("us-central2-b",)),
        (V6E, {"regions": ["us-south1"]}, ("us-south1-a", "us-south1-ai1b", "us-south1-c")),
        (V5E, {"model": ProvisioningModel.FLEX_START}, ("us-central1-a", "us-west4-a")),
    ],
)
def test_candidates_come_in_the_order_in_which_they_were_named(accelerator, place, candidates):
    assert CATALOG.candidate_zones(accelerator, **place) == candidates


def test_with_no_place_named_the_documented_zones_are_tried_first():
    documented = ("us-central1-a", "us-south1-a", "us-west1-c", "us-west4-a")
    assert CATALOG.candidate_zones(V5E)[:4] == documented
    assert set(CATALOG.candidate_zones(V5E)) == set(CATALOG.zones_for(V5E))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"zone": "us-central1-a"}, "v4-8 is not offered in us-central1-a"),
        ({"zone": "mars-north1-a"}, "no TPU is known in mars-north1-a"),
        ({"zones": ["us-central2-b", "us-east1-c"]}, "not offered in us-east1-c"),
        ({"regions": ["us-west4"]}, "not offered in us-west4"),
        ({"regions": ["us-central2", "us-centrl2"]}, "no TPU is known in us-centrl2"),
        ({"model": ProvisioningModel.FLEX_START}, "not offered by flex_start in any zone"),
    ],
)
def test_a_place_without_the_type_is_refused_with_those_that_have_it(place, said):
    with pytest.raises(NotOffered, match=said) as refused:
        CATALOG.candidate_zones(V4, **place)
    flex_start = "model" in place
    assert refused.value.facts == {"offered_in": [] if flex_start else ["us-central2-b"]}


def test_a_zone_that_only_other_products_have_is_refused():
    with pytest.raises(NotOffered, match=r"us-central1-ai1$"):
        CATALOG.candidate_zones(V6E, zone="us-central1-ai1")


def test_a_place_is_said_in_at_most_one_way():
    with pytest.raises(Rejected, match="at most one"):
        CATALOG.candidate_zones(V4, zone="us-central2-b", regions=["us-central2"])


def test_the_zones_of_regions_come_region_by_region():
    assert CATALOG.zones_in(["us-west4", "us-central2"]) == (
        "us-west4-a",
        "us-west4-b",
        "us-central2-b",
    )
    assert CATALOG.zones_in(["mars-north1"]) == ()
