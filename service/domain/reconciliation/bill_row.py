"""One row of Google's bill: read exactly, and kept only where it speaks of our TPUs."""

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
"""Google's word for a credit of no known kind; ours for one that is told as a sum alone."""

REGULAR = "regular"
"""The `cost_type` of what was used; tax, adjustment and rounding_error are shown apart."""

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
"""Numbers as they are written. Made once: to make a decoder takes longer than to read a list."""

_KIND = re.compile(r"[A-Z0-9_ -]{1,60}")
_INSTANTS = "usage_start_time", "usage_end_time", "export_time"
_PLAIN = "billing_account_id", "invoice_month", "currency", "currency_conversion_rate", "cost"
_SOLD = "project_id", "cost_type", "service_id", "sku_description"
_NO_CREDITS: tuple[object, object] = [], "[]"
LONGEST_TEXT = 2_000
"""Characters of a name or a description that is kept."""

Cells = Mapping[str, object]
"""A row by the names of the detailed export with underscores: `service_id`, `usage_start_time`."""


class SkipReason(StrEnum):
    """Why a row is none of ours."""

    OTHER_PROJECT = "other_project"
    NOT_TPU = "not_tpu"


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a row of the file comes to, whether it is ours or not.

    `cost` and `credits`, which has a sum for each of Google's `credits.type`, are nano-dollars;
    `local_cost` and `local_credits` are billionths of the currency that the row is billed in. Each
    amount of another currency is divided by the `currency_conversion_rate` of its own row (local
    units for a dollar) and rounded once, half to even, to the nano-dollar. A row without a usable
    rate is not converted: its dollars are 0, and it is set apart.

    `invoice` is the month of the invoice, `2026-11`, and `account` who is billed; both are empty
    where the row does not say.
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

    `kind` is REGULAR, COMMITMENT, or the cost type of what is shown apart. `credits` are negative.
    `at_list` and `chip_seconds` are None where the row does not say. `node_id` is our label on the
    resource, empty where the row shows no labels; so is `zone` where it names none.
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
    """What Google sold the usage under, such as `TPU CUD - 1 Year`; empty for its default."""

    @property
    def hour(self) -> int:
        """The first second of the UTC hour that it lies in."""
        return floor_to(self.start, HOUR)


@dataclass(frozen=True, slots=True)
class RowSpan:
    """When a row, ours or not, says something was used, and when it was written."""

    start: int
    end: int
    exported_at: int | None


def read_span(cells: Cells, number: int) -> RowSpan:
    """The row's window. Raises Rejected, naming the row, where it ends before it starts."""
    return _remembered(_span, cells, _INSTANTS) or _checked_span(cells, number)


@lru_cache(8_192, typed=True)
def _span(*values: object) -> RowSpan | None:
    """The window that rows of one hour and batch share; None if it is refused."""
    try:
        return _checked_span(dict(zip(_INSTANTS, values, strict=True)), 0)
    except Rejected:
        return None


def _checked_span(cells: Cells, number: int) -> RowSpan:
    """The window, read instant by instant. Raises Rejected for the first that cannot be read."""
    start = _instant(cells, "usage_start_time", number)
    end = _instant(cells, "usage_end_time", number)
    if end < start:
        raise refused(
            number, f"its usage ends at {text(cells, 'usage_end_time')}, before it starts"
        )
    exported = _instant(cells, "export_time", number) if text(cells, "export_time") else None
    return RowSpan(start, end, exported)


def read_amounts(cells: Cells, number: int) -> Amounts:
    """What the row comes to. Raises Rejected, naming the row, for an amount that cannot be read:
    without it no invoice adds up."""
    if cells.get("credits") in _NO_CREDITS and (known := _remembered(_plain, cells, _PLAIN)):
        return known
    return _amounts(cells, number)


def _remembered(read: Callable[..., T | None], cells: Cells, names: Sequence[str]) -> T | None:
    """What a cached function makes of these cells: rows of one resource, hour or batch share most
    of theirs. None where it makes nothing of them, and the caller has to say why."""
    try:
        return read(*map(cells.get, names))
    except TypeError:  # a list or an object, which no cache has as a key
        return None


