"""What has a price: which hardware, by which model, in which unit."""

from __future__ import annotations

import pytest

from service.domain.errors import Rejected
from service.domain.pricing import sellable
from tests import factories

MACHINE = {"generation": "n1-standard-8", "unit": "vm_hour", "region": "us-central1"}


@pytest.mark.parametrize(
    "price",
    [
        {},
        {"model": "calendar"},
        {"generation": "v2", "unit": "device_hour"},
        MACHINE,
        MACHINE | {"model": "spot"},
    ],
)
def test_what_is_sold_may_have_a_price(price):
    sellable.check_sold(factories.price(**price))


@pytest.mark.parametrize(
    ("price", "field", "said"),
    [
        ({"unit": "vm_hour"}, "unit", "v5e is a generation of TPUs, priced per chip_hour"),
        (MACHINE | {"unit": "chip_hour"}, "unit", "is a machine type, priced per vm_hour, not per"),
        (MACHINE | {"unit": "device_hour"}, "unit", "not per device_hour"),
        (MACHINE | {"model": "reserved"}, "provisioning_model", "sold on_demand or spot here"),
        (MACHINE | {"model": "preemptible"}, "provisioning_model", "sold on_demand or spot here"),
        (MACHINE | {"model": "calendar"}, "provisioning_model", "not calendar"),
        (MACHINE | {"generation": "v2-8"}, "generation", "v2-8 is an accelerator type"),
        (MACHINE | {"generation": "N1"}, "generation", "write it as n1-standard-8"),
        ({"generation": "v2-8"}, "generation", "prices are those of its generation, v2"),
        ({"generation": "v9"}, "generation", "there is no generation 'v9'"),
        ({"generation": "v3", "model": "calendar"}, "provisioning_model", "v5e and later"),
    ],
)
def test_what_is_not_sold_so_has_none(price, field, said):
    with pytest.raises(Rejected, match=said) as refusal:
        sellable.check_sold(factories.price(**price))
    assert refusal.value.facts["field"] == field


@pytest.mark.parametrize(
    ("generation", "model"),
    [("", ""), ("", "spot"), ("v5e", "calendar"), ("n1-standard-8", ""), ("e2-micro", "spot")],
)
def test_what_is_sold_may_be_discounted(generation, model):
    sellable.check_discounted(generation, model)


@pytest.mark.parametrize(
    ("generation", "model"), [("v9", ""), ("v2-8", "spot"), ("n1-standard-8", "reserved")]
)
def test_what_is_not_sold_so_is_not_discounted(generation, model):
    with pytest.raises(Rejected):
        sellable.check_discounted(generation, model)
