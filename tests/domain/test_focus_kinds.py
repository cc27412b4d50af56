"""What is no node in the words of FOCUS: machines that drive one, and what was reserved."""

from __future__ import annotations

import json

import pytest

from service.domain.costs.focus import Version
from service.domain.costs.focus_sku import sku_of
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import with_discount, with_reservation
from tests import factories
from tests.charges import (
    MARCH,
    charge,
    focus,
    of_machine,
    of_unused,
    of_used,
    only,
    read,
    resource,
)
from tests.domain.focus_checks import complaints


def test_an_hour_of_the_machine_that_drives_a_legacy_node_is_one_of_compute_engine():
    row, tpu = only(of_machine()), only(charge())
    assert {name: cell for name, cell in row.items() if cell != tpu[name]} == {
        "ServiceName": "Compute Engine",
        "ServiceCategory": "Compute",
        "ServiceSubcategory": "Virtual Machines",
        "ChargeDescription": "n1-standard-8, on demand, in us-central1-b",
        **dict.fromkeys(("BilledCost", "EffectiveCost", "ContractedCost"), "0.379998000"),
        **dict.fromkeys(("ListCost", "ListUnitPrice", "ContractedUnitPrice"), "0.379998000"),
        "PricingCurrencyContractedUnitPrice": "0.379998000",
        "PricingCurrencyEffectiveCost": "0.379998000",
        "PricingCurrencyListUnitPrice": "0.379998000",
        "PricingQuantity": "1.000000000000",
        "PricingUnit": "Hours",
        "ConsumedQuantity": "3600.0",
        "ConsumedUnit": "Seconds",
        "SkuId": "n1-standard-8/on_demand/us-central1",
        "SkuMeter": "Time of n1-standard-8",
        "SkuPriceId": "vm/0",
        "SkuPriceDetails": '{"x_EffectiveFrom":"1970-01-01T00:00:00Z","x_MachineType":'
        '"n1-standard-8","x_PriceRegion":"us-central1","x_PriceSource":"a test",'
        '"x_ProvisioningModel":"on_demand"}',
        "ResourceId": "tpu-steward/vm-of/projects/lab/locations/us-central1-b/nodes/old-1",
        "ResourceName": "VM of old",
        "ResourceType": "Virtual Machine",
        "RegionId": "us-central1",
        "RegionName": "Iowa",
        "AvailabilityZone": "us-central1-b",
        "x_AcceleratorType": "",
        "x_MachineType": "n1-standard-8",
    }


def test_a_machine_whose_price_no_book_knows_is_of_the_same_sku():
    gone = only(of_machine(price=None, price_id="gone"))
    assert gone["SkuId"] == only(of_machine())["SkuId"]
    assert gone["SkuMeter"] == "Time of n1-standard-8"
    assert json.loads(gone["SkuPriceDetails"])["x_MachineType"] == "n1-standard-8"


def test_what_of_a_reservation_nobody_used_is_a_row_of_the_reservation():
    row = only(of_unused())
    path = "projects/lab/locations/us-west4-a/reservations/march"
    assert (row["CapacityReservationId"], row["CapacityReservationStatus"]) == (path, "Unused")
    assert (row["ResourceId"], row["ResourceName"]) == (path, "march")
    assert row["ResourceType"] == "TPU Reservation"
    assert row["ChargeDescription"] == "v5e, reserved and not used, in us-west4-a"
    assert (row["BilledCost"], row["ListCost"]) == ("6.720000000", "6.720000000")
    assert (row["PricingCategory"], row["x_AcceleratorType"]) == ("Committed", "")
    assert (row["ServiceName"], row["PricingUnit"]) == ("Cloud TPU", "Chip-Hours")


@pytest.mark.parametrize(("made", "status"), [(of_used, "Used"), (of_unused, "Unused")])
def test_a_reservation_by_the_calendar_is_a_commitment_with_all_that_goes_with_one(made, status):
    row = only(made())
    told = {name: cell for name, cell in row.items() if name.startswith("CommitmentDiscount")}
    assert told == {
        "CommitmentDiscountId": MARCH.path,
        "CommitmentDiscountName": "march",
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountType": "Calendar Mode Reservation",
        "CommitmentDiscountStatus": status,
        "CommitmentDiscountQuantity": "8.000000000000",
        "CommitmentDiscountUnit": "Chip-Hours",
    }
    assert row["PricingCategory"] == "Committed"


def test_what_was_not_used_was_not_consumed():
    row = only(of_unused())
    assert (row["ConsumedQuantity"], row["ConsumedUnit"]) == ("", "")
    assert row["PricingQuantity"] == "8.000000000000"


def test_a_reservation_that_nobody_wrote_down_is_no_commitment_that_could_be_named():
    elsewhere = resource(model="reserved", reservation="projects/lab/reservations/r")
    row = only(charge(resource=elsewhere))
    assert row["CapacityReservationId"] == "projects/lab/reservations/r"
    assert (row["PricingCategory"], row["CommitmentDiscountId"]) == ("Other", "")


def test_the_price_in_a_reservation_is_that_of_the_list_whoever_used_it():
    used, unused = read(focus(of_used(), of_unused()))
    for name in ("SkuId", "SkuMeter", "SkuPriceId", "SkuPriceDetails", "CapacityReservationId"):
        assert used[name] == unused[name]
    assert (used["SkuId"], used["SkuPriceId"]) == ("v5e/calendar/us-west4", "c/0")
    assert json.loads(used["SkuPriceDetails"])["x_PriceSource"] == "a test"
    assert (used["CapacityReservationStatus"], used["x_AcceleratorType"]) == ("Used", "v5litepod-8")


def test_a_sku_is_that_of_the_list_also_where_a_discount_was_taken_off_in_a_reservation():
    less = Discount("d-1", "v5e", "", 125_000, 0, None, "contract 1234-5678-9ABC")
    listed = factories.price(source="SKU 2549-F208-72FA", model="calendar")
    assert sku_of(with_reservation(with_discount(listed, less), MARCH)) == "2549-F208-72FA"


@pytest.mark.parametrize("version", list(Version))
def test_a_file_of_every_kind_breaks_no_rule(version):
    text = focus(charge(), of_machine(), of_used(), of_unused(), version=version)
    assert complaints(text, version) == []
    assert len(read(text)) == 4
