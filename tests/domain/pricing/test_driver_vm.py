"""The user's own virtual machine beside a legacy TPU Node: what may be named, and its price."""

from __future__ import annotations

import pytest

from service.domain.catalog.catalog import load_catalog
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.errors import Rejected
from service.domain.nodes import legacy
from service.domain.nodes.request import candidate_zones, resolve_hardware, resolve_spec
from service.domain.pricing import driver_vm
from service.domain.pricing.driver_vm import UserVm
from service.domain.pricing.price_book import VM_HOUR, PriceBook, Sku
from service.domain.pricing.shipped_prices import embedded_prices
from tests import factories
from tests.hands import NOON

OURS = UserVm("n1-standard-8")


@pytest.mark.parametrize(
    "machine_type",
    ["n1-standard-8", "e2-micro", "c3-standard-176-metal", "n1-highmem-2", "custom-4-8192"],
)
@pytest.mark.parametrize("model", driver_vm.MODELS)
def test_a_machine_of_compute_engine_drives_a_legacy_node(machine_type, model):
    driver_vm.check_vm(UserVm(machine_type, model), Architecture.NODE)


@pytest.mark.parametrize(
    ("vm", "architecture", "field", "said"),
    [
        (OURS, Architecture.VM, "vm", "the price of a TPU VM includes its machine"),
        (UserVm(""), Architecture.NODE, "vm.machine_type", "write it as n1-standard-8"),
        (UserVm("N1-Standard-8"), Architecture.NODE, "vm.machine_type", "not a machine type"),
        (UserVm("standard"), Architecture.NODE, "vm.machine_type", "not a machine type"),
        (UserVm("n1-standard-8;"), Architecture.NODE, "vm.machine_type", "not a machine type"),
        (UserVm("a-" + "8" * 62), Architecture.NODE, "vm.machine_type", "not a machine type"),
        (UserVm("v2-8"), Architecture.NODE, "vm.machine_type", "v2-8 is an accelerator type"),
        (
            UserVm("n1-standard-8", ProvisioningModel.PREEMPTIBLE),
            Architecture.NODE,
            "vm.provisioning_model",
            "sold on_demand or spot here, not preemptible",
        ),
    ],
)
def test_what_drives_nothing_is_refused_with_what_to_write(vm, architecture, field, said):
    with pytest.raises(Rejected, match=said) as refusal:
        driver_vm.check_vm(vm, architecture)
    assert refusal.value.facts["field"] == field


def test_it_is_priced_as_one_machine_by_its_type():
    sku = driver_vm.sku_of(OURS, "us-central1")
    assert sku == Sku("n1-standard-8", "on_demand", "us-central1", is_vm=True)
    assert sku.unit == VM_HOUR


def test_a_price_that_is_known_is_worth_no_word():
    book = PriceBook(embedded_prices())
    assert driver_vm.describe_unpriced(OURS, ("us-central1-b", "europe-west4-a"), book, NOON) == ()


def test_where_its_price_is_not_known_it_is_said_where_and_how_to_enter_it():
    zones = ("us-central1-b", "us-south1-a", "us-south1-b", "us-west4-a")
    (said,) = driver_vm.describe_unpriced(OURS, zones, PriceBook(embedded_prices()), NOON)
    assert said == (
        "no on_demand price is known for n1-standard-8 in us-south1, us-west4. The cost of the"
        " VM is in no figure until you add the price: POST /v1/prices with generation"
        " n1-standard-8 and unit vm_hour"
    )


def understand(**changes):
    request = factories.request(
        **{"accelerator_type": "v2-8", "zone": "us-central1-b", "vm": OURS, **changes}
    )
    accelerator = resolve_hardware(request, load_catalog())
    return resolve_spec(request, accelerator, candidate_zones(request, accelerator, load_catalog()))


def test_a_request_keeps_it_and_no_longer_says_that_it_is_in_no_figure():
    meant = understand(architecture=Architecture.NODE)
    assert meant.spec.vm == OURS
    assert legacy.VM_INCLUDED in meant.warnings
    assert legacy.NOT_INCLUDED not in meant.warnings


def test_a_tpu_vm_has_none():
    with pytest.raises(Rejected, match="only with architecture node"):
        understand()
