"""What a legacy TPU Node can be asked for, and what it costs elsewhere."""

from __future__ import annotations

import pytest

from service.domain.catalog.catalog import load_catalog
from service.domain.catalog.images import Framework
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import Rejected, RuntimeMismatch
from service.domain.nodes import legacy
from service.domain.nodes.request import candidate_zones, resolve_hardware, resolve_spec
from tests import factories


def understand(**changes):
    asked = {"accelerator_type": "v2-8", "zone": "us-central1-b", **changes}
    request = factories.request(architecture=Architecture.NODE, **asked)
    accelerator = resolve_hardware(request, load_catalog())
    return resolve_spec(request, accelerator, candidate_zones(request, accelerator, load_catalog()))


@pytest.mark.parametrize(
    ("changes", "runtime_version"),
    [
        ({}, "2.16.1"),
        ({"accelerator_type": "v3-8", "zone": "europe-west4-a"}, "2.16.1"),
        ({"framework": Framework.TENSORFLOW, "framework_version": "2.12"}, "2.12.1"),
        ({"framework": Framework.PYTORCH, "framework_version": "1.11"}, "pytorch-1.11"),
        ({"runtime_version": "1.15.3"}, "1.15.3"),
    ],
)
def test_it_runs_what_was_made_for_it(changes, runtime_version):
    spec = understand(**changes).spec
    assert spec.architecture is Architecture.NODE
    assert spec.runtime_version == runtime_version


def test_its_owner_is_told_what_to_bring_along_and_that_it_is_in_no_figure():
    assert understand(runtime_version="2.12.0").warnings == (
        "your own VM has to run TensorFlow 2.12.0",
        "the VM that drives the legacy TPU Node is billed by Compute Engine",
    )


@pytest.mark.parametrize(
    ("changes", "stoppable"),
    [
        ({}, True),
        ({"provisioning_model": ProvisioningModel.PREEMPTIBLE}, False),
        ({"accelerator_type": "v2-32", "zone": "us-central1-a"}, False),
    ],
)
def test_it_is_stopped_where_a_tpu_vm_would_be(changes, stoppable):
    assert understand(**changes).spec.stoppable is stoppable


@pytest.mark.parametrize(
    ("changes", "field", "advice"),
    [
        ({"startup_script": "echo hi"}, "startup_script", "your own VM"),
        ({"metadata": {"a": "b"}}, "metadata", "your own VM"),
        ({"data_disks": ("scratch",)}, "data_disks", "your own VM"),
        ({"service_account": "a@b.example"}, "service_account", "your own VM"),
        ({"external_ip": True}, "external_ip", "your own VM"),
        ({"subnetwork": "s"}, "subnetwork", "give only the network"),
        ({"queued": True}, "queued", "leave it out"),
        ({"slices": 2}, "slices", "leave it out"),
        ({"reservation": "lab-v2"}, "reservation", "leave it out"),
        ({"provisioning_model": ProvisioningModel.SPOT}, "provisioning_model", "preemptible"),
        ({"accelerator_type": "v5litepod-8", "zone": "us-west4-a"}, "architecture", "vm"),
        ({"accelerator_type": "v4-8", "zone": "us-central2-b"}, "architecture", "vm"),
    ],
)
def test_what_needs_a_machine_of_its_own_is_refused_with_what_to_do(changes, field, advice):
    with pytest.raises(Rejected) as refused:
        understand(**changes)
    assert refused.value.facts["field"] == field
    assert advice in str(refused.value)


def test_flex_start_is_refused_wherever_it_were_sold():
    with pytest.raises(Rejected, match="use on_demand"):
        legacy.check_request(
            (), load_catalog().get_accelerator("v2-8"), ProvisioningModel.FLEX_START
        )


@pytest.mark.parametrize(
    "changes", [{"framework": Framework.JAX}, {"runtime_version": "tpu-ubuntu2204-base"}]
)
def test_software_of_the_other_architecture_is_refused_with_what_to_do(changes):
    with pytest.raises(RuntimeMismatch, match="architecture") as refused:
        understand(**changes)
    assert refused.value.facts["compatible"]


def test_a_tpu_vm_costs_nothing_elsewhere():
    assert legacy.not_included(factories.node()) == ()
    assert legacy.not_included(factories.node(architecture=Architecture.NODE)) == (
        legacy.NOT_INCLUDED,
    )
