"""A bill as a stream of bytes: which export it is, and its rows one after the other."""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, DecimalException
from enum import StrEnum
from functools import lru_cache
from itertools import chain

from service.domain.clock import HOUR, floor_to
from service.domain.errors import Rejected
from service.domain.money import decimal_of
from service.domain.pricing.price_book import RESERVED
from service.domain.reconciliation.bill_row import (
    REGULAR,
    Amounts,
    BillRow,
    Cells,
    RowSpan,
    SkipReason,
    read_amounts,
    read_row,
    read_span,
    refused,
    text,
)
from service.domain.reconciliation.bill_sku import CLOUD_TPU, COMPUTE, BillSku

LONGEST_LINE = 1024 * 1024
"""Characters of a line: a longer one is no row of a bill, and would be held in memory whole."""

MAX_COLUMNS = 500
"""Of a CSV file: a row may have as many fields of 128 KiB, over many lines, and is held whole."""

_REQUIRED = (
    "cost_type",
    "service_id",
    "sku_id",
    "sku_description",
    "usage_start_time",
    "usage_end_time",
    "project_id",
    "cost",
    "currency",
)
_RESOURCE = ("resource_global_name", "resource_name")
_IN_EVERY_ROW = ("cost_type", "usage_start_time", "usage_end_time", "cost", "currency")
"""What no row leaves out; JSON lines leave out what is null."""

_FOCUS = {
    "cost_type": "ChargeCategory",
    "service_id": "x_ServiceId",
    "sku_id": "SkuId",
    "sku_description": "ChargeDescription",
    "usage_start_time": "ChargePeriodStart",
    "usage_end_time": "ChargePeriodEnd",
    "project_id": "SubAccountId",
    "cost": "BilledCost",
    "currency": "BillingCurrency",
    "resource_global_name": "ResourceId",
    "location_zone": "AvailabilityZone",
    "cost_at_list": "ListCost",
    "usage_amount": "ConsumedQuantity",
    "usage_unit": "ConsumedUnit",
    "usage_amount_in_pricing_units": "PricingQuantity",
    "usage_pricing_unit": "PricingUnit",
    "labels": "Tags",
    "export_time": "x_ExportTime",
    "billing_account_id": "BillingAccountId",
    "invoice_month": "BillingPeriodStart",
    "currency_conversion_rate": "x_CurrencyConversionRate",
}
_FOCUS_REQUIRED = (
    "BilledCost",
    "BillingCurrency",
    "ChargeCategory",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ResourceId",
    "ServiceName",
    "SkuId",
    "SubAccountId",
)
_EXACTLY = Context(prec=2_000)
_DECODER = json.JSONDecoder(parse_float=str)
"""Numbers as they are written: no float ever comes of them."""

_FOCUS_MARK = "ChargePeriodStart"
_SERVICES = {"Cloud TPU": CLOUD_TPU, "Compute Engine": COMPUTE}


class Shape(StrEnum):
    """Which export a file is."""

    CSV = "detailed_csv"
    JSON_LINES = "detailed_json_lines"
    FOCUS_CSV = "focus_csv"
    FOCUS_JSON_LINES = "focus_json_lines"


_SAME = (
    "billing_account_id",
    "invoice_month",
    "cost_type",
    "service_id",
    "sku_id",
    "sku_description",
    "usage_start_time",
    "usage_end_time",
    "project_id",
    "location_location",
    "location_region",
    "location_zone",
    "resource_global_name",
    "resource_name",
    "currency",
    "usage_unit",
    "adjustment_info_id",
    "transaction_type",
    "consumption_model_id",
    "subscription_instance_id",
    "export_time",
)
_SAME_NUMBERS = (
    "cost",
    "currency_conversion_rate",
    "net_cost",
    "usage_amount",
    "usage_amount_in_pricing_units",
    "cost_at_list",
    "price_effective_price",
    "price_tier_start_amount",
)
_SAME_LISTS = ("labels", "system_labels", "tags", "credits")
"""What tells rows apart: Google's export has no key (`pricing.md` 5)."""


@dataclass(frozen=True, slots=True)
class BillFileRow:
    """One row: its window, what it is to us, what it comes to, and which row of the export it is.

    Google's export has no key, and it is append-only: each batch (`export_time`) adds a row for
    each resource, SKU, window of usage, labels and invoice month. `digest` is of those, of the
    amounts, and of what else tells rows apart (`_SAME`), however the file spells them. A row that
    differs in any of this, were it only `export_time`, is another row, and adds up, as corrections
    do. So the same row in two files is known again, also where one is CSV and one JSON lines.

    `is_provable` says whether two rows of one file with the same digest are one row that was
    written twice: both name a resource and the batch, and a batch has one such row. Where a row
    does not name both, such as a tax, two equal rows are two charges, and both count.

    Rows that are none of ours count for their invoice alone. `digest` is then that of the batch,
    the hour, and the invoice: they are kept as one sum of all that share it. Where two files have
    such a sum, the one of more rows is the whole of it.
    """

    number: int
    span: RowSpan
    row: BillRow | SkipReason
    amounts: Amounts
    digest: bytes
    is_provable: bool


