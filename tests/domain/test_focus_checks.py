"""The checks find what they are for: each way to spoil a file is named by the rule it breaks."""

from __future__ import annotations

import csv
import io

import pytest

from service.domain.costs.focus import Version
from tests.charges import charge, focus, read, resource
from tests.domain.focus_checks import complaints
from tests.hands import NOON

GOOD = (
    charge(),
    charge(start=NOON + 3_600, end=NOON + 7_200),
    charge(
        start=NOON + 7_200,
        end=NOON + 7_201,
        quantity=8,
        amount=2_666_667,
        list_amount=2_666_667,
    ),
)


def written(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def rules(text, version="1.4"):
    return {
        (complaint.rule, complaint.column, complaint.line)
        for complaint in complaints(text, version)
    }


@pytest.mark.parametrize("version", list(Version))
def test_a_good_file_breaks_no_rule(version):
    assert complaints(focus(*GOOD, version=version), version) == []


@pytest.mark.parametrize(
    ("column", "cell", "rule"),
    [
        ("ListCost", "9.600000011", "not price times quantity"),
        ("ContractedCost", "9.500000000", "not price times quantity"),
        ("PricingQuantity", "8.100000000000", "not price times quantity"),
        ("ChargeCategory", "Consumption", "no category"),
        ("ServiceSubcategory", "Virtual Machines", "of another category"),
        ("ChargePeriodStart", "2026-11-05T13:00:00", "no instant"),
        ("ChargePeriodStart", "2026-11-05T13:00:00+02:00", "no instant"),
        ("ChargePeriodStart", "2026-11-05T13:00:00.000Z", "no instant"),
        ("ChargePeriodStart", "2026-11-05 13:00:00Z", "no instant"),
        ("ChargePeriodStart", "2026-13-05T13:00:00Z", "no instant"),
        ("Tags", '{"team":{"name":"vision"}}', "no object"),
        ("Tags", '{"team":["vision"]}', "no object"),
        ("Tags", '{"team":"vision","team":"nlp"}', "no object"),
        ("Tags", '["vision"]', "no object"),
        ("Tags", "team=vision", "no object"),
        ("SkuPriceDetails", '{"Generation":"v5e"}', "no details"),
        ("ChargePeriodEnd", "2026-11-05T12:00:00Z", "ends before it starts"),
        ("ChargePeriodEnd", "2026-11-05T13:00:00Z", "ends before it starts"),
        ("ChargePeriodEnd", "2026-12-01T00:00:01Z", "outside of its billing period"),
        ("ChargePeriodStart", "2026-10-31T23:59:59Z", "outside of its billing period"),
        ("ChargeClass", "Correction", "outside of its billing period"),
        ("BillingPeriodStart", "2026-11-02T00:00:00Z", "not a month"),
        ("BillingPeriodEnd", "2026-10-01T00:00:00Z", "ends before it starts"),
        ("BilledCost", "", "null"),
        ("BillingAccountId", "", "null"),
        ("BillingCurrency", "USDT", "no currency"),
        ("BillingCurrency", "usd", "no currency"),
        ("ListUnitPrice", "-1.200000000", "no price"),
        ("BilledCost", "NaN", "no decimal"),
        ("BilledCost", "9", "no decimal"),
        ("BilledCost", "9.6E0", "no decimal"),
        ("BilledCost", "9,600.000000000", "no decimal"),
        ("BilledCost", "+9.600000000", "no decimal"),
        ("ConsumedQuantity", "28800", "no decimal"),
        ("ConsumedQuantity", "-28800.0", "not what was consumed"),
        ("PricingQuantity", "", "null"),
        ("PricingUnit", "", "null"),
        ("ConsumedUnit", "", "quantity and unit apart"),
        ("ConsumedQuantity", "", "not consumed"),
        ("CommitmentDiscountId", "projects/lab/reservations/r", "commitment in parts"),
        ("CommitmentDiscountStatus", "Used", "commitment in parts"),
        ("CommitmentDiscountStatus", "Unused", "not consumed"),
        ("CommitmentDiscountQuantity", "9.000000000000", "not what is committed"),
        ("CommitmentDiscountCategory", "Money", "no commitment"),
        ("PricingCategory", "Committed", "committed to nothing"),
        ("SkuId", "v5e/spot/us-west4", "two SKUs for one price"),
        ("CapacityReservationStatus", "Idle", "no reservation"),
        ("CapacityReservationStatus", "Unused", "reservation and status apart"),
        ("CapacityReservationId", "projects/lab/reservations/r", "reservation and status apart"),
        ("PricingUnit", "Hours", "two units for one SKU"),
        ("ChargeClass", "Refund", "no class"),
        ("ChargeFrequency", "Hourly", "no frequency"),
        ("PricingCategory", "Spot", "no pricing"),
        ("ResourceName", " trainer", "no text"),
    ],
)
def test_one_bad_cell_among_good_rows_is_found(column, cell, rule):
    rows = read(focus(*GOOD))
    rows[1][column] = cell
    found = {(name, line) for name, _, line in rules(written(rows))}
    assert (rule, 2) in found
    assert {line for _, line in found} == {2} or rule.startswith("two ")


FEE = {
    "ChargeCategory": "Purchase",
    "EffectiveCost": "0.000000000",
    "ConsumedQuantity": "",
    "ConsumedUnit": "",
    "PricingCategory": "Committed",
    "CommitmentDiscountId": "projects/lab/regions/us-west4/commitments/base",
    "CommitmentDiscountName": "base",
    "CommitmentDiscountCategory": "Usage",
    "CommitmentDiscountType": "Committed Use Discount, 1 year",
    "CommitmentDiscountStatus": "",
    "CommitmentDiscountQuantity": "8.000000000000",
    "CommitmentDiscountUnit": "Chip-Hours",
}
NO_SUB_ACCOUNT = dict.fromkeys(("SubAccountId", "SubAccountName", "SubAccountType"), "")


@pytest.mark.parametrize("changes", [{}, NO_SUB_ACCOUNT])
def test_the_fee_of_a_commitment_breaks_no_rule(changes):
    rows = read(focus(*GOOD))
    rows[1] |= FEE | changes
    assert rules(written(rows)) == set()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"EffectiveCost": "9.600000000"}, "a fee that is not spread"),
        ({"CommitmentDiscountStatus": "Used"}, "commitment in parts"),
        ({"ConsumedQuantity": "28800.0", "ConsumedUnit": "Chip-Seconds"}, "not consumed"),
        (NO_SUB_ACCOUNT | {"SubAccountName": "lab"}, "null"),
    ],
)
def test_a_fee_that_breaks_a_rule_is_found(changes, rule):
    rows = read(focus(*GOOD))
    rows[1] |= FEE | changes
    assert {(name, line) for name, _, line in rules(written(rows))} == {(rule, 2)}


