"""What FOCUS says that a file must be, as strict as it says it: other checkers miss some of it.

`complaints` names every rule that a file breaks. It knows nothing of how our files are made.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

Cells = Mapping[str, str]
Rule = Callable[[Cells], bool]

DECIMAL = re.compile(r"-?\d+\.\d+")
INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
CURRENCIES = frozenset({"USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "INR", "BRL", "KRW"})
"""The ISO 4217 codes that a bill of Google's is most often in."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """A rule that is broken, in which column, on which line of the data; 0 is the header."""

    rule: str
    column: str
    line: int


MANDATORY = {
    "BilledCost": "decimal",
    "EffectiveCost": "decimal",
    "ContractedCost": "decimal",
    "ListCost": "decimal",
    "BillingAccountId": "text",
    "BillingAccountName": "text?",
    "BillingCurrency": "currency",
    "BillingPeriodStart": "instant",
    "BillingPeriodEnd": "instant",
    "ChargePeriodStart": "instant",
    "ChargePeriodEnd": "instant",
    "ChargeCategory": "category",
    "ChargeClass": "class?",
    "ChargeDescription": "text?",
    "InvoiceIssuerName": "text",
    "PricingQuantity": "decimal",
    "PricingUnit": "text",
    "ServiceCategory": "text",
    "ServiceName": "text",
}
NAMED = {
    "1.2": {"ProviderName": "text", "PublisherName": "text"},
    "1.4": {"ServiceProviderName": "text", "HostProviderName": "text?"},
}
OTHERS = {
    "AvailabilityZone": "text?",
    "BillingAccountType": "text",
    "CapacityReservationId": "text?",
    "CapacityReservationStatus": "reservation?",
    "ChargeFrequency": "frequency",
    "CommitmentDiscountCategory": "commitment?",
    "CommitmentDiscountId": "text?",
    "CommitmentDiscountName": "text?",
    "CommitmentDiscountQuantity": "decimal?",
    "CommitmentDiscountStatus": "reservation?",
    "CommitmentDiscountType": "text?",
    "CommitmentDiscountUnit": "text?",
    "ConsumedQuantity": "decimal?",
    "ConsumedUnit": "text?",
    "ContractedUnitPrice": "price",
    "InvoiceId": "text?",
    "ListUnitPrice": "price",
    "PricingCategory": "pricing",
    "PricingCurrency": "currency",
    "PricingCurrencyContractedUnitPrice": "price",
    "PricingCurrencyEffectiveCost": "decimal",
    "PricingCurrencyListUnitPrice": "price",
    "RegionId": "text",
    "RegionName": "text",
    "ResourceId": "text",
    "ResourceName": "text",
    "ResourceType": "text",
    "ServiceSubcategory": "text",
    "SkuId": "text",
    "SkuMeter": "text",
    "SkuPriceDetails": "details",
    "SkuPriceId": "text",
    "SubAccountId": "text",
    "SubAccountName": "text",
    "SubAccountType": "text",
    "Tags": "object?",
}
PARENTS = {
    "Machine Learning": "AI and Machine Learning",
    "Generative AI": "AI and Machine Learning",
    "Virtual Machines": "Compute",
    "Serverless Compute": "Compute",
    "Object Storage": "Storage",
}
ALLOWED = {
    "category": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "class": {"Correction"},
    "frequency": {"One-Time", "Recurring", "Usage-Based"},
    "pricing": {"Standard", "Dynamic", "Committed", "Other"},
    "reservation": {"Used", "Unused"},
    "commitment": {"Spend", "Usage"},
    "currency": CURRENCIES,
}


