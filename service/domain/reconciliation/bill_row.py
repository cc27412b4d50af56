"""One row of Google's bill: amounts are read exactly, and only rows of our TPUs are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from service.domain.clock import END_OF_TIME, HOUR, floor_to
from service.domain.errors import Rejected
from service.domain.money import MAX_NANOS, NANOS, decimal_of, half_even
from service.domain.reconciliation.bill_sku import COMMITMENT, BillSku, tpu_sku

T = TypeVar("T")

CURRENCY = "USD"
"""The currency of the ledger."""

UNSPECIFIED = "CREDIT_TYPE_UNSPECIFIED"
"""Google's type for a credit of no known kind. We also use this type for a plain sum of credits."""

REGULAR = "regular"
"""The `cost_type` of usage. Tax, adjustment and rounding_error are shown apart."""

STEWARD_ID = "steward-id"
_EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)
_ONE = Decimal(1)
_NOTHING: Mapping[str, int] = {}
_DEFAULT_MODEL = "7754-699E-0EBF"
"""Google's id of the consumption model of usage that no commitment covers."""

_LARGEST_EXPONENT = 20
_SMALLEST_EXPONENT = -60
_CURRENCY = re.compile(r"[A-Z]{3}")
_MONTH = re.compile(r"(\d{4})-?(0[1-9]|1[0-2])(?:-.*)?")
_TEXTS = json.JSONDecoder(parse_float=str, parse_int=str)
"""Keeps numbers as text. Made once: making a decoder takes longer than reading a list."""

_KIND = re.compile(r"[A-Z0-9_ -]{1,60}")
_INSTANTS = "usage_start_time", "usage_end_time", "export_time"
_PLAIN = "billing_account_id", "invoice_month", "currency", "currency_conversion_rate", "cost"
_SOLD = "project_id", "cost_type", "service_id", "sku_description"
_NO_CREDITS: tuple[object, object] = [], "[]"
LONGEST_TEXT = 2_000
"""Characters of the longest name or description that is kept."""

Cells = Mapping[str, object]
"""A row by the names of the detailed export with underscores: `service_id`, `usage_start_time`."""


class SkipReason(StrEnum):
    """Why a row is not ours."""

    OTHER_PROJECT = "other_project"
    NOT_TPU = "not_tpu"


@dataclass(frozen=True, slots=True)
class Amounts:
    """The amounts of a row of the file, whether the row is ours or not.

    `cost` and `credits`, which has a sum for each of Google's `credits.type`, are nano-dollars;
    `local_cost` and `local_credits` are billionths of the currency that the row is billed in. Each
    amount of another currency is divided by the `currency_conversion_rate` of its own row (local
    units for a dollar) and rounded once, half to even, to the nano-dollar. A row without a usable
    rate is not converted: its dollars are 0, and it is set apart.

    `invoice` is the month of the invoice, `2026-11`, and `account` the billing account; both are
    empty where the row has none.
    """

    account: str
    invoice: str
    currency: str
    cost: int
    credits: Mapping[str, int]
    local_cost: int
    local_credits: int
    is_converted: bool = True

    @property
    def credit(self) -> int:
        """Nano-dollars of all credits together."""
        return sum(self.credits.values())


@dataclass(frozen=True, slots=True)
class BillRow:
    """A row that counts. Amounts in nano-dollars, instants in whole UTC seconds, [start, end).

    `kind` is REGULAR, COMMITMENT, or the cost type of a row that is shown apart. `credits` are
    negative. `at_list` and `chip_seconds` are None where the row has none. `node_id` is our label
    on the resource, empty where the row shows no labels; `zone` is empty where the row has none.
    """

    number: int
    kind: str
    project: str
    resource: str
    node_id: str
    sku_id: str
    description: str
    generation: str
    model: str
    start: int
    end: int
    cost: int
    credits: int
    at_list: int | None
    chip_seconds: int | None
    zone: str = ""
    region: str = ""
    consumption_model: str = ""
    """The model under which Google sold the usage, such as `TPU CUD - 1 Year`; empty for the
    default."""

    @property
    def hour(self) -> int:
        """The first second of the row's UTC hour."""
        return floor_to(self.start, HOUR)


