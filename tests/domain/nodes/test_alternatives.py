"""Any of several types: what a request allows, in the order to try, and what is left out of it."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.catalog.catalog import load_catalog
from service.domain.catalog.images import Framework
from service.domain.errors import NotOffered, Rejected, RuntimeMismatch, UnknownAcceleratorType
from service.domain.nodes.alternatives import resolve_request
from service.domain.placement.choice import list_candidates
from tests import factories

CATALOG = load_catalog()
LITE = "v2-alpha-tpuv5-lite"
BOTH = ("v5litepod-16", "v6e-16")
PRICES = {
    ("v5litepod-16", "us-west4-a"): 30,
    ("v5litepod-16", "us-east5-b"): 10,
    ("v5litepod-16", "us-east5-a"): 50,
    ("v6e-16", "us-east5-b"): 20,
    ("v6e-16", "us-east5-a"): 40,
    ("v5litepod-8", "us-west4-a"): 2,
    ("v5litepod-8", "us-west4-b"): 1,
}


def rate(accelerator, zone):
    return PRICES.get((accelerator.name, zone))


def settle(**changes):
    base = {"accelerator_type": None, "zone": None}
    return resolve_request(factories.request(**(base | changes)), CATALOG, rate)


def order(meant):
    return [(key.accelerator_type, key.zone) for key in list_candidates(meant.spec)]


def zones_of(name):
    return CATALOG.zones_for(CATALOG.get_accelerator(name))


def test_the_zones_of_one_type_are_tried_the_cheapest_first():
    meant = settle(accelerator_type="v5litepod-8")
    assert meant.spec.zones[:2] == ("us-west4-b", "us-west4-a")
    assert set(meant.spec.zones) == set(zones_of("v5litepod-8"))
    assert (meant.spec.alternatives, meant.spec.cheapest_first) == ((), True)


def test_zones_that_were_named_are_tried_in_the_order_in_which_they_were():
    meant = settle(accelerator_type="v5litepod-8", zones=("us-west4-a", "us-west4-b"))
    assert (meant.spec.zones, meant.spec.cheapest_first) == (("us-west4-a", "us-west4-b"), False)


def test_of_several_types_the_cheapest_node_is_tried_first_wherever_it_is():
    zones = ("us-west4-a", "us-east5-a", "us-east5-b")
    meant = settle(accelerator_types=BOTH, zones=zones)
    assert order(meant) == [
        ("v5litepod-16", "us-east5-b"),
        ("v6e-16", "us-east5-b"),
        ("v5litepod-16", "us-west4-a"),
        ("v6e-16", "us-east5-a"),
        ("v5litepod-16", "us-east5-a"),
    ]
    spec = meant.spec
    assert spec.zones == ("us-east5-b", "us-west4-a", "us-east5-a")
    assert (spec.accelerator_type, spec.generation) == ("v5litepod-16", "v5e")
    assert (spec.accelerator_types, spec.cheapest_first) == (BOTH, True)


def test_each_alternative_has_all_that_follows_from_its_type():
    meant = settle(accelerator_types=("v6e-8", "v5litepod-16"), zones=("us-east5-b",))
    by_type = {alternative.accelerator_type: alternative for alternative in meant.spec.alternatives}
    v6e, v5e = by_type["v6e-8"], by_type["v5litepod-16"]
    assert (v6e.generation, v6e.chips, v6e.hosts, v6e.topology) == ("v6e", 8, 1, "2x4")
    assert (v6e.runtime_version, v5e.runtime_version) == ("v2-alpha-tpuv6e", "v2-alpha-tpuv5-lite")
    assert (v6e.stoppable, v5e.stoppable) == (True, False)


def test_what_nobody_knows_the_price_of_is_tried_last_in_the_order_of_the_types():
    meant = settle(accelerator_types=("v3-8", "v2-8"), regions=("us-central1",))
    assert [name for name, _ in order(meant)][:1] == ["v3-8"]
    assert "no on_demand price is known for v3-8" in meant.warnings[-1]


@pytest.mark.parametrize("types", [("v6e-16",), ("v6e-16", "v6e-16")])
def test_several_of_one_are_one(types):
    spec = settle(accelerator_types=types).spec
    assert (spec.accelerator_type, spec.alternatives) == ("v6e-16", ())
    assert spec.zones[:2] == ("us-east5-b", "us-east5-a")


def test_a_type_that_is_not_offered_there_is_left_out_with_a_warning():
    meant = settle(accelerator_types=("v4-16", "v6e-16"), zone="us-east5-a")
    assert order(meant) == [("v6e-16", "us-east5-a")]
    assert meant.warnings[0].startswith("v4-16 is left out: v4-16 is not offered in us-east5-a")


def test_a_type_is_tried_in_those_of_the_named_zones_that_have_it():
    meant = settle(accelerator_types=("v4-16", "v6e-16"), zones=("us-east5-a", "us-central2-b"))
    assert ("v4-16", "us-east5-a") not in order(meant)
    assert ("v4-16", "us-central2-b") in order(meant)


@pytest.mark.parametrize(
    "image",
    [
        {"runtime_version": "v2-alpha-tpuv6e"},
        {"framework": Framework.TENSORFLOW, "framework_version": "2.18"},
    ],
)
def test_a_type_for_which_the_image_is_not_is_left_out_with_a_warning(image):
    meant = settle(accelerator_types=("v4-16", "v6e-8"), **image)
    assert meant.spec.accelerator_types == ("v6e-8",)
    assert meant.warnings[0].startswith("v4-16 is left out: ")


@pytest.mark.parametrize(
    ("changes", "error", "fact"),
    [
        ({"accelerator_type": "v6e-8"}, Rejected, "field"),
        ({"generation": "v6e", "chips": 8}, Rejected, "field"),
        ({"topology": "4x4"}, Rejected, "field"),
        ({"accelerator_types": ("v6e-16", "v6e-17")}, UnknownAcceleratorType, "closest"),
        ({"zone": "us-central2-q"}, NotOffered, "offered_in"),
        ({"zones": ("us-east5-a", "us-central2-q")}, NotOffered, "offered_in"),
        ({"regions": ("atlantis-1",)}, NotOffered, "offered_in"),
        ({"runtime_version": "v2-alpha-tpuv4"}, RuntimeMismatch, "compatible"),
    ],
)
def test_what_leaves_nothing_or_contradicts_itself_is_refused(changes, error, fact):
    with pytest.raises(error) as refused:
        settle(**({"accelerator_types": BOTH} | changes))
    assert refused.value.facts[fact]
    assert len(str(refused.value)) < 1_000


def test_a_refusal_of_all_types_says_why_for_each():
    with pytest.raises(RuntimeMismatch) as refused:
        settle(accelerator_types=BOTH, runtime_version="v2-alpha-tpuv4")
    assert str(refused.value).startswith("none of these types can be used: v5litepod-16: ")
    assert "; v6e-16: " in str(refused.value)
    fits: Any = refused.value.facts["compatible"]
    assert "tpu-vm-tf-2.17.1-pod-pjrt" in fits
    assert "v2-alpha-tpuv6e" not in fits, "it does for one of them only"


def test_what_is_wrong_with_the_request_and_not_with_the_types_is_said_once():
    with pytest.raises(Rejected) as refused:
        settle(accelerator_types=BOTH, labels={"steward-id": "mine"})
    assert refused.value.facts["field"] == "labels"
    assert "none of these types" not in str(refused.value)


def test_nothing_at_all_is_refused_with_every_way_to_say_it():
    with pytest.raises(Rejected, match="accelerator_types"):
        settle()


def test_why_each_type_gets_its_runtime_version_is_said_once():
    each = settle(accelerator_types=BOTH, framework=Framework.TENSORFLOW)
    chose = f"chose {each.spec.runtime_version} for TensorFlow: TensorFlow "
    assert [why.startswith(chose) for why in each.reasons] == [True, True]
    assert all(f"{name} has 4 hosts" in why for name, why in zip(BOTH, each.reasons, strict=True))
    named = settle(accelerator_types=("v5litepod-8", "v5litepod-4"), runtime_version=LITE)
    assert named.reasons == (f"took {LITE}, which was requested by name: it fits one host of v5e",)
