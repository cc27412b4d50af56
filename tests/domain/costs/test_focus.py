"""Charges in the words of FOCUS: which cell says what, and that nothing is lost on the way."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pytest
from focus_data_toolkit.model.capabilities import KNOWN_CONDITIONS
from focus_data_toolkit.model.validator import lint_focus_1_4_structure
from focus_data_toolkit.schema.registry import mandatory_columns, version_columns
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog.catalog import load_catalog
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.regions import region_name
from service.domain.costs.charge import ChargeKind
from service.domain.costs.focus import Account, Version, column_names
from service.domain.costs.focus_sku import sku_of
from service.domain.money import NANOS, half_even
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import with_discount
from service.domain.pricing.shipped_prices import embedded_prices
from tests import factories
from tests.charges import charge, focus, of_machine, of_unused, only, read, resource, tags
from tests.domain.focus_checks import complaints
from tests.hands import NOON

OCTOBER, NOVEMBER, DECEMBER = 1_790_812_800, 1_793_491_200, 1_796_083_200
HOSTILE = 'a "quoted", =SUM(A1)\r\n\u2028line\twith {braces} and ümlauts'


@pytest.mark.parametrize("version", list(Version))
def test_every_mandatory_column_is_there_once_and_every_other_one_is_of_the_edition(version):
    header = column_names(version)
    assert len(set(header)) == len(header)
    assert mandatory_columns("Cost and Usage", version) <= set(header)
    foreign = set(header) - version_columns("Cost and Usage", version)
    assert all(name.startswith("x_") for name in foreign)
    assert version_columns("Cost and Usage", "1.2") - set(column_names(Version.V1_2)) == set()


def test_the_editions_differ_in_who_provides_alone():
    old, new = only(charge(), Version.V1_2), only(charge(), Version.V1_4)
    assert old.pop("ProviderName") == new.pop("ServiceProviderName") == "Google Cloud"
    assert old.pop("PublisherName") == new.pop("HostProviderName") == "Google Cloud"
    assert old == new


def test_an_hour_of_a_node_is_a_row():
    row = only(charge())
    assert row == {
        "BillingAccountId": "012345-6789AB-CDEF01",
        "BillingAccountName": "",
        "BillingAccountType": "Cloud Billing Account",
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
        "ChargePeriodStart": "2026-11-05T12:00:00Z",
        "ChargePeriodEnd": "2026-11-05T13:00:00Z",
        "ChargeClass": "",
        "ChargeDescription": "v5litepod-8, on demand, in us-west4-a",
        "x_Revision": "0",
        "x_ListPriceKnown": "true",
        "BillingCurrency": "USD",
        "BilledCost": "9.600000000",
        "EffectiveCost": "9.600000000",
        "ContractedCost": "9.600000000",
        "ContractedUnitPrice": "1.200000000",
        "ListCost": "9.600000000",
        "ListUnitPrice": "1.200000000",
        "PricingCurrency": "USD",
        "PricingCurrencyContractedUnitPrice": "1.200000000",
        "PricingCurrencyEffectiveCost": "9.600000000",
        "PricingCurrencyListUnitPrice": "1.200000000",
        "PricingQuantity": "8.000000000000",
        "ConsumedQuantity": "28800.0",
        "SkuId": "v5e/on_demand/us-west4",
        "SkuMeter": "Chip time of TPU v5e",
        "SkuPriceId": "test/0",
        "SkuPriceDetails": '{"x_EffectiveFrom":"1970-01-01T00:00:00Z","x_Generation":"v5e",'
        '"x_PriceRegion":"us-west4","x_PriceSource":"a test","x_ProvisioningModel":"on_demand"}',
        "ResourceId": "projects/lab/locations/us-west4-a/nodes/trainer-3d6c2a11",
        "ResourceName": "trainer",
        "ResourceType": "TPU VM",
        "SubAccountId": "lab",
        "SubAccountName": "lab",
        "SubAccountType": "Project",
        "RegionId": "us-west4",
        "RegionName": "Las Vegas",
        "AvailabilityZone": "us-west4-a",
        "PricingCategory": "Standard",
        "CapacityReservationId": "",
        "CapacityReservationStatus": "",
        "CommitmentDiscountCategory": "",
        "CommitmentDiscountId": "",
        "CommitmentDiscountName": "",
        "CommitmentDiscountQuantity": "",
        "CommitmentDiscountStatus": "",
        "CommitmentDiscountType": "",
        "CommitmentDiscountUnit": "",
        "x_AcceleratorType": "v5litepod-8",
        "x_MachineType": "",
        "x_ProvisioningModel": "on_demand",
        "Tags": '{"team":"vision","user":"ada"}',
        "ServiceProviderName": "Google Cloud",
        "HostProviderName": "Google Cloud",
        "InvoiceIssuerName": "Google Cloud",
        "InvoiceId": "",
        "ServiceName": "Cloud TPU",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Machine Learning",
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "PricingUnit": "Chip-Hours",
        "ConsumedUnit": "Chip-Seconds",
        "x_Estimated": "false",
    }


def test_without_a_billing_account_the_installation_is_who_pays():
    nobody = Account.from_settings("", "berlin")
    assert (nobody.id, nobody.type) == ("tpu-steward/berlin", "TPU Steward Installation")


def test_an_account_has_the_name_that_was_set_and_else_none():
    named = Account.from_settings("012345-6789AB-CDEF01", "berlin", 'Lab "Ö"')
    (row,) = read(focus(charge(), account=named))
    assert (row["BillingAccountId"], row["BillingAccountName"]) == (named.id, 'Lab "Ö"')
    assert only(charge())["BillingAccountName"] == ""


@pytest.mark.parametrize(
    ("changes", "now", "estimated"),
    [
        ({}, NOON, "true"),
        ({}, DECEMBER + 72 * 3_600 - 1, "true"),
        ({}, DECEMBER + 72 * 3_600, "false"),
        ({"is_uncertain": True}, DECEMBER + 72 * 3_600, "true"),
        ({"start": OCTOBER, "end": OCTOBER + 9, "period": NOVEMBER}, DECEMBER - 1, "true"),
        ({"start": OCTOBER, "end": OCTOBER + 9}, DECEMBER - 1, "false"),
    ],
)
def test_a_row_is_estimated_until_its_month_is_closed_and_its_use_is_known(changes, now, estimated):
    (row,) = read(focus(charge(**changes), now=now))
    assert row["x_Estimated"] == estimated


def test_an_adjustment_takes_back_quantity_and_amount():
    row = only(
        charge(number=1, quantity=-8, amount=-2_666_667, list_amount=-2_666_667, end=NOON + 1)
    )
    assert (row["BilledCost"], row["ConsumedQuantity"]) == ("-0.002666667", "-8.0")
    assert row["PricingQuantity"] == "-0.002222222222"
    assert row["ChargeDescription"].startswith("Adjustment of v5litepod-8")
    assert (row["x_Revision"], row["ChargeClass"]) == ("1", "")


def test_what_corrects_a_closed_month_is_billed_later_and_called_a_correction():
    row = only(charge(start=OCTOBER, end=OCTOBER + 3_600, number=1, period=DECEMBER))
    assert row["ChargeClass"] == "Correction"
    assert row["ChargePeriodStart"] == "2026-10-01T00:00:00Z"
    assert row["BillingPeriodStart"] == "2026-12-01T00:00:00Z"
    assert row["BillingPeriodEnd"] == "2027-01-01T00:00:00Z"


@pytest.mark.parametrize("unknown", [{"list_price": None}, {"list_amount": None}])
def test_where_no_list_price_is_known_the_paid_one_stands_in_and_the_row_says_so(unknown):
    row = only(charge(unit_price=600_000_000, amount=4_800_000_000, **unknown))
    assert (row["ListUnitPrice"], row["ListCost"]) == ("0.600000000", "4.800000000")
    assert row["x_ListPriceKnown"] == "false"


def test_what_was_saved_against_the_list_price_can_be_read_off():
    row = only(charge(unit_price=600_000_000, amount=4_800_000_000))
    assert (row["ListCost"], row["ContractedCost"]) == ("9.600000000", "4.800000000")
    assert (row["BilledCost"], row["EffectiveCost"]) == ("4.800000000", "4.800000000")


def test_where_a_nano_dollar_is_more_than_a_billionth_the_product_is_written_in_full():
    second = charge(end=NOON + 1, quantity=1, amount=333_333, list_amount=333_333)
    row = only(second)
    assert row["BilledCost"] == "0.000333333"
    assert row["ContractedCost"] == row["ListCost"] == "0.0003333333336"


@pytest.mark.parametrize(
    ("model", "category"),
    [
        (ProvisioningModel.ON_DEMAND, "Standard"),
        (ProvisioningModel.FLEX_START, "Standard"),
        (ProvisioningModel.SPOT, "Dynamic"),
        (ProvisioningModel.PREEMPTIBLE, "Dynamic"),
        (ProvisioningModel.RESERVED, "Other"),
    ],
)
def test_how_the_price_comes_about_follows_from_the_provisioning_model(model, category):
    assert only(charge(resource=resource(model=model)))["PricingCategory"] == category


def test_what_is_taken_from_a_reservation_names_it():
    row = only(
        charge(resource=resource(model="reserved", reservation="projects/lab/reservations/r"))
    )
    assert row["CapacityReservationId"] == "projects/lab/reservations/r"
    assert row["CapacityReservationStatus"] == "Used"


def test_a_legacy_node_is_told_from_a_vm():
    assert only(charge(resource=resource(kind=ChargeKind.TPU_NODE)))["ResourceType"] == "TPU Node"


@pytest.mark.parametrize(
    ("price", "sku"),
    [
        ({}, "v5e/on_demand/us-west4"),
        ({"model": "preemptible"}, "v5e/spot/us-west4"),
        ({"generation": "v2", "unit": "device_hour"}, "v2/on_demand/us-west4/device"),
        ({"source": "Cloud Billing Catalog 6F81-5844-456A SKU 2549-F208-72FA"}, "2549-F208-72FA"),
        ({"source": "services/E000-3F24-B8AA"}, "v5e/on_demand/us-west4"),
        ({"source": "9-2549-F208-72FA-1"}, "v5e/on_demand/us-west4"),
    ],
)
def test_a_sku_is_googles_where_its_source_names_it_and_ours_otherwise(price, sku):
    assert sku_of(factories.price(**price)) == sku


def test_what_is_left_by_a_discount_is_a_price_of_the_same_sku_and_names_the_discount():
    less = Discount("d-1", "v5e", "", 125_000, 0, None, "contract 1234-5678-9ABC")
    price = with_discount(factories.price(), less)
    row = only(charge(price=price, price_id=price.id, unit_price=price.nanos, amount=8_400_000_000))
    assert (row["SkuId"], row["SkuPriceId"]) == ("v5e/on_demand/us-west4", price.id)
    assert "less 12.5 %" in json.loads(row["SkuPriceDetails"])["x_PriceSource"]
    assert (row["ContractedCost"], row["ListCost"]) == ("8.400000000", "9.600000000")


def test_each_price_that_ships_with_the_service_belongs_to_one_sku():
    charges = [
        charge(price=price, price_id=price.id, start=NOON + number, end=NOON + number + 3_600)
        for number, price in enumerate(embedded_prices())
    ]
    assert complaints(focus(*charges), "1.4") == []


def test_a_price_that_no_book_knows_belongs_to_what_was_charged():
    here = charge(price=None, price_id="gone")
    there = charge(price=None, price_id="gone", resource=resource(zone="us-east1-c", name="z"))
    rows = read(focus(here, there))
    assert [row["SkuId"] for row in rows] == ["v5e/on_demand/us-west4", "v5e/on_demand/us-east1"]
    assert [row["SkuPriceId"] for row in rows] == [f"{row['SkuId']}/gone" for row in rows]
    assert complaints(focus(here, there), "1.4") == []


def test_every_region_in_which_tpus_are_offered_or_priced_has_a_name():
    offered = {offer.region for offer in load_catalog().offers}
    priced = {price.region for price in embedded_prices() if price.region[-1].isdigit()}
    assert [sku for sku in sorted(offered | priced) if region_name(sku) == sku] == []
    assert region_name("mars-north1") == "mars-north1"


def test_tags_are_flat_in_order_and_lose_no_label_that_bears_the_name_of_ours():
    labels = {"zeta": "1", "team": "theirs", "alpha": ""}
    assert json.loads(tags(labels=labels, job="j-1")) == {
        "alpha": "",
        "job": "j-1",
        "label/team": "theirs",
        "team": "vision",
        "user": "ada",
        "zeta": "1",
    }
    assert list(json.loads(tags(labels=labels))) == sorted(json.loads(tags(labels=labels)))


def test_without_an_owner_or_a_label_there_are_no_tags():
    assert only(charge(tags=tags(owner="", team="")))["Tags"] == ""


def test_hostile_labels_come_back_as_they_were():
    row = only(charge(tags=tags(owner=HOSTILE, labels={HOSTILE: HOSTILE, "=1+1": "@x"})))
    found = json.loads(row["Tags"])
    assert found == {HOSTILE: HOSTILE, "=1+1": "@x", "team": "vision", "user": HOSTILE}


def test_no_cell_is_a_formula_to_a_spreadsheet():
    row = only(charge(tags=tags(owner="=cmd()"), number=1, amount=-1, quantity=0))
    assert [k for k, v in row.items() if v[:1] in "=+@\t" and v] == []
    assert [k for k, v in row.items() if v.startswith("-")] == [
        "BilledCost",
        "EffectiveCost",
        "PricingCurrencyEffectiveCost",
    ]


def test_charges_of_a_node_that_start_together_are_in_the_order_of_what_they_say():
    ones = [charge(number=number, amount=number) for number in (0, 1, 2)]
    assert focus(*ones) == focus(*reversed(ones))


PRICES = st.integers(1, 10**12)
KINDS = st.sampled_from([charge(), of_machine(), of_unused()])
CHARGES = st.builds(
    lambda kind, number, quantity, paid, listed, off, labels: kind._replace(
        number=number,
        quantity=quantity,
        unit_price=paid,
        amount=half_even(quantity * paid, 3_600) + off,
        list_price=listed,
        list_amount=half_even(quantity * listed, 3_600) - off,
        tags=tags(labels=labels),
    ),
    KINDS,
    st.integers(0, 10**6),
    st.integers(-(10**8), 10**8),
    PRICES,
    PRICES,
    st.integers(-2, 2),
    st.dictionaries(st.text(), st.text(), max_size=3),
)
FILES = st.lists(CHARGES, max_size=8, unique_by=lambda one: one.number)


@given(FILES)
def test_a_file_read_back_holds_every_nano_dollar_and_every_chip_second(charges):
    rows = read(focus(*charges))
    billed = Counter(Decimal(row["BilledCost"]) * NANOS for row in rows)
    assert billed == Counter(charge.amount for charge in charges)
    assert sum(Decimal(row["BilledCost"]) for row in rows) * NANOS == sum(
        charge.amount for charge in charges
    )
    used = [charge for charge in charges if charge.resource.kind is not ChargeKind.RESERVATION]
    consumed = sum(Decimal(row["ConsumedQuantity"]) for row in rows if row["ConsumedQuantity"])
    assert consumed == sum(sku.quantity for sku in used)
    places = Decimal(10) ** -12
    priced = [Decimal(row["PricingQuantity"]) for row in rows]
    assert (
        abs(sum(priced) * 3_600 - sum(charge.quantity for charge in charges)) <= 3_600 * places * 8
    )
    assert Counter(row["Tags"] for row in rows) == Counter(charge.tags for charge in charges)


@given(FILES, st.sampled_from(list(Version)))
def test_no_charge_breaks_a_rule(charges, version):
    assert complaints(focus(*charges, version=version), version) == []


@given(FILES.filter(bool))
def test_no_charge_breaks_a_rule_of_the_focus_data_toolkit(charges):
    report = lint_focus_1_4_structure(
        "Cost and Usage", read(focus(*charges)), supported_conditions=KNOWN_CONDITIONS
    )
    assert report.messages() == []