@dataclass(frozen=True, slots=True)
class RowSpan:
    """When a row's resource was used, and when the row was exported."""

    start: int
    end: int
    exported_at: int | None


def read_span(cells: Cells, number: int) -> RowSpan:
    """Return the window of a bill row in UTC seconds. Raises Rejected, naming the row, where it
    ends before it starts."""
    return _call_cached(_cached_span, cells, _INSTANTS) or _checked_span(cells, number)


@lru_cache(8_192, typed=True)
def _cached_span(*values: object) -> RowSpan | None:
    """The window that rows of one hour and batch share; None if the window is refused."""
    try:
        return _checked_span(dict(zip(_INSTANTS, values, strict=True)), 0)
    except Rejected:
        return None


def _checked_span(cells: Cells, number: int) -> RowSpan:
    """The window. Raises Rejected for the first of its instants that cannot be read."""
    start = _read_instant(cells, "usage_start_time", number)
    end = _read_instant(cells, "usage_end_time", number)
    if end < start:
        raise row_refusal(
            number, f"its usage ends at {cell_text(cells, 'usage_end_time')}, before it starts"
        )
    exported = (
        _read_instant(cells, "export_time", number) if cell_text(cells, "export_time") else None
    )
    return RowSpan(start, end, exported)


def read_amounts(cells: Cells, number: int) -> Amounts:
    """Return the amounts of one row of a bill. Raises Rejected, naming the row, for an amount that
    cannot be read: without the amount no invoice adds up."""
    has_no_credits = cells.get("credits") in _NO_CREDITS
    if has_no_credits and (known := _call_cached(_cached_amounts, cells, _PLAIN)):
        return known
    return _checked_amounts(cells, number)


def _call_cached(read: Callable[..., T | None], cells: Cells, names: Sequence[str]) -> T | None:
    """The result of a cached function for these cells: rows of one resource, hour or batch have
    most cells in common. None where the caller has to read the cells again, and to say why they
    are refused."""
    try:
        return read(*map(cells.get, names))
    except TypeError:  # a list or an object, which no cache has as a key
        return None


@lru_cache(8_192, typed=True)
def _cached_amounts(*values: object) -> Amounts | None:
    """The amounts of rows with these cells (`_PLAIN`) and no credits; None if they are refused."""
    try:
        return _checked_amounts(dict(zip((*_PLAIN, "credits"), (*values, "[]"), strict=True)), 0)
    except Rejected:
        return None


def _checked_amounts(cells: Cells, number: int) -> Amounts:
    currency = str(cells.get("currency") or "").strip().upper()
    if currency != CURRENCY and not _CURRENCY.fullmatch(currency):
        raise row_refusal(
            number, f"its currency is {currency[:20]!r}, and not three letters as in EUR"
        )
    rate = _ONE if currency == CURRENCY else _find_rate(cells)
    local_cost, local_credits = _read_nanos(cells, "cost", number), 0
    kinds: dict[str, int] = {}
    if credit_texts := _read_credits(cells, number):
        local_credits = sum(parse_nanos(amount) for _, amount in credit_texts)
        for kind, amount in credit_texts if rate is not None else []:
            kinds[kind] = kinds.get(kind, 0) + _convert_amount(amount, rate, number)
        if max(abs(local_credits), abs(local_cost + local_credits)) > MAX_NANOS:
            raise row_refusal(
                number, "its credits cannot be read: they are more than can be stored"
            )
    account = _read_text(cells, "billing_account_id", number)
    # The month is `202611`, or in FOCUS the beginning of the billing period.
    month_text = cell_text(cells, "invoice_month")
    month = _parse_month(month_text) if month_text else ""
    if month is None:
        raise row_refusal(
            number, f"invoice_month {month_text[:40]!r} is not a month such as 202611"
        )
    return Amounts(
        account=account,
        invoice=month,
        currency=currency,
        cost=local_cost
        if rate is _ONE
        else _convert_amount(cell_text(cells, "cost"), rate, number),
        credits=dict(sorted(kinds.items())) if kinds else _NOTHING,
        local_cost=local_cost,
        local_credits=local_credits,
        is_converted=rate is not None,
    )


