"""A bill as a stream of bytes: which export the file is, and its rows one after the other."""

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
    cell_text,
    read_amounts,
    read_row,
    read_span,
    row_refusal,
)
from service.domain.reconciliation.bill_sku import CLOUD_TPU, COMPUTE, BillSku

LONGEST_LINE = 1024 * 1024
"""Characters of the longest line. A line is held in memory whole; no row of a bill is longer."""

MAX_COLUMNS = 500
"""Columns of a CSV file. A row may have as many fields of 128 KiB, and is held in memory whole."""

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
"""Columns that every row has. Others may be null, and JSON lines leave them out."""

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
"""Keeps numbers with a fraction as text, so that no float is made of them."""

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
"""The columns by which rows differ: Google's export has no key (`pricing.md` 5)."""


@dataclass(frozen=True, slots=True)
class BillFileRow:
    """One row: its window, the row or why it is skipped, its amounts, and its digest.

    Google's export has no key, and it is append-only: each batch (`export_time`) adds a row for
    each resource, SKU, window of usage, labels and invoice month. `digest` is of those columns, of
    the amounts, and of the other columns by which rows differ (`_SAME`), however the file spells
    them. A row that differs in any of these columns, such as `export_time` alone, is another row,
    and adds up, as corrections do. So the same row in two files is recognised, also where one file
    is CSV and the other JSON lines.

    `is_provable` says whether two rows of one file with the same digest are one row that was
    written twice: both name a resource and the batch, and a batch has one such row. Where a row
    does not name both, such as a tax, two equal rows are two charges, and both count.

    Rows of other projects and products count for their invoice alone. Their `digest` is that of the
    batch, the hour, and the invoice: all rows with the same digest are kept as one sum. Where two
    files have such a sum, the sum of more rows is complete.
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
    """Return which export a bill file is, and its rows. Only the current row is held in memory.

    Raises Rejected, also while the rows are read: for missing columns, all of them named, and for
    a row that cannot be read, named by its number. The header is row 1 of a CSV file.
    """
    lines = _split_lines(chunks)
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
        is_focus = _FOCUS_MARK in _parse_document(first, 1)
        shape = Shape.FOCUS_JSON_LINES if is_focus else Shape.JSON_LINES
        return shape, _read_json(whole, projects, is_focus=is_focus)
    return _open_csv(whole, projects)


def _split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of UTF-8 text, with their line breaks."""
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


def _open_csv(
    lines: Iterator[str], projects: Collection[str]
) -> tuple[Shape, Iterator[BillFileRow]]:
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
    missing = [name for name in (_FOCUS_REQUIRED if is_focus else _REQUIRED) if name not in names]
    if not is_focus and not any(name in names for name in _RESOURCE):
        missing.append("resource_global_name")
    if missing:
        which = "a FOCUS export" if is_focus else "the detailed billing export"
        raise Rejected(
            f"columns are missing: {', '.join(missing)}; send {which} with all of its columns",
            field="body",
            missing=missing,
        )
    shape = Shape.FOCUS_CSV if is_focus else Shape.CSV
    return shape, _read_csv(reader, names, projects, is_focus=is_focus)


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
                raise row_refusal(
                    number, f"it has {len(values)} fields, the header has {len(names)}"
                )
            cells: Cells = dict(zip(names, values))  # noqa: B905 - counted above
            yield _read_cells(_from_focus(cells) if is_focus else cells, number, projects)
    except csv.Error as error:
        raise row_refusal(number + 1, f"it cannot be read: {error}") from None


def _read_json(
    lines: Iterable[str], projects: Collection[str], *, is_focus: bool
) -> Iterator[BillFileRow]:
    unseen, used = {*_REQUIRED, _RESOURCE[0]}, 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        document = _parse_document(line, number)
        cells = _from_focus(document) if is_focus else _flatten_document(document)
        if any(not value or str(value).isspace() for value in map(cells.get, _IN_EVERY_ROW)):
            _check_present([name for name in _IN_EVERY_ROW if not cell_text(cells, name)], number)
        if unseen:
            unseen -= {name for name in _REQUIRED if cells.get(name) is not None}
            unseen -= {_RESOURCE[0]} if any(cell_text(cells, name) for name in _RESOURCE) else set()
        read = _read_cells(cells, number, projects)
        row = read.row
        # The row of a reservation may have no resource.
        used += isinstance(row, BillRow) and row.kind == REGULAR and row.model != RESERVED
        yield read
    _check_present(sorted(unseen - (set() if used else {_RESOURCE[0]})))


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


