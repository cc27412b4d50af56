"""Requests: understood in full, or refused with what would be granted."""

from __future__ import annotations

import pytest

from service.domain.catalog.catalog import load_catalog
from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import NotOffered, Rejected, RuntimeMismatch, UnknownAcceleratorType
from service.domain.ids import MAX_LABELS
from service.domain.nodes.node import IdlePolicy
from service.domain.nodes.request import (
    MAX_SCRIPT_BYTES,
    RequestedNode,
    candidate_zones,
    resolve_hardware,
    resolve_spec,
)
from tests import factories

CATALOG = load_catalog()


def understand(**changes):
    request = factories.request(**changes)
    accelerator = resolve_hardware(request, CATALOG)
    return resolve_spec(request, accelerator, candidate_zones(request, accelerator, CATALOG))


def by_size(generation="v5e", **changes):
    return {"accelerator_type": None, "generation": generation} | changes


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "v5litepod-8"),
        (by_size(chips=8), "v5litepod-8"),
        (by_size(topology="4x4"), "v5litepod-16"),
        (by_size(topology=" 4X4 "), "v5litepod-16"),
        (by_size("v4", chips=16, zone=None), "v4-32"),
    ],
)
def test_the_hardware_is_known_by_its_name_or_by_its_size(changes, name):
    assert understand(**changes).spec.accelerator_type == name


def test_a_request_becomes_a_spec_in_which_nothing_is_left_open():
    spec = understand(
        accelerator_type="v6e-8",
        zone=None,
        regions=("us-east1", "us-east5"),
        provisioning_model=ProvisioningModel.SPOT,
        metadata={"a": "b"},
        data_disks=["projects/lab/zones/us-east1-d/disks/d"],
        ttl_seconds=3_600,
        max_wait_seconds=600,
        idle=IdlePolicy(action="delete"),
        recreate_on_preemption=True,
    ).spec
    assert (spec.generation, spec.chips, spec.hosts, spec.topology) == ("v6e", 8, 1, "2x4")
    assert spec.zones == CATALOG.candidate_zones(
        CATALOG.get_accelerator("v6e-8"), regions=("us-east1", "us-east5")
    )
    assert spec.runtime_version == "v2-alpha-tpuv6e"
    assert (spec.ttl_seconds, spec.max_wait_seconds) == (3_600, 600)
    assert spec.recreate_on_preemption
    assert not spec.stoppable


@pytest.mark.parametrize(
    ("changes", "stoppable"),
    [
        ({}, True),
        ({"queued": True}, False),
        ({"provisioning_model": ProvisioningModel.RESERVED}, False),
        ({"provisioning_model": ProvisioningModel.SPOT}, False),
        ({"provisioning_model": ProvisioningModel.PREEMPTIBLE}, False),
        ({"accelerator_type": "v5litepod-16"}, False),
    ],
)
def test_only_one_host_that_is_not_taken_back_nor_queued_can_be_stopped(changes, stoppable):
    assert understand(**changes).spec.stoppable is stoppable


@pytest.mark.parametrize(
    ("changes", "runtime_version"),
    [
        ({}, "v2-alpha-tpuv5-lite"),
        ({"framework": Framework.PYTORCH}, "v2-alpha-tpuv5-lite"),
        ({"framework": Framework.TENSORFLOW}, "tpu-vm-tf-2.17.1-pjrt"),
        (
            {"framework": Framework.TENSORFLOW, "framework_version": "2.15"},
            "tpu-vm-tf-2.15.1-pjrt",
        ),
        ({"runtime_version": "tpu-vm-tf-2.16.1-pjrt"}, "tpu-vm-tf-2.16.1-pjrt"),
    ],
)
def test_the_image_is_named_or_follows_from_the_framework(changes, runtime_version):
    assert understand(**changes).spec.runtime_version == runtime_version