def _find_rate(cells: Cells) -> Decimal | None:
    """Local units for a dollar; None where the row has no rate that can be divided by."""
    try:
        rate = decimal_of(cell_text(cells, "currency_conversion_rate"))
    except ValueError:
        return None
    usable = rate.is_finite() and rate > 0 and abs(rate.adjusted()) <= _LARGEST_EXPONENT
    return rate if usable else None


def convert_nanos(said: str, rate: Decimal) -> int:
    """Return the nano-dollars of a decimal in a bill row in another currency. The amount is divided
    by the rate in whole numbers and rounded once, half to even. Raises ValueError for any other
    text."""
    parse_nanos(said)  # raises ValueError
    amount = decimal_of(said)
    if not amount or amount.adjusted() < _SMALLEST_EXPONENT:
        return 0
    (top, bottom), (units, dollars) = amount.as_integer_ratio(), rate.as_integer_ratio()
    whole = half_even(top * dollars * NANOS, bottom * units)
    if abs(whole) > MAX_NANOS:
        raise ValueError(f"{said[:40]!r} is more than can be stored")
    return whole


def _convert_amount(said: str, rate: Decimal | None, number: int) -> int:
    """Nano-dollars; 0 without a rate."""
    try:
        return 0 if rate is None else convert_nanos(said, rate)
    except ValueError as error:
        raise row_refusal(number, f"cost: {error}") from None


@lru_cache(1_024)
def _parse_month(said: str) -> str | None:
    found = _MONTH.fullmatch(said)
    return f"{found[1]}-{found[2]}" if found else None


def read_row(
    cells: Cells, number: int, span: RowSpan, projects: Collection[str], amounts: Amounts
) -> BillRow | SkipReason:
    """Return the row of the bill, or why it is not kept. Raises Rejected, naming the row, for a
    cell that cannot be read, or for usage in more than one UTC hour."""
    project, is_regular, sku = _call_cached(_cached_sale, cells, _SOLD) or _read_sale(cells)
    if project and project not in projects:
        return SkipReason.OTHER_PROJECT
    if is_regular and sku is None:
        return SkipReason.NOT_TPU
    kind = _read_text(cells, "cost_type", number).lower() or REGULAR
    if sku is not None and not sku.generation and isinstance(known := cells.get("sold"), BillSku):
        sku = known
    if kind == REGULAR and sku is not None:
        if sku.model == COMMITMENT:
            kind = COMMITMENT
        elif not project:
            return SkipReason.OTHER_PROJECT
        if span.end > floor_to(span.start, HOUR) + HOUR:
            raise row_refusal(
                number,
                "its usage lies in more than one UTC hour; the detailed export has hourly rows,"
                " send those",
            )
    # The description of the model, or else its id. Older exports name no model.
    model_id = _read_text(cells, "consumption_model_id", number)
    sold_as = _read_text(cells, "consumption_model_description", number) or model_id
    is_default = model_id == _DEFAULT_MODEL or sold_as.lower() == "default"
    return BillRow(
        number=number,
        kind=kind,
        project=project,
        resource=_read_text(cells, "resource_global_name", number)
        or _read_text(cells, "resource_name", number),
        node_id=_read_text({"labels": _find_our_label(cells.get("labels"))}, "labels", number),
        sku_id=_read_text(cells, "sku_id", number),
        description=_read_text(cells, "sku_description", number),
        generation=sku.generation if sku else "",
        model=sku.model if sku else "",
        start=span.start,
        end=span.end,
        cost=amounts.cost,
        credits=amounts.credit,
        at_list=_read_at_list(cells, amounts, number),
        chip_seconds=_read_chip_seconds(cells, sku.chips if sku else 1, number),
        zone=_read_text(cells, "location_zone", number),
        region=_read_text(cells, "location_region", number),
        consumption_model="" if is_default else sold_as,
    )


