"""Commitments in a FOCUS export: what is covered, what is left to pay, fees, and what is unused."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

import pytest
from focus_data_toolkit.model.capabilities import KNOWN_CONDITIONS
from focus_data_toolkit.model.validator import lint_focus_1_4_structure

from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.costs.focus import Version
from service.domain.metering.attribution import Attribution
from tests import books
from tests.charges import read
from tests.domain.focus_checks import complaints
from tests.hands import NOON
from tests.purchases import metered

FOCUS = "/v1/exports/focus"
MONTH = "2026-11-01,2026-12-01"
START = NOON - 6 * HOUR
BASE = {
    "name": "base",
    "region": "us-west4",
    "generation": "v5e",
    "chips": 8,
    "term": "1y",
    "starts_at": to_rfc3339(START),
    "team": "infra",
    "labels": {"order": "17"},
}


@pytest.fixture
def record(client):
    """Record a commitment; answers its id."""

    def recorded(**changes):
        answer = client.post("/v1/commitments", json=BASE | changes)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    return recorded


@pytest.fixture
def export(client):
    """The text of a window, in an edition."""

    def fetched(window=MONTH, version="1.4"):
        answer = client.get(FOCUS, params={"window": window, "version": version})
        assert answer.status_code == 200, answer.text
        return answer.text

    return fetched


def a_morning(units, clock):
    """Two nodes, one of them larger than what is committed, and hours in which nothing ran."""
    books.ran(units, NOON - 5 * HOUR + 17, NOON - 3 * HOUR - 101, name="train")
    books.ran(units, NOON - 4 * HOUR + 3, NOON - 3 * HOUR, name="serve", chips=24)
    metered(units, clock)


def sums(rows, column):
    return sum((Decimal(row[column]) for row in rows), Decimal(0))


def by_status(rows):
    found = defaultdict(list)
    for row in rows:
        key = "Fee" if row["ChargeCategory"] == "Purchase" else row["CommitmentDiscountStatus"]
        found[key].append(row)
    return found


def test_without_a_commitment_that_stands_the_file_is_the_same_to_the_byte(
    client, units, clock, export, record
):
    books.kept(units, clock)
    a_morning(units, clock)
    before = export()
    gone = record()
    assert export() != before
    client.delete(f"/v1/commitments/{gone}", params={"reason": "bought twice"})
    record(starts_at="2024-01-01")  # no rate is known for it
    assert export() == before


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("project", ["", "lab"])
def test_the_file_breaks_no_rule(units, clock, export, record, version, project):
    record(project=project)
    record(name="more", chips=5, term="3y", usd_per_chip_hour="0.333333333", project=project)
    books.kept(units, clock)
    a_morning(units, clock)
    text = export(version=version)
    assert set(by_status(read(text))) == {"", "Fee", "Used", "Unused"}
    assert complaints(text, version) == []


def test_the_file_breaks_no_rule_of_the_focus_data_toolkit(units, clock, export, record):
    record(usd_per_chip_hour="0.333333333", project="lab")
    a_morning(units, clock)
    rows = read(export())
    report = lint_focus_1_4_structure("Cost and Usage", rows, supported_conditions=KNOWN_CONDITIONS)
    assert report.messages() == []


def test_billed_and_effective_costs_are_the_same_to_the_nano_dollar(units, clock, export, record):
    record(usd_per_chip_hour="0.777777777")
    record(name="more", chips=3, starts_at=to_rfc3339(START + 1_234))
    a_morning(units, clock)
    rows = read(export())
    assert sums(rows, "BilledCost") == sums(rows, "EffectiveCost")
    days = [f"{to_rfc3339(at)},{to_rfc3339(at + HOUR)}" for at in range(START - HOUR, NOON, HOUR)]
    for window in days:
        hour = read(export(window=window))
        assert sums(hour, "BilledCost") == sums(hour, "EffectiveCost")
    assert sum(len(read(export(window=window))) for window in days) == len(rows)


def test_what_is_said_adds_up_to_what_the_report_says(client, units, clock, export, record):
    record(usd_per_chip_hour="0.777777777")
    a_morning(units, clock)
    said = by_status(read(export()))
    report = client.get(
        "/v1/commitments/usage", params={"window": f"{to_rfc3339(START)},2026-12-01"}
    )
    found = report.json()
    assert sums(said["Fee"], "BilledCost") == Decimal(found["fee"])
    assert sums(said["Used"], "EffectiveCost") == Decimal(found["total"]["covered_cost"])
    assert sums(said["Unused"], "EffectiveCost") == Decimal(found["unused"])
    left = Decimal(found["total"]["charged"]) - Decimal(found["total"]["avoided"])
    assert sums(said[""], "BilledCost") == left
    covered = sum(Decimal(row["ConsumedQuantity"]) for row in said["Used"])
    assert covered == found["total"]["covered_chip_seconds"]


def test_quantities_of_usage_are_those_of_the_ledger_however_they_are_split(
    units, clock, export, record
):
    a_morning(units, clock)
    before = read(export())
    record()
    after = [row for row in read(export()) if row["ResourceType"] != "TPU Commitment"]
    assert len(after) > len(before)
    for column in ("ConsumedQuantity", "PricingQuantity"):
        assert abs(sums(after, column) - sums(before, column)) < Decimal("1e-9")
    assert abs(sums(after, "ListCost") - sums(before, "ListCost")) < Decimal("1e-6")


def test_a_covered_hour_is_paid_by_the_fee_and_costs_its_part(units, clock, export, record):
    its_id = record()
    books.ran(units, START, START + HOUR, name="train")
    metered(units, clock)
    hour = f"{to_rfc3339(START)},{to_rfc3339(START + HOUR)}"
    used, fee = sorted(
        read(export(window=hour)), key=lambda row: row["ChargeCategory"], reverse=True
    )
    assert fee["ChargeCategory"] == "Purchase"
    assert {
        name: fee[name]
        for name in (
            *("BilledCost", "EffectiveCost", "ContractedCost", "ListCost", "ListUnitPrice"),
            *("ChargeFrequency", "PricingCategory", "PricingQuantity", "ConsumedQuantity"),
            *("CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountCategory"),
            *("CommitmentDiscountType", "CommitmentDiscountStatus", "CommitmentDiscountQuantity"),
            *("CommitmentDiscountUnit", "ResourceType", "RegionId", "AvailabilityZone"),
            *("SkuId", "SkuPriceId", "ChargeDescription", "Tags", "x_ProvisioningModel"),
        )
    } == {
        "BilledCost": "6.720000000",
        "EffectiveCost": "0.000000000",
        "ContractedCost": "6.720000000",
        "ListCost": "6.720000000",
        "ListUnitPrice": "0.840000000",
        "ChargeFrequency": "Recurring",
        "PricingCategory": "Committed",
        "PricingQuantity": "8.000000000000",
        "ConsumedQuantity": "",
        "CommitmentDiscountId": f"tpu-steward/commitments/{its_id}",
        "CommitmentDiscountName": "base",
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountType": "Committed Use Discount, 1 year",
        "CommitmentDiscountStatus": "",
        "CommitmentDiscountQuantity": "8.000000000000",
        "CommitmentDiscountUnit": "Chip-Hours",
        "ResourceType": "TPU Commitment",
        "RegionId": "us-west4",
        "AvailabilityZone": "",
        "SkuId": "v5e/cud_1y/us-west4",
        "SkuPriceId": "v5e/cud_1y/chip_hour/us-west4/2026-08-06",
        "ChargeDescription": "Fee of the commitment base, v5e in us-west4",
        "Tags": '{"order":"17","team":"infra"}',
        "x_ProvisioningModel": "cud_1y",
    }
    assert {
        name: used[name]
        for name in (
            *("BilledCost", "EffectiveCost", "ContractedCost", "ListCost", "ContractedUnitPrice"),
            *("PricingCategory", "ConsumedQuantity", "CommitmentDiscountName", "ResourceName"),
            *("CommitmentDiscountStatus", "CommitmentDiscountQuantity", "ChargeDescription"),
        )
    } == {
        "BilledCost": "0.000000000",
        "EffectiveCost": "6.720000000",
        "ContractedCost": "9.6",
        "ListCost": "9.600000000",
        "ContractedUnitPrice": "1.200000000",
        "PricingCategory": "Committed",
        "ConsumedQuantity": "28800.0",
        "CommitmentDiscountName": "base",
        "ResourceName": "train",
        "CommitmentDiscountStatus": "Used",
        "CommitmentDiscountQuantity": "8.000000000000",
        "ChargeDescription": "v5litepod-8, on demand, in us-west4-a,"
        " covered by the commitment base",
    }


def test_an_hour_in_which_nothing_ran_is_unused(units, clock, export, record):
    record(project="lab")
    hour = f"{to_rfc3339(START)},{to_rfc3339(START + HOUR)}"
    said = by_status(read(export(window=hour)))
    (unused,) = said["Unused"]
    assert (unused["BilledCost"], unused["EffectiveCost"]) == ("0.000000000", "6.720000000")
    assert unused["CommitmentDiscountQuantity"] == "8.000000000000"
    assert unused["ConsumedQuantity"] == unused["ConsumedUnit"] == ""
    assert unused["SubAccountId"] == "lab"
    assert unused["ResourceId"] == "projects/lab/regions/us-west4/commitments/base"


def test_what_is_not_posted_is_neither_covered_nor_unused(units, clock, export, record):
    """The node runs since noon; its usage is posted an hour later than the clock says."""
    record()
    books.ran(units, NOON, NOON + 3 * HOUR)
    clock.pass_(HOUR + 600)
    assert {row["ChargePeriodEnd"] for row in read(export())} <= {
        to_rfc3339(START + number * HOUR) for number in range(1, 7)
    }
    metered(units, clock)
    said = by_status(read(export()))
    assert [row["ChargePeriodStart"] for row in said["Used"]] == [to_rfc3339(NOON)]
    assert max(row["ChargePeriodEnd"] for row in said["Fee"]) == to_rfc3339(NOON + HOUR)


def test_an_end_that_was_sooner_than_believed_leaves_nothing_to_pay_twice(
    units, clock, export, record
):
    """The adjustment stays as the ledger has it; what it takes back is no longer covered."""
    record()
    node = books.ran(units, START, START + 2 * HOUR, name="train")
    metered(units, clock)
    with units() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
        unit.usage.save(replace(usage, end=START + HOUR + 2_489, dirty=True))
    metered(units, clock)
    text = export()
    rows = read(text)
    said = by_status(rows)
    assert {row["x_Revision"] for row in said[""]} == {"0", "1"}
    assert sums(said[""], "BilledCost") == sums(said[""], "ConsumedQuantity") == 0
    assert sums(said["Used"], "ConsumedQuantity") == 8 * (HOUR + 2_489)
    assert sums(rows, "BilledCost") == sums(rows, "EffectiveCost")
    assert complaints(text, "1.4") == []


def test_a_node_that_changes_hands_within_an_hour_is_covered_for_both(units, clock, export, record):
    record()
    node = books.ran(units, START, START + HOUR, name="train")
    later = Attribution(node.id, START + 1_000, owner="eve", team="nlp")
    with units() as unit:
        unit.attributions.add(later, START + 1_000)
    metered(units, clock)
    used = by_status(read(export()))["Used"]
    covered = {json.loads(row["Tags"])["team"]: row["ConsumedQuantity"] for row in used}
    assert covered == {"vision": "8000.0", "nlp": "20800.0"}


def test_a_window_of_days_to_come_has_no_fee_yet(export, record):
    record()
    window = f"{to_rfc3339(NOON + DAY)},{to_rfc3339(NOON + 2 * DAY)}"
    assert read(export(window=window)) == []