def read_bill(
    chunks: Iterable[bytes], projects: Collection[str]
) -> tuple[Shape, Iterator[BillFileRow]]:
    """Which export this is, and its rows; nothing of it is held but the row at hand.

    Raises Rejected, also while the rows are read: for columns that are missing, all of them named,
    and for a row that cannot be, named by its number. The header is row 1 of a CSV file.
    """
    lines = _lines(chunks)
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise Rejected("the file is empty; send the billing export itself", field="body")
    whole = chain([first], lines)
    if first.lstrip().startswith("["):
        raise Rejected(
            "this is one JSON array; send JSON lines, one row to a line, as BigQuery exports them",
            field="body",
        )
    if first.lstrip().startswith("{"):
        is_focus = _FOCUS_MARK in _document(first, 1)
        shape = Shape.FOCUS_JSON_LINES if is_focus else Shape.JSON_LINES
        return shape, _read_json(whole, projects, is_focus=is_focus)
    return _csv(whole, projects)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines of UTF-8 text, with their ends."""
    decode: Callable[..., str] = codecs.getincrementaldecoder("utf-8-sig")().decode
    rest = ""
    try:
        for chunk in chunks:
            *whole, rest = (rest + decode(chunk)).split("\n")
            for line in whole:
                yield line + "\n"
            if len(rest) > LONGEST_LINE:
                raise Rejected(
                    f"a line has more than {LONGEST_LINE:,} characters; a bill has one row to a"
                    " line",
                    field="body",
                )
        rest += decode(b"", True)  # noqa: FBT003 - the last one
    except UnicodeDecodeError:
        raise Rejected(
            "the file is not text in UTF-8; send it uncompressed", field="body"
        ) from None
    if rest:
        yield rest


def _csv(lines: Iterator[str], projects: Collection[str]) -> tuple[Shape, Iterator[BillFileRow]]:
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader)]
    except csv.Error as error:
        raise Rejected(f"the header cannot be read: {error}", field="body") from None
    if len(header) > MAX_COLUMNS:
        raise Rejected(
            f"the file has {len(header):,} columns; a billing export has {MAX_COLUMNS} at most",
            field="body",
        )
    is_focus = _FOCUS_MARK in header
    names = header if is_focus else [name.replace(".", "_").lower() for name in header]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise Rejected(f"duplicate columns: {', '.join(twice)[:200]}", field="body", columns=twice)
    _check_columns(names, is_focus=is_focus)
    shape = Shape.FOCUS_CSV if is_focus else Shape.CSV
    return shape, _read_csv(reader, names, projects, is_focus=is_focus)


def _check_columns(names: Collection[str], *, is_focus: bool) -> None:
    missing = [one for one in (_FOCUS_REQUIRED if is_focus else _REQUIRED) if one not in names]
    if not is_focus and not any(one in names for one in _RESOURCE):
        missing.append("resource_global_name")
    if missing:
        which = "a FOCUS export" if is_focus else "the detailed billing export"
        raise Rejected(
            f"columns are missing: {', '.join(missing)}; send {which} with all of its columns",
            field="body",
            missing=missing,
        )


def _read_csv(
    reader: Iterator[list[str]], names: Sequence[str], projects: Collection[str], *, is_focus: bool
) -> Iterator[BillFileRow]:
    number = 1
    try:
        for values in reader:
            number += 1
            if not values:
                continue
            if len(values) != len(names):
                raise refused(number, f"it has {len(values)} fields, the header has {len(names)}")
            cells: Cells = dict(zip(names, values))  # noqa: B905 - counted above
            yield _read(_canonical(cells) if is_focus else cells, number, projects)
    except csv.Error as error:
        raise refused(number + 1, f"it cannot be read: {error}") from None


def _read_json(
    lines: Iterable[str], projects: Collection[str], *, is_focus: bool
) -> Iterator[BillFileRow]:
    unseen, used = {*_REQUIRED, _RESOURCE[0]}, 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        document = _document(line, number)
        cells = _canonical(document) if is_focus else _flat(document)
        if any(not value or str(value).isspace() for value in map(cells.get, _IN_EVERY_ROW)):
            _check_present([name for name in _IN_EVERY_ROW if not text(cells, name)], number)
        if unseen:
            unseen -= {name for name in _REQUIRED if cells.get(name) is not None}
            unseen -= {_RESOURCE[0]} if any(text(cells, name) for name in _RESOURCE) else set()
        read = _read(cells, number, projects)
        used += isinstance(read.row, BillRow) and _has_resource(read.row)
        yield read
    _check_present(sorted(unseen - (set() if used else {_RESOURCE[0]})))


def _has_resource(row: BillRow) -> bool:
    """Whether the row speaks of something that has a name; a reservation may have none there."""
    return row.kind == REGULAR and row.model != RESERVED


def _check_present(missing: Sequence[str], number: int = 0) -> None:
    if missing:
        where = f"row {number}: columns" if number else "columns"
        raise Rejected(
            f"{where} are missing: {', '.join(missing)}; send the detailed billing export with all"
            " of its columns; nothing was stored",
            field="body",
            missing=list(missing),
            **({"row": number} if number else {}),
        )


def _document(line: str, number: int) -> Mapping[str, object]:
    try:
        found = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise refused(number, f"it is not JSON: {str(error)[:80]}") from None
    if not isinstance(found, dict):
        raise refused(number, "it is not a JSON object")
    return found


def _flat(document: Mapping[str, object]) -> Cells:
    """`{"service": {"id": …}}` as `service_id`; lists stay as they are."""
    cells: dict[str, object] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            columns = _columns_in(name)
            for key, one in value.items():
                cells[columns[key]] = one
        else:
            cells[_COLUMNS[name]] = value
    return cells


class _Columns(dict[str, str]):
    """Names of columns by the keys of one object. Every row has the same keys, and a dict is read
    faster than a cached call. Cleared when it is full."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __missing__(self, key: str) -> str:
        if len(self) >= MAX_COLUMNS:
            self.clear()
        column = self[key] = (self._prefix + key).replace(".", "_").lower()
        return column