@lru_cache(4_096, typed=True)
def _cached_sale(*values: object) -> tuple[str, bool, BillSku | None]:
    return _read_sale(dict(zip(_SOLD, values, strict=True)))


def _read_sale(cells: Cells) -> tuple[str, bool, BillSku | None]:
    """The project, whether the row is regular usage, and the TPU; None for other products."""
    project = cell_text(cells, "project_id").rpartition("/")[2]
    is_regular = cell_text(cells, "cost_type").lower() in ("", REGULAR)
    return (
        project,
        is_regular,
        tpu_sku(cell_text(cells, "service_id"), cell_text(cells, "sku_description")),
    )


def cell_text(cells: Cells, name: str) -> str:
    """Return a cell of a bill row as text; empty without the cell."""
    value = cells.get(name)
    if type(value) is str:
        return value.strip()
    return "" if value is None else str(value).strip()


def _read_text(cells: Cells, name: str, number: int) -> str:
    """The text of a cell that is stored. Raises Rejected for text that databases refuse."""
    said = cell_text(cells, name)
    # JSON may spell half of a surrogate pair.
    is_unicode = said.isascii() or not any("\ud800" <= char <= "\udfff" for char in said)
    if len(said) > LONGEST_TEXT or "\0" in said or not is_unicode:
        raise row_refusal(
            number,
            f"{name} {said[:40]!r} is not text of {LONGEST_TEXT:,} characters at most",
        )
    return said


def row_refusal(number: int, why: str) -> Rejected:
    """Return the refusal of a whole bill for one row of it."""
    return Rejected(f"row {number}: {why}; nothing was stored", row=number, field="body")


