"""Exports charges in FOCUS (FinOps Open Cost and Usage Specification), versions 1.2 and 1.4.

Columns and allowed values: https://focus.finops.org/focus-specification/.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import groupby

from service.domain.billing_period import GRACE, period_of
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.catalog.regions import region_name
from service.domain.clock import DAY, to_rfc3339
from service.domain.costs import focus_sku
from service.domain.costs.charge import Charge, ChargeKind, Resource, Status
from service.domain.money import format_usd, half_even
from service.domain.pricing.price_book import Price

Row = tuple[str, ...]

PROVIDER = "Google Cloud"
QUANTITY_PLACES = 12
"""Decimal places of a number of hours: one second of one chip is 1/3600."""

_BILLIONTH = 10**9
"""FOCUS requires that a cost is price times quantity, to a billionth of the cost."""

_KEPT = 10_000
"""Size of each cache of texts, so that memory stays the same however long an export is."""


class Version(StrEnum):
    """The editions of FOCUS that can be written."""

    V1_2 = "1.2"
    V1_4 = "1.4"


@dataclass(frozen=True, slots=True)
class Account:
    """The billing account. `name` is its display name, empty if it is not configured.

    FOCUS then has null, and ACCOUNT_NAMING is not claimed. A project is a sub-account. Its name is
    its id, which the TPU API uses: FOCUS allows no null there.
    """

    id: str
    type: str
    name: str = ""

    @classmethod
    def from_settings(cls, billing_account: str, install: str, name: str = "") -> Account:
        """The configured Cloud Billing account, else this installation by its name.

        FOCUS requires an account in every row.
        """
        if billing_account:
            return cls(billing_account, "Cloud Billing Account", name)
        return cls(f"tpu-steward/{install}", "TPU Steward Installation", name)


_ACCOUNT = ("BillingAccountId", "BillingAccountName", "BillingAccountType")
_TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
_KIND = ("ChargeClass", "ChargeDescription", "x_Revision", "x_ListPriceKnown", "x_Estimated")
_MONEY = (
    "BillingCurrency",
    "BilledCost",
    "EffectiveCost",
    "ContractedCost",
    "ContractedUnitPrice",
    "ListCost",
    "ListUnitPrice",
    "PricingCurrency",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "ConsumedQuantity",
    "CommitmentDiscountQuantity",
)
_OF_SKU = ("SkuId", "SkuMeter", "SkuPriceId", "SkuPriceDetails")
_OF_RESOURCE = (
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "RegionId",
    "RegionName",
    "AvailabilityZone",
    "PricingCategory",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountCategory",
    "CommitmentDiscountType",
    "CommitmentDiscountStatus",
    "CommitmentDiscountUnit",
    "x_AcceleratorType",
    "x_MachineType",
    "x_ProvisioningModel",
)
_ORIGIN: Mapping[Version, tuple[str, str]] = {
    Version.V1_2: ("ProviderName", "PublisherName"),
    Version.V1_4: ("ServiceProviderName", "HostProviderName"),
}
_ALWAYS = {
    "InvoiceIssuerName": PROVIDER,
    "InvoiceId": "",
    "ServiceName": "Cloud TPU",
    "ServiceCategory": "AI and Machine Learning",
    "ServiceSubcategory": "Machine Learning",
    "ChargeCategory": "Usage",
    "ChargeFrequency": "Usage-Based",
    "PricingUnit": "Chip-Hours",
    "ConsumedUnit": "Chip-Seconds",
}
_OF_MACHINES = {
    "ServiceName": "Compute Engine",
    "ServiceCategory": "Compute",
    "ServiceSubcategory": "Virtual Machines",
    "PricingUnit": "Hours",
    "ConsumedUnit": "Seconds",
}
"""The values that differ for the VMs that drive a TPU Node."""

_OF_UNUSED = {"ConsumedUnit": ""}
"""The values that differ for unused capacity: it has a price, and nothing was consumed."""

_OF_FEE = {"ChargeCategory": "Purchase", "ChargeFrequency": "Recurring", "ConsumedUnit": ""}
"""The values that differ for the fee of a commitment: it is paid before anything is consumed."""

_COMMITMENT = ("Usage", "Calendar Mode Reservation")
"""The category and the type of a calendar-mode reservation. It is paid at a lower price from its
first second to its last, used or not, which is how FOCUS defines a commitment discount."""


def column_names(version: Version) -> Row:
    """The names of all columns of a FOCUS export.

    These are all columns of 1.2, because its rules also refer to columns that are empty. Version
    1.4 names two of them differently; the columns that it adds are not written.
    """
    ours = (*_ACCOUNT, *_TIMES, *_KIND, *_MONEY, *_OF_SKU, *_OF_RESOURCE, "Tags")
    return (*ours, *_ORIGIN[version], *_ALWAYS)


def format_header(version: Version) -> str:
    """The header line of a FOCUS export, with its line break."""
    return f"{_format_cells(*column_names(version))}\r\n"


def format_lines(account: Account, charges: Iterable[Charge], now: int) -> Iterator[str]:
    """Charges as lines of a FOCUS export in RFC 4180, cells in the order of `column_names`.

    The versions differ in the header only. `x_Estimated` is false if nothing can change any more:
    the month of the charge is closed at `now` (`billing_period.py`), and the interval of usage is
    certain.

    The charges come ordered by start and resource. Charges of a resource with the same start are
    ordered by their text, which is the same in every database.
    """
    payer = _format_cells(account.id, account.name, account.type)
    open_from = period_of(now - GRACE).start
    for _, together in groupby(charges, lambda charge: (charge.start, charge.resource.name)):
        found = [_format_line(charge, payer, open_from) for charge in together]
        yield from found if len(found) == 1 else sorted(found)


def _format_line(charge: Charge, payer: str, open_from: int) -> str:
    """The line of a charge. Months from `open_from` on are not closed.

    Cells that many charges share are cached with their quotes.
    """
    resource, price = charge.resource, charge.price
    is_fee = resource.committed is not None and resource.committed.status is Status.PAID
    billed = charge.start if charge.period is None else charge.period
    return ",".join(
        (
            payer,
            _format_month(billed // DAY),
            _instant(charge.start),
            _instant(charge.end),
            # FOCUS calls a charge a correction only if it corrects a closed month.
            "" if charge.period is None else "Correction",
            _describe_charge(resource, adjusted=charge.number > 0),
            str(charge.number),
            "false" if charge.list_price is None or charge.list_amount is None else "true",
            "true" if charge.is_uncertain or billed >= open_from else "false",
            *_money_cells(charge),
            _unknown_sku_cells(resource, charge.price_id)
            if price is None
            else _sku_cells(price, resource.kind),
            _resource_cells(resource),
            _shared_cell(charge.tags),
            _CONSTANTS_OF_FEE if is_fee else _CONSTANTS[resource.kind],
        )
    )


def _format_cells(*texts: str) -> str:
    """A part of a line; a cell with a quote, a comma or a line break is quoted."""
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(texts)
    return written.getvalue()


def _constant_cells(otherwise: Mapping[str, str]) -> str:
    """The end of a line: the cells that are the same for every charge of a kind."""
    values = {**_ALWAYS, **otherwise}
    return _format_cells(PROVIDER, PROVIDER, *values.values()) + "\r\n"


_CONSTANTS = {
    kind: _constant_cells(otherwise)
    for kind, otherwise in {
        ChargeKind.TPU_VM: {},
        ChargeKind.TPU_NODE: {},
        ChargeKind.MACHINE: _OF_MACHINES,
        ChargeKind.RESERVATION: _OF_UNUSED,
        ChargeKind.COMMITMENT: _OF_UNUSED,
    }.items()
}
_CONSTANTS_OF_FEE = _constant_cells(_OF_FEE)


_instant = lru_cache(_KEPT)(to_rfc3339)
_price = lru_cache(_KEPT)(format_usd)


@lru_cache(_KEPT)
def _shared_cell(text: str) -> str:
    """One cell. An empty one is not passed to the writer, which quotes an empty line."""
    return _format_cells(text) if text else ""


@lru_cache(_KEPT)
def _format_month(day: int) -> str:
    month = period_of(day * DAY)
    return _format_cells(to_rfc3339(month.start), to_rfc3339(month.end))


def _money_cells(charge: Charge) -> Row:
    """The cells of `_MONEY`; no number needs a quote."""
    quantity = half_even(charge.quantity * 10**QUANTITY_PLACES, 3_600)
    billed, paid = format_usd(charge.amount), _price(charge.unit_price)
    effective = billed if charge.effective is None else format_usd(charge.effective)
    is_consumed = charge.resource.kind not in (ChargeKind.RESERVATION, ChargeKind.COMMITMENT)
    is_committed = charge.resource.commitment or charge.resource.committed
    contracted = _format_cost(charge.unit_price, quantity, charge.amount)
    if charge.list_price is None or charge.list_amount is None:
        list_cost, list_price = contracted, paid
    else:
        list_cost = _format_cost(charge.list_price, quantity, charge.list_amount)
        list_price = _price(charge.list_price)
    return (
        charge.currency,
        billed,
        effective,
        contracted,
        paid,
        list_cost,
        list_price,
        charge.currency,
        effective,
        paid,
        list_price,
        _format_decimal(quantity, QUANTITY_PLACES),
        f"{charge.quantity}.0" if is_consumed else "",
        _format_decimal(quantity, QUANTITY_PLACES) if is_committed else "",
    )


def _format_cost(price: int, quantity: int, amount: int) -> str:
    """The amount of the ledger if it is price times quantity to a billionth, else the product.

    For tiny amounts, the rounding to a nano-dollar is more than a billionth.
    """
    product, exact = price * quantity, amount * 10**QUANTITY_PLACES
    if abs(product - exact) * _BILLIONTH <= abs(exact):
        return format_usd(amount)
    whole, _, places = _format_decimal(product, 9 + QUANTITY_PLACES).partition(".")
    return f"{whole}.{places.rstrip('0') or '0'}"


def _format_decimal(value: int, places: int) -> str:
    """`value / 10**places` with all places and a point, without an exponent."""
    if value < 0:
        return "-" + _format_decimal(-value, places)
    whole, rest = divmod(value, 10**places)
    return f"{whole}.{rest:0{places}d}"


@lru_cache(_KEPT)
def _sku_cells(price: Price, kind: ChargeKind) -> str:
    return _format_cells(*focus_sku.format_cells(price, kind))


@lru_cache(_KEPT)
def _unknown_sku_cells(resource: Resource, price_id: str) -> str:
    return _format_cells(*focus_sku.format_unknown_cells(resource, price_id))


@lru_cache(_KEPT)
def _resource_cells(of: Resource) -> str:
    is_node = of.kind in (ChargeKind.TPU_VM, ChargeKind.TPU_NODE)
    use = "Unused" if of.kind is ChargeKind.RESERVATION else "Used"
    # Id, name, category, type, status and unit of the committed-use discount or the calendar-mode
    # reservation behind the price. A fee has no status.
    commitment: Row = ("",) * 6
    if of.committed is not None:
        by = of.committed
        commitment = (by.id, by.name, "Usage", by.type, by.status, _ALWAYS["PricingUnit"])
    elif of.commitment:
        name = of.commitment.rpartition("/")[2]
        commitment = (of.commitment, name, *_COMMITMENT, use, _ALWAYS["PricingUnit"])
    return _format_cells(
        of.path,
        of.name,
        of.kind,
        of.project,
        of.project,
        "Project" if of.project else "",
        of.region,
        region_name(of.region),
        of.zone,
        _pricing_category(of),
        of.reservation,
        use if of.reservation else "",
        *commitment,
        of.accelerator_type if is_node else "",
        of.accelerator_type if of.kind is ChargeKind.MACHINE else "",
        of.model,
    )


@lru_cache(_KEPT)
def _describe_charge(of: Resource, *, adjusted: bool) -> str:
    how = of.model.replace("_", " ")
    if of.kind is ChargeKind.RESERVATION:
        how = f"{how} and not used"
    if of.kind is ChargeKind.COMMITMENT:
        is_unused = of.committed is not None and of.committed.status is Status.UNUSED
        part = "Unused part" if is_unused else "Fee"
        return _shared_cell(f"{part} of the commitment {of.name}, {of.generation} in {of.region}")
    about = f"{of.accelerator_type}, {how}, in {of.zone}"
    if of.committed is not None:
        about += f", covered by the commitment {of.committed.name}"
    return _shared_cell(f"Adjustment of {about}" if adjusted else about)


def _pricing_category(of: Resource) -> str:
    """The pricing category: listed, floating, or by a commitment that the row names.

    The price in a reservation without a record follows an agreement that is not known: "Other".
    """
    if of.committed is not None:
        return "Committed"
    match ProvisioningModel(of.model):
        case ProvisioningModel.ON_DEMAND | ProvisioningModel.FLEX_START:
            return "Standard"
        case ProvisioningModel.SPOT | ProvisioningModel.PREEMPTIBLE:
            return "Dynamic"
        case ProvisioningModel.RESERVED:
            return "Committed" if of.commitment else "Other"