@lru_cache(8_192, typed=True)
def _plain(*values: object) -> Amounts | None:
    """What rows with these cells (`_PLAIN`) and no credits come to; None if they are refused."""
    try:
        return _amounts(dict(zip((*_PLAIN, "credits"), (*values, "[]"), strict=True)), 0)
    except Rejected:
        return None


def _amounts(cells: Cells, number: int) -> Amounts:
    currency = str(cells.get("currency") or "").strip().upper()
    if currency != CURRENCY and not _CURRENCY.fullmatch(currency):
        raise refused(number, f"its currency is {currency[:20]!r}, and not three letters as in EUR")
    rate = _ONE if currency == CURRENCY else _rate(cells)
    local_cost, local_credits, kinds = _money(cells, "cost", number), 0, _NOTHING
    if found := _credits(cells, number):
        local_credits = sum(nanos(amount) for _, amount in found)
        kinds = _by_kind(found, rate, number)
        if max(abs(local_credits), abs(local_cost + local_credits)) > MAX_NANOS:
            raise refused(number, "its credits cannot be read: they are more than can be stored")
    return Amounts(
        account=_kept(cells, "billing_account_id", number),
        invoice=_invoice(cells, number),
        currency=currency,
        cost=local_cost if rate is _ONE else _converted(text(cells, "cost"), rate, number),
        credits=kinds,
        local_cost=local_cost,
        local_credits=local_credits,
        is_converted=rate is not None,
    )


def _by_kind(
    found: Sequence[tuple[str, str]], rate: Decimal | None, number: int
) -> Mapping[str, int]:
    """Nano-dollars of each kind of credit; of none without a rate."""
    if rate is None:
        return _NOTHING
    kinds: dict[str, int] = {}
    for kind, amount in found:
        kinds[kind] = kinds.get(kind, 0) + _converted(amount, rate, number)
    return dict(sorted(kinds.items()))


def _rate(cells: Cells) -> Decimal | None:
    """Local units for a dollar; None where the row names none that can be divided by."""
    try:
        rate = decimal_of(text(cells, "currency_conversion_rate"))
    except ValueError:
        return None
    usable = rate.is_finite() and rate > 0 and abs(rate.adjusted()) <= _LARGEST_EXPONENT
    return rate if usable else None


def converted(said: str, rate: Decimal) -> int:
    """Nano-dollars of a decimal in another currency, divided by its rate in whole numbers and
    rounded once, half to even. Raises ValueError for what is no amount."""
    nanos(said)  # what is no amount in the one currency is none in the other
    amount = decimal_of(said)
    if not amount or amount.adjusted() < _SMALLEST_EXPONENT:
        return 0
    (top, bottom), (units, dollars) = amount.as_integer_ratio(), rate.as_integer_ratio()
    whole = half_even(top * dollars * NANOS, bottom * units)
    if abs(whole) > MAX_NANOS:
        raise ValueError(f"{said[:40]!r} is more than can be stored")
    return whole


def _converted(said: str, rate: Decimal | None, number: int) -> int:
    """Nano-dollars; 0 for what has no rate."""
    try:
        return 0 if rate is None else converted(said, rate)
    except ValueError as error:
        raise refused(number, f"cost: {error}") from None


def _invoice(cells: Cells, number: int) -> str:
    """`2026-11` of `invoice.month` (`202611`), or of the beginning of FOCUS's billing period."""
    said = text(cells, "invoice_month")
    month = _month(said) if said else ""
    if month is None:
        raise refused(number, f"invoice_month {said[:40]!r} is not a month such as 202611")
    return month


@lru_cache(1_024)
def _month(said: str) -> str | None:
    found = _MONTH.fullmatch(said)
    return f"{found[1]}-{found[2]}" if found else None