@lru_cache(8_192)
def parse_instant(said: str) -> int:
    """Return the whole UTC seconds of an instant in a bill row, as exports write it. Parts of a
    second are cut off.

    Raises ValueError for other text. BigQuery writes a TIMESTAMP as `2026-11-01 00:00:00 UTC`, or,
    in some of its tools, without the zone; a TIMESTAMP is always UTC (BigQuery, data types).
    """
    moment = datetime.fromisoformat(said.removesuffix(" UTC"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = int(moment.timestamp() // 1)
    if not 0 <= seconds < END_OF_TIME:
        raise ValueError(f"{said[:40]!r} is not between 1970 and 2100")
    return seconds


@lru_cache(8_192)
def parse_nanos(said: str) -> int:
    """Return the nano-dollars of a decimal in a bill row, such as `1.3500000000000001` or
    `1.2E-05`.

    Raises ValueError for other text. Places beyond the ninth, which come from binary numbers, are
    rounded half to even for each row.
    """
    return _multiply_exactly(said, NANOS)


@lru_cache(8_192)
def _multiply_exactly(said: str, times: int) -> int:
    """A decimal multiplied by `times`, to the nearest integer."""
    try:
        amount = decimal_of(said)
        if not amount.is_finite() or amount.adjusted() > _LARGEST_EXPONENT:
            raise ValueError(f"{said[:40]!r} is not a finite amount")
        whole = int(_EXACT.to_integral_value(_EXACT.multiply(amount, Decimal(times))))
    except DecimalException:
        raise ValueError(f"{said[:40]!r} is not a number") from None
    if abs(whole) > MAX_NANOS:
        raise ValueError(f"{said[:40]!r} is more than can be stored")
    return whole


def _read_instant(cells: Cells, name: str, number: int) -> int:
    said = cell_text(cells, name)
    try:
        return parse_instant(said)
    except (ValueError, OverflowError):
        raise row_refusal(
            number, f"{name} {said[:40]!r} is not a timestamp such as 2026-11-01T00:00:00Z"
        ) from None


def _read_nanos(cells: Cells, name: str, number: int) -> int:
    try:
        return parse_nanos(cell_text(cells, name))
    except ValueError as error:
        raise row_refusal(number, f"{name}: {error}") from None


def _read_at_list(cells: Cells, amounts: Amounts, number: int) -> int | None:
    """The cost at list in nano-dollars; None where the row has no such cost, or no rate."""
    if not cell_text(cells, "cost_at_list"):
        return None
    at_list = _read_nanos(cells, "cost_at_list", number)
    if amounts.currency == CURRENCY:
        return at_list
    rate = _find_rate(cells)
    return None if rate is None else _convert_amount(cell_text(cells, "cost_at_list"), rate, number)


def _read_credits(cells: Cells, number: int) -> list[tuple[str, str]]:
    """The credits as pairs of type and text. The row has them nested, as JSON text, or as one
    number."""
    cell = cells.get("credits")
    nested: object = [] if cell == "[]" else _parse_nested(cell)
    if isinstance(nested, list) and not nested:
        return []
    try:
        if isinstance(nested, list):
            pairs = [
                (_parse_credit_type(credit.get("type")), str(credit["amount"])) for credit in nested
            ]
        else:
            pairs = [(UNSPECIFIED, amount) for amount in _read_plain_credit(cells)]
        for _, amount in pairs:
            parse_nanos(amount)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise row_refusal(number, f"its credits cannot be read: {error}") from None
    return pairs


def _read_plain_credit(cells: Cells) -> list[str]:
    """The only credit of a row, or nothing."""
    for name in ("credits", "credits_amount", "credits_total"):
        if said := cell_text(cells, name):
            return [said]
    if said := cell_text(cells, "net_cost"):
        cost = cell_text(cells, "cost")
        parse_nanos(said)
        return [str(_EXACT.subtract(decimal_of(said), decimal_of(cost)))]
    return []


def _parse_credit_type(said: object) -> str:
    """Google's `credits.type`; any word is accepted."""
    kind = "" if said is None else str(said).strip().upper()
    if not kind:
        return UNSPECIFIED
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind[:40]!r} is not a kind of credit")
    return kind


def _parse_nested(value: object) -> object:
    """The value of JSON text with a list or an object; any other value itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return _TEXTS.decode(value)
        except (ValueError, RecursionError):
            return value
    return value


def _find_our_label(value: object) -> str:
    """The value of our label in `labels[]` of the export, or in the `Tags` of FOCUS."""
    if isinstance(value, str) and STEWARD_ID not in value:
        return ""
    nested = _parse_nested(value)
    if isinstance(nested, dict):
        return str(nested.get(STEWARD_ID) or "")
    labels = nested if isinstance(nested, list) else []
    for label in labels:
        if isinstance(label, dict) and label.get("key") == STEWARD_ID:
            return str(label.get("value") or "")
    return ""


def _read_chip_seconds(cells: Cells, chips: int, number: int) -> int | None:
    """The usage of the first quantity whose unit is a time; None without such a quantity."""
    for amount, unit_column in (
        ("usage_amount", "usage_unit"),
        ("usage_amount_in_pricing_units", "usage_pricing_unit"),
    ):
        unit = cell_text(cells, unit_column).lower()
        seconds = 1 if unit == "s" or "second" in unit else 0
        if unit == "h" or "hour" in unit:
            seconds = HOUR
        if seconds and cell_text(cells, amount):
            try:
                times = seconds if "chip" in unit else seconds * chips
                return _multiply_exactly(cell_text(cells, amount), times)
            except ValueError as error:
                raise row_refusal(number, f"{amount}: {error}") from None
    return None
