"""Charges in the words of FOCUS (FinOps Open Cost and Usage Specification), 1.2 and 1.4.

The columns and what may be in them: https://focus.finops.org/focus-specification/.
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
from service.domain.clock import DAY, rfc3339
from service.domain.costs import focus_sku
from service.domain.costs.charge import Charge, ChargeKind, Resource, Status
from service.domain.money import half_even, usd
from service.domain.pricing.price_book import Price

Row = tuple[str, ...]

PROVIDER = "Google Cloud"
QUANTITY_PLACES = 12
"""Decimal places of a number of hours: one second of one chip is 1/3600."""

_BILLIONTH = 10**9
"""A cost has to be price times quantity to a billionth of itself."""

_KEPT = 10_000
"""How many texts are kept at most: memory stays the same however long an export is."""


class Version(StrEnum):
    """The editions of FOCUS that can be written."""

    V1_2 = "1.2"
    V1_4 = "1.4"


@dataclass(frozen=True, slots=True)
class Account:
    """Who is billed. `name` is the display name of the account, empty where nobody told it: FOCUS
    then has null, and ACCOUNT_NAMING is not claimed. The name of a project, which is a sub-account,
    is its id, by which the TPU API names it: FOCUS allows no null there."""

    id: str
    type: str
    name: str = ""

    @classmethod
    def of(cls, billing_account: str, install: str, name: str = "") -> Account:
        """The Cloud Billing account that is set, or else this installation by its name: FOCUS
        allows no row that says neither."""
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
"""What is said otherwise of the machines that users drive a TPU Node with."""

_OF_UNUSED = {"ConsumedUnit": ""}
"""What is said otherwise of what nobody used: it has a price, and nothing of it was consumed."""

_OF_FEE = {"ChargeCategory": "Purchase", "ChargeFrequency": "Recurring", "ConsumedUnit": ""}
"""What is said otherwise of the fee of a commitment: it is paid before anything is consumed."""

_COMMITMENT = ("Usage", "Calendar Mode Reservation")
"""The category and the type of what a reservation by the calendar is: it is paid at a lower price
from its first second to its last, used or not, as FOCUS defines a commitment discount."""


def columns(version: Version) -> Row:
    """The header: every column of 1.2, as its rules speak of columns that may well be empty; in 1.4
    two of them bear other names, and of the newer ones we have nothing to say."""
    ours = (*_ACCOUNT, *_TIMES, *_KIND, *_MONEY, *_OF_SKU, *_OF_RESOURCE, "Tags")
    return (*ours, *_ORIGIN[version], *_ALWAYS)


def header(version: Version) -> str:
    """The first line."""
    return f"{_cells(*columns(version))}\r\n"


def lines(account: Account, charges: Iterable[Charge], now: int) -> Iterator[str]:
    """Charges as lines of RFC 4180, cells in the order of `columns`; the editions differ in the
    header alone.

    `x_Estimated` is false where nothing can change any more: the month of the charge is closed at
    `now` (`period.py`), and it is known when the node was in use.

    The charges come by start and node. Those of a node that start together are put in the order of
    what the lines say, which is the same wherever the ledger is.
    """
    payer = _cells(account.id, account.name, account.type)
    open_from = period_of(now - GRACE).start
    for _, together in groupby(charges, _start_and_resource):
        found = [_line(charge, payer, open_from) for charge in together]
        yield from found if len(found) == 1 else sorted(found)


def _start_and_resource(charge: Charge) -> tuple[int, str]:
    return charge.start, charge.resource.name


def _line(charge: Charge, payer: str, open_from: int) -> str:
    """The cells of a charge; what many charges share is spelled once, quotes and all. Months from
    `open_from` on are not closed."""
    resource, price = charge.resource, charge.price
    billed = charge.start if charge.period is None else charge.period
    return ",".join(
        (
            payer,
            _month(billed // DAY),
            _instant(charge.start),
            _instant(charge.end),
            # A correction, in the words of FOCUS, is only what corrects a month that was closed.
            "" if charge.period is None else "Correction",
            _description(resource, adjusted=charge.number > 0),
            str(charge.number),
            "false" if charge.list_price is None or charge.list_amount is None else "true",
            "true" if charge.is_uncertain or billed >= open_from else "false",
            *_money(charge),
            _unknown_sku(resource, charge.price_id)
            if price is None
            else _sku(price, resource.kind),
            _resource(resource),
            _shared_cell(charge.tags),
            _rest_of(resource),
        )
    )


def _cells(*texts: str) -> str:
    """A part of a line: what holds a quote, a comma or a line break is quoted."""
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(texts)
    return written.getvalue()


def _rest(otherwise: Mapping[str, str]) -> str:
    """The end of a line: what it says of every charge of a kind."""
    said = {**_ALWAYS, **otherwise}
    return _cells(PROVIDER, PROVIDER, *said.values()) + "\r\n"


_REST = {
    kind: _rest(otherwise)
    for kind, otherwise in {
        ChargeKind.TPU_VM: {},
        ChargeKind.TPU_NODE: {},
        ChargeKind.MACHINE: _OF_MACHINES,
        ChargeKind.RESERVATION: _OF_UNUSED,
        ChargeKind.COMMITMENT: _OF_UNUSED,
    }.items()
}
_REST_OF_FEE = _rest(_OF_FEE)


def _rest_of(of: Resource) -> str:
    is_fee = of.committed is not None and of.committed.status is Status.PAID
    return _REST_OF_FEE if is_fee else _REST[of.kind]


_instant = lru_cache(_KEPT)(rfc3339)
_price = lru_cache(_KEPT)(usd)


@lru_cache(_KEPT)
def _shared_cell(text: str) -> str:
    """One cell. The writer quotes a line of nothing, which a cell between others must not be."""
    return _cells(text) if text else ""


@lru_cache(_KEPT)
def _month(day: int) -> str:
    month = period_of(day * DAY)
    return _cells(rfc3339(month.start), rfc3339(month.end))


def _money(charge: Charge) -> Row:
    """The cells from the currency on; no number needs a quote."""
    quantity = half_even(charge.quantity * 10**QUANTITY_PLACES, 3_600)
    billed, paid = usd(charge.amount), _price(charge.unit_price)
    effective = billed if charge.effective is None else usd(charge.effective)
    is_consumed = charge.resource.kind not in (ChargeKind.RESERVATION, ChargeKind.COMMITMENT)
    is_committed = charge.resource.commitment or charge.resource.committed
    contracted = _cost(charge.unit_price, quantity, charge.amount)
    if charge.list_price is None or charge.list_amount is None:
        list_cost, list_price = contracted, paid
    else:
        list_cost = _cost(charge.list_price, quantity, charge.list_amount)
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
        _decimal(quantity, QUANTITY_PLACES),
        f"{charge.quantity}.0" if is_consumed else "",
        _decimal(quantity, QUANTITY_PLACES) if is_committed else "",
    )


def _cost(price: int, quantity: int, amount: int) -> str:
    """The amount as it is in the ledger where it is price times quantity, to a billionth; the
    product itself where the nano-dollar that the amount was rounded to is more than that."""
    product, exact = price * quantity, amount * 10**QUANTITY_PLACES
    if abs(product - exact) * _BILLIONTH <= abs(exact):
        return usd(amount)
    whole, _, places = _decimal(product, 9 + QUANTITY_PLACES).partition(".")
    return f"{whole}.{places.rstrip('0') or '0'}"


def _decimal(value: int, places: int) -> str:
    """`value / 10**places` in full; always with a point, never with an exponent."""
    if value < 0:
        return "-" + _decimal(-value, places)
    whole, rest = divmod(value, 10**places)
    return f"{whole}.{rest:0{places}d}"


@lru_cache(_KEPT)
def _sku(price: Price, kind: ChargeKind) -> str:
    return _cells(*focus_sku.of(price, kind))


@lru_cache(_KEPT)
def _unknown_sku(resource: Resource, price_id: str) -> str:
    return _cells(*focus_sku.of_unknown(resource, price_id))


@lru_cache(_KEPT)
def _resource(of: Resource) -> str:
    is_node = of.kind in (ChargeKind.TPU_VM, ChargeKind.TPU_NODE)
    return _cells(
        of.path,
        of.name,
        of.kind,
        of.project,
        of.project,
        "Project" if of.project else "",
        of.region,
        region_name(of.region),
        of.zone,
        _category(of),
        of.reservation,
        _status(of),
        *_commitment(of),
        of.accelerator_type if is_node else "",
        of.accelerator_type if of.kind is ChargeKind.MACHINE else "",
        of.model,
    )


def _commitment(of: Resource) -> Row:
    """Id, name, category, type, status and unit of the committed-use discount or the reservation
    by the calendar that the price is due to; all empty where there is none. A fee has no status."""
    if of.committed is not None:
        use = of.committed
        return use.id, use.name, "Usage", use.type, use.status, _ALWAYS["PricingUnit"]
    if not of.commitment:
        return ("",) * 6
    name = of.commitment.rpartition("/")[2]
    status = "Unused" if of.kind is ChargeKind.RESERVATION else "Used"
    return of.commitment, name, *_COMMITMENT, status, _ALWAYS["PricingUnit"]


def _status(of: Resource) -> str:
    """Whether what was reserved was used; empty where nothing was."""
    if not of.reservation:
        return ""
    return "Unused" if of.kind is ChargeKind.RESERVATION else "Used"


@lru_cache(_KEPT)
def _description(of: Resource, *, adjusted: bool) -> str:
    how = of.model.replace("_", " ")
    if of.kind is ChargeKind.RESERVATION:
        how = f"{how} and not used"
    if of.kind is ChargeKind.COMMITMENT:
        return _shared_cell(_of_commitment(of))
    about = f"{of.accelerator_type}, {how}, in {of.zone}"
    if of.committed is not None:
        about += f", covered by the commitment {of.committed.name}"
    return _shared_cell(f"Adjustment of {about}" if adjusted else about)


def _of_commitment(of: Resource) -> str:
    about = f"{of.generation} in {of.region}"
    if of.committed is not None and of.committed.status is Status.UNUSED:
        return f"Unused part of the commitment {of.name}, {about}"
    return f"Fee of the commitment {of.name}, {about}"


def _category(of: Resource) -> str:
    """How its price comes about: listed, floating, or by a commitment that the row names. What runs
    in a reservation that nobody wrote down has a price of some agreement that we do not know."""
    if of.committed is not None:
        return "Committed"
    match ProvisioningModel(of.model):
        case ProvisioningModel.ON_DEMAND | ProvisioningModel.FLEX_START:
            return "Standard"
        case ProvisioningModel.SPOT | ProvisioningModel.PREEMPTIBLE:
            return "Dynamic"
        case ProvisioningModel.RESERVED:
            return "Committed" if of.commitment else "Other"