def read_row(
    cells: Cells, number: int, span: RowSpan, projects: Collection[str], amounts: Amounts
) -> BillRow | SkipReason:
    """The row, or why it is none of ours. Raises Rejected, naming the row, for what cannot be."""
    project, is_regular, sku = _remembered(_sold, cells, _SOLD) or _sold_by(cells)
    if project and project not in projects:
        return SkipReason.OTHER_PROJECT
    if is_regular and sku is None:
        return SkipReason.NOT_TPU
    kind = _kept(cells, "cost_type", number).lower() or REGULAR
    if sku is not None and not sku.generation and isinstance(told := cells.get("sold"), BillSku):
        sku = told
    if kind == REGULAR and sku is not None:
        if sku.model == COMMITMENT:
            kind = COMMITMENT
        elif not project:
            return SkipReason.OTHER_PROJECT
        _check_within_an_hour(span, number)
    return BillRow(
        number=number,
        kind=kind,
        project=project,
        resource=_kept(cells, "resource_global_name", number)
        or _kept(cells, "resource_name", number),
        node_id=_kept({"labels": _label(cells.get("labels"))}, "labels", number),
        sku_id=_kept(cells, "sku_id", number),
        description=_kept(cells, "sku_description", number),
        generation=sku.generation if sku else "",
        model=sku.model if sku else "",
        start=span.start,
        end=span.end,
        cost=amounts.cost,
        credits=amounts.credit,
        at_list=_at_list(cells, amounts, number),
        chip_seconds=_chip_seconds(cells, sku.chips if sku else 1, number),
        zone=_kept(cells, "location_zone", number),
        region=_kept(cells, "location_region", number),
        consumption_model=_consumption_model(cells, number),
    )


@lru_cache(4_096, typed=True)
def _sold(*values: object) -> tuple[str, bool, BillSku | None]:
    return _sold_by(dict(zip(_SOLD, values, strict=True)))


def _sold_by(cells: Cells) -> tuple[str, bool, BillSku | None]:
    """The project, whether it is regular usage, and the TPU that was sold, if it was one."""
    project = text(cells, "project_id").rpartition("/")[2]
    is_regular = text(cells, "cost_type").lower() in ("", REGULAR)
    return project, is_regular, tpu_sku(text(cells, "service_id"), text(cells, "sku_description"))


def _consumption_model(cells: Cells, number: int) -> str:
    """The model by its description, or else its id; empty for the default, and where none is named.
    Only newer exports name one."""
    model_id = _kept(cells, "consumption_model_id", number)
    said = _kept(cells, "consumption_model_description", number) or model_id
    return "" if model_id == _DEFAULT_MODEL or said.lower() == "default" else said


def text(cells: Cells, name: str) -> str:
    """A cell as text; empty where there is none."""
    value = cells.get(name)
    if type(value) is str:
        return value.strip()
    return "" if value is None else str(value).strip()


def _kept(cells: Cells, name: str, number: int) -> str:
    """A cell that is kept as it is: no database keeps what is no text."""
    said = text(cells, name)
    if len(said) > LONGEST_TEXT or "\0" in said or not (said.isascii() or _is_unicode(said)):
        raise refused(
            number,
            f"{name} {said[:40]!r} is not text of {LONGEST_TEXT:,} characters at most",
        )
    return said


def _is_unicode(said: str) -> bool:
    """Whether it holds no half of a pair, as JSON may spell one."""
    return not any("\ud800" <= one <= "\udfff" for one in said)


def refused(number: int, why: str) -> Rejected:
    """The refusal of a whole file for one of its rows."""
    return Rejected(f"row {number}: {why}; nothing was stored", row=number, field="body")


