"""The emulator's own catalogue says what Google's lists say."""

from __future__ import annotations

from collections import Counter

import pytest

from service.emulator import catalog


@pytest.mark.parametrize(
    ("name", "chips", "hosts", "topology"),
    [
        ("v2-8", 4, 1, "2x2"),
        ("v3-2048", 1024, 256, "32x32"),
        ("v4-8", 4, 1, "2x2x1"),
        ("v4-32", 16, 4, "2x2x4"),
        ("v4-640", 320, 80, "4x4x20"),
        ("v4-2304", 1152, 288, "8x12x12"),
        ("v4-6144", 3072, 768, "12x16x16"),
        ("v5litepod-1", 1, 1, "1x1"),
        ("v5litepod-8", 8, 1, "2x4"),
        ("v5litepod-16", 16, 4, "4x4"),
        ("v5p-12288", 6144, 1536, "16x16x24"),
        ("v6e-256", 256, 64, "16x16"),
    ],
)
def test_a_type_is_so_many_chips_on_so_many_hosts(name, chips, hosts, topology):
    accelerator = catalog.accelerators_by_name()[name]
    assert (accelerator.chips, accelerator.hosts, accelerator.topology) == (chips, hosts, topology)


def test_every_topology_multiplies_to_its_chips():
    for accelerator in catalog.accelerators_by_name().values():
        product = 1
        for side in accelerator.topology.split("x"):
            product *= int(side)
        assert product == accelerator.chips, accelerator


def test_the_lists_are_as_long_as_googles():
    counts = Counter(each.generation for each in catalog.accelerators_by_name().values())
    assert counts == {"v2": 5, "v3": 8, "v4": 52, "v5e": 8, "v5p": 94, "v6e": 8}
    assert len(catalog.list_zones()) == 40
    assert len(catalog.runtime_versions()) == 86


def test_a_zone_offers_the_generations_it_has():
    assert {each.generation for each in catalog.list_offered("us-central2-b")} == {"v4", "v6e"}
    assert catalog.list_offered("mars-north1-a") == ()