_COLUMNS = _Columns()


@lru_cache(64)
def _columns_in(name: str) -> _Columns:
    return _Columns(f"{name}_")


def _canonical(focus: Mapping[str, object]) -> Cells:
    """A row of FOCUS in the names of the detailed export. What it calls billed is net of credits;
    contracted is the cost before them."""
    cells = {name: focus.get(column) for name, column in _FOCUS.items()}
    if not text(cells, "service_id"):
        name = text(focus, "ServiceName")
        cells["service_id"] = _SERVICES.get(name, name)
    category = text(focus, "ChargeCategory").lower()
    cells["cost_type"] = "regular" if category == "usage" else category
    if text(focus, "x_ProvisioningModel"):
        cells["sold"] = _sold(text(focus, "SkuPriceDetails"), text(focus, "x_ProvisioningModel"))
    if text(focus, "ContractedCost"):
        cells["cost"] = focus["ContractedCost"]
        cells["net_cost"] = focus.get("BilledCost")
    return cells


@lru_cache(4_096)
def _sold(details: str, model: str) -> BillSku | None:
    """What a row of our own export says that was sold: its descriptions are not those of SKUs."""
    try:
        found = json.loads(details)
    except (ValueError, RecursionError):
        return None
    generation = found.get("x_Generation") if isinstance(found, dict) else None
    return BillSku(generation, model) if isinstance(generation, str) else None


def _read(cells: Cells, number: int, projects: Collection[str]) -> BillFileRow:
    span = read_span(cells, number)
    amounts = read_amounts(cells, number)
    row = read_row(cells, number, span, projects, amounts)
    if isinstance(row, SkipReason):
        return BillFileRow(number, span, row, amounts, _digest_of_sum(span, row, amounts), False)  # noqa: FBT003
    named = any(text(cells, name) for name in _RESOURCE)
    provable = named and span.exported_at is not None
    return BillFileRow(number, span, row, amounts, _digest(cells), provable)


def _digest(cells: Cells) -> bytes:
    """Sixteen bytes that tell a row of the export from all others."""
    get = cells.get
    said = [
        value.strip() if type(value) is str else str(value or "").strip()
        for value in map(get, _SAME)
    ]
    said += [_number(str(value).strip()) if value else "" for value in map(get, _SAME_NUMBERS)]
    said += [_list(value) if value else "" for value in map(get, _SAME_LISTS)]
    whole = "\x1f".join(said).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=16).digest()


def _digest_of_sum(span: RowSpan, row: SkipReason, amounts: Amounts) -> bytes:
    invoice = amounts.account, amounts.invoice, amounts.currency, amounts.is_converted
    return _digest_of(row.value, *invoice, span.exported_at, floor_to(span.start, HOUR))


@lru_cache(8_192)
def _digest_of(*said: str | int | None) -> bytes:
    return hashlib.blake2b("\x1f".join(map(str, said)).encode(), digest_size=16).digest()


@lru_cache(8_192)
def _number(said: str) -> str:
    """A number in one spelling: `9.60`, `9.6` and `96E-1` are the same. Other text as it is."""
    try:
        return str(decimal_of(said).normalize(_EXACTLY)) if said else ""
    except (ValueError, DecimalException):
        return said


def _list(value: object) -> str:
    """A list in one spelling, in JSON or as its text, whatever the order of its members."""
    return _spelled(value) if isinstance(value, str) else _members(value)


@lru_cache(8_192)
def _spelled(said: str) -> str:
    try:
        return _members(_DECODER.decode(said)) if said.strip() else ""
    except (ValueError, RecursionError):
        return said


def _members(value: object) -> str:
    if isinstance(value, list):
        return "\x1e".join(sorted([_members(one) for one in value]))
    if isinstance(value, dict):
        pairs = sorted([(key, _number(str(one))) for key, one in value.items()])
        return "\x1d".join([f"{key}\x1c{one}" for key, one in pairs])
    return "" if value is None else str(value)