def _parse_document(line: str, number: int) -> Mapping[str, object]:
    try:
        document = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise row_refusal(number, f"it is not JSON: {str(error)[:80]}") from None
    if not isinstance(document, dict):
        raise row_refusal(number, "it is not a JSON object")
    return document


def _flatten_document(document: Mapping[str, object]) -> Cells:
    """Turn `{"service": {"id": …}}` into `service_id`; lists stay as they are."""
    cells: dict[str, object] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            columns = _columns_in(name)
            for key, cell in value.items():
                cells[columns[key]] = cell
        else:
            cells[_COLUMNS[name]] = value
    return cells


class _Columns(dict[str, str]):
    """Names of columns by the keys of one object. Every row has the same keys, and reading a dict
    is faster than a cached call. A full dict is cleared."""

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


def _from_focus(focus: Mapping[str, object]) -> Cells:
    """A row of FOCUS in the names of the detailed export. FOCUS's BilledCost is net of credits, its
    ContractedCost the cost before credits."""
    cells = {name: focus.get(column) for name, column in _FOCUS.items()}
    if not cell_text(cells, "service_id"):
        name = cell_text(focus, "ServiceName")
        cells["service_id"] = _SERVICES.get(name, name)
    category = cell_text(focus, "ChargeCategory").lower()
    cells["cost_type"] = "regular" if category == "usage" else category
    if cell_text(focus, "x_ProvisioningModel"):
        cells["sold"] = _parse_sku(
            cell_text(focus, "SkuPriceDetails"), cell_text(focus, "x_ProvisioningModel")
        )
    if cell_text(focus, "ContractedCost"):
        cells["cost"] = focus["ContractedCost"]
        cells["net_cost"] = focus.get("BilledCost")
    return cells


@lru_cache(4_096)
def _parse_sku(details: str, model: str) -> BillSku | None:
    """The TPU of a row of our own export: the descriptions there are not those of Google's SKUs."""
    try:
        document = json.loads(details)
    except (ValueError, RecursionError):
        return None
    generation = document.get("x_Generation") if isinstance(document, dict) else None
    return BillSku(generation, model) if isinstance(generation, str) else None


def _read_cells(cells: Cells, number: int, projects: Collection[str]) -> BillFileRow:
    span = read_span(cells, number)
    amounts = read_amounts(cells, number)
    row = read_row(cells, number, span, projects, amounts)
    if isinstance(row, SkipReason):
        invoice = amounts.account, amounts.invoice, amounts.currency, amounts.is_converted
        batch_hour = span.exported_at, floor_to(span.start, HOUR)
        digest, is_provable = _digest_of_sum(row.value, *invoice, *batch_hour), False
    else:
        named = any(cell_text(cells, name) for name in _RESOURCE)
        digest, is_provable = _digest_of_row(cells), named and span.exported_at is not None
    return BillFileRow(number, span, row, amounts, digest, is_provable)


def _digest_of_row(cells: Cells) -> bytes:
    """Sixteen bytes that identify a row of the export."""
    get = cells.get
    values = [
        value.strip() if type(value) is str else str(value or "").strip()
        for value in map(get, _SAME)
    ]
    values += [
        _normalize_number(str(value).strip()) if value else "" for value in map(get, _SAME_NUMBERS)
    ]
    for value in map(get, _SAME_LISTS):
        if isinstance(value, str):
            values.append(_normalize_list_text(value))
        else:
            values.append(_normalize_list(value) if value else "")
    whole = "\x1f".join(values).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=16).digest()


@lru_cache(8_192)
def _digest_of_sum(*values: str | int | None) -> bytes:
    return hashlib.blake2b("\x1f".join(map(str, values)).encode(), digest_size=16).digest()


@lru_cache(8_192)
def _normalize_number(said: str) -> str:
    """A number in one spelling: `9.60`, `9.6` and `96E-1` are the same. Other text is unchanged."""
    try:
        return str(decimal_of(said).normalize(_EXACTLY)) if said else ""
    except (ValueError, DecimalException):
        return said


@lru_cache(8_192)
def _normalize_list_text(said: str) -> str:
    try:
        return _normalize_list(_DECODER.decode(said)) if said.strip() else ""
    except (ValueError, RecursionError):
        return said


def _normalize_list(value: object) -> str:
    """A list in one spelling, whatever the order of its members."""
    if isinstance(value, list):
        return "\x1e".join(sorted([_normalize_list(member) for member in value]))
    if isinstance(value, dict):
        pairs = sorted([(key, _normalize_number(str(member))) for key, member in value.items()])
        return "\x1d".join([f"{key}\x1c{member}" for key, member in pairs])
    return "" if value is None else str(value)