def test_usage_without_a_sub_account_is_found():
    rows = read(focus(*GOOD))
    rows[1] |= NO_SUB_ACCOUNT
    assert {(name, line) for name, _, line in rules(written(rows))} == {("null", 2)}


@pytest.mark.parametrize("column", ["BilledCost", "HostProviderName", "ServiceName"])
def test_a_column_that_is_missing_is_found(column):
    rows = [{k: v for k, v in row.items() if k != column} for row in read(focus(*GOOD))]
    assert ("missing column", column, 0) in rules(written(rows))


def test_a_column_of_our_own_has_to_say_so():
    rows = [{**row, "IdleCost": "0.0"} for row in read(focus(*GOOD))]
    assert rules(written(rows)) == {("unknown column", "IdleCost", 0)}


def test_a_name_that_the_edition_does_not_know_is_found():
    found = rules(focus(*GOOD, version=Version.V1_2), "1.4")
    assert ("unknown column", "ProviderName", 0) in found
    assert ("missing column", "ServiceProviderName", 0) in found


def test_a_row_that_is_there_twice_is_found():
    rows = read(focus(*GOOD))
    assert rules(written([*rows, rows[0]])) == {("duplicate row", "", 4)}


def test_a_row_with_a_cell_too_many_is_found():
    assert ("ragged row", "", 3) in rules(focus(*GOOD).rstrip() + ",more\r\n")


def test_two_prices_of_one_sku_are_no_complaint():
    other = charge(resource=resource(name="other"), price_id="gone", price=None)
    assert complaints(focus(charge(), other), "1.4") == []