def complaints(text: str, version: str) -> list[Complaint]:
    """All that is wrong with a file."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    header = list(reader.fieldnames or ())
    rows = list(reader)
    found = [*_header(header, version)]
    for line, row in enumerate(rows, 1):
        wrong = list(_cells(row, line, version))
        broken = () if wrong else (rule for rule in RULES if not rule[2](row))
        found += [*wrong, *(Complaint(name, column, line) for name, column, _ in broken)]
    return [*found, *_together(rows)]


def _header(header: list[str], version: str) -> Iterator[Complaint]:
    mandatory = MANDATORY | NAMED[version]
    known = mandatory | OTHERS
    for name in mandatory.keys() - set(header):
        yield Complaint("missing column", name, 0)
    for name, times in Counter(header).items():
        if times > 1:
            yield Complaint("column twice", name, 0)
        if name not in known and not name.startswith("x_"):
            yield Complaint("unknown column", name, 0)


def _cells(row: Cells, line: int, version: str) -> Iterator[Complaint]:
    if None in row or None in row.values():
        yield Complaint("ragged row", "", line)
        return
    for name, kind in (MANDATORY | NAMED[version] | OTHERS).items():
        cell = row.get(name)
        if cell is None or (not cell and kind.endswith("?")):
            continue
        if not cell and name in SUB_ACCOUNT and _is_of_no_sub_account(row):
            continue
        if not cell:
            yield Complaint("null", name, line)
        elif not _is(kind.rstrip("?"), cell):
            yield Complaint(f"no {kind.rstrip('?')}", name, line)


def _is_of_no_sub_account(row: Cells) -> bool:
    """Whether a row is of the whole billing account: a commitment itself, bought for all of it."""
    is_itself = row.get("ChargeCategory") == "Purchase" or (
        row.get("CommitmentDiscountStatus") == "Unused" and not row.get("CapacityReservationId")
    )
    has_any = any(row.get(name) for name in SUB_ACCOUNT)
    return is_itself and bool(row.get("CommitmentDiscountId")) and not has_any


def _is(kind: str, cell: str) -> bool:
    if kind in ALLOWED:
        return cell in ALLOWED[kind]
    return IS[kind](cell)


def _instant(cell: str) -> datetime | None:
    try:
        return datetime.strptime(cell, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def _flat(cell: str) -> dict[str, object] | None:
    """The object, if it is one: no key twice, nothing within anything."""
    try:
        pairs = json.loads(cell, object_pairs_hook=list)
    except ValueError:
        return None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        return None
    if any(isinstance(value, list | dict) for _, value in pairs):
        return None
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None


IS: Mapping[str, Callable[[str], bool]] = {
    "text": lambda cell: cell == cell.strip(),
    "decimal": lambda cell: DECIMAL.fullmatch(cell) is not None,
    "price": lambda cell: DECIMAL.fullmatch(cell) is not None and not cell.startswith("-"),
    "instant": lambda cell: INSTANT.fullmatch(cell) is not None and _instant(cell) is not None,
    "object": lambda cell: _flat(cell) is not None,
    "details": lambda cell: all(key.startswith("x_") for key in _flat(cell) or ["?"]),
}


def _is_product(cost: str, price: str) -> Rule:
    """To a billionth of the cost, however small it is: stricter than FOCUS, which stops at 1."""

    def holds(row: Cells) -> bool:
        product = Decimal(row[price]) * Decimal(row["PricingQuantity"])
        return abs(product - Decimal(row[cost])) <= Decimal("1e-9") * abs(Decimal(row[cost]))

    return holds


def _has_its_parent(row: Cells) -> bool:
    return PARENTS.get(row["ServiceSubcategory"]) == row["ServiceCategory"]


def _in_period(row: Cells) -> bool:
    """What corrects a closed month was charged before the month that it is billed in."""
    if row["ChargeClass"] == "Correction":
        return row["ChargePeriodEnd"] <= row["BillingPeriodStart"]
    begins = row["BillingPeriodStart"] <= row["ChargePeriodStart"]
    return begins and row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]


def _ends_after_start(period: str) -> Rule:
    return lambda row: row[f"{period}Start"] < row[f"{period}End"]


def _goes_with_its_unit(of: str) -> Rule:
    return lambda row: bool(row[f"{of}Quantity"]) == bool(row[f"{of}Unit"])


def _reservation_has_its_status(row: Cells) -> bool:
    """FOCUS: of usage, a status where there is a reservation, and none where there is none."""
    return bool(row["CapacityReservationId"]) == bool(row["CapacityReservationStatus"])


def _commitment_is_whole(row: Cells) -> bool:
    """FOCUS: a commitment discount has all that goes with it, and without one there is nothing.
    Only usage has a status."""
    told = {bool(row[f"CommitmentDiscount{name}"]) for name in COMMITMENT if name != "Status"}
    used = bool(row["CommitmentDiscountId"]) and row["ChargeCategory"] == "Usage"
    status = bool(row["CommitmentDiscountStatus"])
    return told == {bool(row["CommitmentDiscountId"])} and status == used


def _committed_names_its_commitment(row: Cells) -> bool:
    """FOCUS: Committed is what is subject to a commitment discount, and nothing else."""
    return (row["PricingCategory"] == "Committed") == bool(row["CommitmentDiscountId"])


def _used_is_consumed(row: Cells) -> bool:
    """FOCUS: usage was consumed, but for the unused part of a commitment discount."""
    is_used = row["CommitmentDiscountStatus"] != "Unused" and row["ChargeCategory"] == "Usage"
    return bool(row["ConsumedQuantity"]) == is_used


def _fee_is_spread(row: Cells) -> bool:
    """FOCUS: what is bought for later usage has no effective cost; that usage has it."""
    return row["ChargeCategory"] != "Purchase" or Decimal(row["EffectiveCost"]) == 0


def _covers_its_quantity(row: Cells) -> bool:
    """What of a commitment in the unit of the price is used, or not used."""
    same = row["CommitmentDiscountUnit"] in ("", row["PricingUnit"])
    return same and row["CommitmentDiscountQuantity"] in ("", row["PricingQuantity"])


def _same_sign(row: Cells) -> bool:
    """A charge of less than nothing takes back as many chip-seconds, and the other way round."""
    if not row["ConsumedQuantity"]:
        return True
    quantity, consumed = Decimal(row["PricingQuantity"]), Decimal(row["ConsumedQuantity"])
    return abs(quantity - consumed / 3_600) <= Decimal("5e-13")


def _is_a_month(row: Cells) -> bool:
    start, end = _instant(row["BillingPeriodStart"]), _instant(row["BillingPeriodEnd"])
    assert start is not None
    following = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return start == start.replace(day=1, hour=0, minute=0, second=0) and end == following


SUB_ACCOUNT = ("SubAccountId", "SubAccountName", "SubAccountType")
COMMITMENT = ("Name", "Category", "Type", "Status", "Quantity", "Unit")

RULES: tuple[tuple[str, str, Rule], ...] = (
    ("not price times quantity", "ListCost", _is_product("ListCost", "ListUnitPrice")),
    (
        "not price times quantity",
        "ContractedCost",
        _is_product("ContractedCost", "ContractedUnitPrice"),
    ),
    ("of another category", "ServiceSubcategory", _has_its_parent),
    ("ends before it starts", "ChargePeriodEnd", _ends_after_start("ChargePeriod")),
    ("ends before it starts", "BillingPeriodEnd", _ends_after_start("BillingPeriod")),
    ("not a month", "BillingPeriodStart", _is_a_month),
    ("outside of its billing period", "ChargePeriodStart", _in_period),
    ("reservation and status apart", "CapacityReservationStatus", _reservation_has_its_status),
    ("commitment in parts", "CommitmentDiscountId", _commitment_is_whole),
    ("committed to nothing", "PricingCategory", _committed_names_its_commitment),
    ("not consumed", "ConsumedQuantity", _used_is_consumed),
    ("a fee that is not spread", "EffectiveCost", _fee_is_spread),
    ("not what is committed", "CommitmentDiscountQuantity", _covers_its_quantity),
    ("quantity and unit apart", "PricingUnit", _goes_with_its_unit("Pricing")),
    ("quantity and unit apart", "ConsumedUnit", _goes_with_its_unit("Consumed")),
    ("not what was consumed", "PricingQuantity", _same_sign),
)


def _together(rows: list[dict[str, str]]) -> Iterator[Complaint]:
    seen: set[tuple[str, ...]] = set()
    skus: dict[str, str] = {}
    units: dict[str, str] = {}
    for line, row in enumerate(rows, 1):
        cells = tuple(str(cell) for cell in row.values())
        if cells in seen:
            yield Complaint("duplicate row", "", line)
        seen.add(cells)
        sku, price = row.get("SkuId", ""), row.get("SkuPriceId", "")
        if skus.setdefault(price, sku) != sku:
            yield Complaint("two SKUs for one price", "SkuId", line)
        unit = row.get("PricingUnit", "")
        if units.setdefault(sku, unit) != unit:
            yield Complaint("two units for one SKU", "PricingUnit", line)