def test_anywhere_it_is_offered_is_meant_where_no_place_is_named():
    everywhere = CATALOG.zones_for(CATALOG.get_accelerator("v5litepod-8"))
    assert understand(zone=None).spec.zones == everywhere


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"accelerator_type": "v5litepod-7"}, UnknownAcceleratorType, None),
        ({"accelerator_type": None}, Rejected, "accelerator_type"),
        ({"generation": "v5e"}, Rejected, "accelerator_type"),
        ({"chips": 8}, Rejected, "accelerator_type"),
        ({"topology": "2x4"}, Rejected, "accelerator_type"),
        (by_size(), Rejected, "chips"),
        (by_size(chips=8, topology="2x4"), Rejected, "chips"),
        (by_size(chips=7), UnknownAcceleratorType, None),
        (by_size(chips=0), UnknownAcceleratorType, None),
        (by_size(topology="3x3"), UnknownAcceleratorType, None),
        (by_size("v9", chips=8), Rejected, "generation"),
        (by_size("v7", chips=8), UnknownAcceleratorType, None),
        ({"zone": "us-central1-q"}, NotOffered, None),
        ({"zones": ("us-west4-a",)}, Rejected, "zone"),
        ({"zone": None, "regions": ("atlantis-1",)}, NotOffered, None),
        ({"architecture": Architecture.NODE}, Rejected, "architecture"),
        ({"reservation": "ours"}, Rejected, "reservation"),
        ({"name": "Train"}, Rejected, "name"),
        ({"name": "a" * 50}, Rejected, "name"),
        ({"labels": {"steward-id": "mine"}}, Rejected, "labels"),
        ({"labels": {"Team": "x"}}, Rejected, "labels"),
        ({"labels": {f"k{n}": "v" for n in range(MAX_LABELS + 1)}}, Rejected, "labels"),
        ({"startup_script": "x" * (MAX_SCRIPT_BYTES + 1)}, Rejected, "startup_script"),
        ({"startup_script": "é" * (MAX_SCRIPT_BYTES // 2 + 1)}, Rejected, "startup_script"),
        ({"metadata": {"big": "x" * (MAX_SCRIPT_BYTES + 1)}}, Rejected, "big"),
        ({"metadata": {"a": "b\0c"}}, Rejected, "metadata"),
        ({"metadata": {"a\0": "b"}}, Rejected, "metadata"),
        ({"startup_script": "echo\0"}, Rejected, "metadata"),
        (
            {"startup_script": "a", "metadata": {"startup-script": "b"}},
            Rejected,
            "startup_script",
        ),
        ({"runtime_version": "v2-alpha-tpuv6e"}, RuntimeMismatch, None),
        ({"runtime_version": "nonsense"}, RuntimeMismatch, None),
        (
            {"runtime_version": "v2-alpha-tpuv5-lite", "framework": Framework.JAX},
            Rejected,
            "runtime_version",
        ),
        ({"framework": Framework.TENSORFLOW, "framework_version": "1.15"}, Rejected, None),
    ],
)
def test_a_request_that_can_never_be_granted_is_refused_at_once(changes, error, field):
    with pytest.raises(error) as refused:
        understand(**changes)
    if field is not None:
        assert refused.value.facts["field"] == field
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"accelerator_type": "v5litepod-7"}, "closest"),
        ({"zone": "us-central1-q"}, "offered_in"),
        ({"runtime_version": "v2-alpha-tpuv6e"}, "compatible"),
    ],
)
def test_a_refusal_says_what_would_be_granted(changes, fact):
    with pytest.raises(Rejected) as refused:
        understand(**changes)
    assert refused.value.facts[fact]


def test_a_topology_other_than_the_types_own_is_refused_with_the_one_it_is_made_as():
    accelerator = next(
        accelerator for accelerator in CATALOG.list_served() if len(accelerator.topologies) > 1
    )
    other = next(t for t in accelerator.topologies if t != accelerator.topology)
    request = RequestedNode(generation=accelerator.generation, topology=other)
    with pytest.raises(Rejected) as refused:
        resolve_spec(request, accelerator, ())
    assert refused.value.facts == {"field": "topology", "topology": accelerator.topology}


def test_scripts_and_labels_up_to_the_limit_are_granted():
    spec = understand(
        startup_script="x" * MAX_SCRIPT_BYTES, labels={f"k{n}": "v" for n in range(MAX_LABELS)}
    ).spec
    assert len(spec.startup_script) == MAX_SCRIPT_BYTES


def test_the_reasons_for_a_runtime_version_become_one_line():
    (why,) = understand(accelerator_type="v5litepod-16", framework=Framework.TENSORFLOW).reasons
    assert why.startswith("chose tpu-vm-tf-")
    assert ". v5litepod-16 has 4 hosts, so the name says -pod. " in why
    assert not why.endswith(".")