@lru_cache(8_192)
def instant(said: str) -> int:
    """Whole UTC seconds of an instant as exports write it, with parts of a second cut off.

    BigQuery writes a TIMESTAMP as `2026-11-01 00:00:00 UTC`, or, in some of its tools, without the
    zone; a TIMESTAMP is always UTC (BigQuery, data types). Raises ValueError for all else.
    """
    moment = datetime.fromisoformat(said.removesuffix(" UTC"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = int(moment.timestamp() // 1)
    if not 0 <= seconds < END_OF_TIME:
        raise ValueError(f"{said[:40]!r} is not between 1970 and 2100")
    return seconds


@lru_cache(8_192)
def nanos(said: str) -> int:
    """Nano-dollars of a decimal as exports write it, such as `1.3500000000000001` or `1.2E-05`.

    What lies beyond the ninth place, which the export's binary numbers leave there, is rounded half
    to even, row by row. Raises ValueError for what is no amount.
    """
    return _whole(said, NANOS)


@lru_cache(8_192)
def _whole(said: str, times: int) -> int:
    """A decimal times that many, to the nearest integer."""
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


def _instant(cells: Cells, name: str, number: int) -> int:
    said = text(cells, name)
    try:
        return instant(said)
    except (ValueError, OverflowError):
        raise refused(
            number, f"{name} {said[:40]!r} is not a timestamp such as 2026-11-01T00:00:00Z"
        ) from None


def _money(cells: Cells, name: str, number: int) -> int:
    try:
        return nanos(text(cells, name))
    except ValueError as error:
        raise refused(number, f"{name}: {error}") from None


def _at_list(cells: Cells, amounts: Amounts, number: int) -> int | None:
    """The cost at list in nano-dollars; None where the row does not say, or has no rate."""
    if not text(cells, "cost_at_list"):
        return None
    at_list = _money(cells, "cost_at_list", number)
    if amounts.currency == CURRENCY:
        return at_list
    rate = _rate(cells)
    return None if rate is None else _converted(text(cells, "cost_at_list"), rate, number)


def _check_within_an_hour(span: RowSpan, number: int) -> None:
    if span.end > floor_to(span.start, HOUR) + HOUR:
        raise refused(
            number,
            "its usage lies in more than one UTC hour; the detailed export has hourly rows,"
            " send those",
        )


def _credits(cells: Cells, number: int) -> list[tuple[str, str]]:
    """What is taken off, by kind, as it is written: nested, as JSON text, or as one number."""
    said = cells.get("credits")
    found: object = [] if said == "[]" else _parsed(said)
    if isinstance(found, list) and not found:
        return []
    try:
        if isinstance(found, list):
            told = [(_credit_kind(one.get("type")), str(one["amount"])) for one in found]
        else:
            told = [(UNSPECIFIED, amount) for amount in _one_credit(cells)]
        for _, amount in told:
            nanos(amount)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise refused(number, f"its credits cannot be read: {error}") from None
    return told


def _one_credit(cells: Cells) -> list[str]:
    for name in ("credits", "credits_amount", "credits_total"):
        if said := text(cells, name):
            return [said]
    if said := text(cells, "net_cost"):
        cost = text(cells, "cost")
        nanos(said)
        return [str(_EXACT.subtract(decimal_of(said), decimal_of(cost)))]
    return []


def _credit_kind(said: object) -> str:
    """Google's `credits.type`, whichever it is."""
    kind = "" if said is None else str(said).strip().upper()
    if not kind:
        return UNSPECIFIED
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind[:40]!r} is not a kind of credit")
    return kind


def _parsed(value: object) -> object:
    """A nested value, where it came as JSON text; the value itself otherwise."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return _TEXTS.decode(value)
        except (ValueError, RecursionError):
            return value
    return value


def _label(value: object) -> str:
    """Our label: in `labels[]` of the export, or in the `Tags` of FOCUS."""
    if isinstance(value, str) and STEWARD_ID not in value:
        return ""
    found = _parsed(value)
    if isinstance(found, dict):
        return str(found.get(STEWARD_ID) or "")
    pairs = found if isinstance(found, list) else []
    for one in pairs:
        if isinstance(one, dict) and one.get("key") == STEWARD_ID:
            return str(one.get("value") or "")
    return ""


def _chip_seconds(cells: Cells, chips: int, number: int) -> int | None:
    """What was used, from the first of the quantities whose unit is one of time."""
    for amount, unit in (
        ("usage_amount", "usage_unit"),
        ("usage_amount_in_pricing_units", "usage_pricing_unit"),
    ):
        times = _seconds_of(text(cells, unit).lower(), chips)
        if times and text(cells, amount):
            try:
                return _whole(text(cells, amount), times)
            except ValueError as error:
                raise refused(number, f"{amount}: {error}") from None
    return None


def _seconds_of(unit: str, chips: int) -> int:
    """Chip-seconds in one of that unit; 0 when it is not one of time."""
    if "chip" in unit:
        chips = 1
    if unit == "h" or "hour" in unit:
        return HOUR * chips
    return chips if unit == "s" or "second" in unit else 0
