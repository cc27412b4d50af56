"""One row of Google's bill: read exactly, and kept only where it speaks of our TPUs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from enum import StrEnum
from functools import lru_cache

from service.domain.billsku import COMMITMENT, tpu_sku
from service.domain.clock import END_OF_TIME, HOUR, floor_to
from service.domain.errors import Rejected
from service.domain.money import MAX_NANOS, NANOS, decimal_of

CURRENCY = "USD"
REGULAR = "regular"
"""The `cost_type` of what was used; tax, adjustment and rounding_error are shown apart."""

STEWARD_ID = "steward-id"
_EXACT = Context(prec=80, rounding=ROUND_HALF_EVEN)
_LARGEST_EXPONENT = 20
LONGEST_TEXT = 2_000
"""Characters of a name or a description that is kept."""

Cells = Mapping[str, object]
"""A row by the names of the detailed export with underscores: `service_id`, `usage_start_time`."""


class Skip(StrEnum):
    """Why a row is none of ours."""

    OTHER_PROJECT = "other_project"
    NOT_TPU = "not_tpu"


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

    @property
    def hour(self) -> int:
        """The first second of the UTC hour that it lies in."""
        return floor_to(self.start, HOUR)


@dataclass(frozen=True, slots=True)
class Span:
    """When a row, ours or not, says something was used, and when it was written."""

    start: int
    end: int
    exported_at: int | None


def read_span(cells: Cells, number: int) -> Span:
    """The row's window. Raises Rejected, naming the row, where it ends before it starts."""
    start = _instant(cells, "usage_start_time", number)
    end = _instant(cells, "usage_end_time", number)
    if end < start:
        raise refused(
            number, f"its usage ends at {text(cells, 'usage_end_time')}, before it starts"
        )
    exported = _instant(cells, "export_time", number) if text(cells, "export_time") else None
    return Span(start, end, exported)


def read_row(cells: Cells, number: int, span: Span, projects: Collection[str]) -> BillRow | Skip:
    """The row, or why it is none of ours. Raises Rejected, naming the row, for what cannot be."""
    project = text(cells, "project_id").rpartition("/")[2]
    if project and project not in projects:
        return Skip.OTHER_PROJECT
    kind = _kept(cells, "cost_type", number).lower() or REGULAR
    description = text(cells, "sku_description")
    sku = tpu_sku(text(cells, "service_id"), description)
    if kind == REGULAR:
        if sku is None:
            return Skip.NOT_TPU
        if sku.model == COMMITMENT:
            kind = COMMITMENT
        elif not project:
            return Skip.OTHER_PROJECT
        _check_within_an_hour(span, number)
    _check_currency(cells, number)
    cost = _money(cells, "cost", number)
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
        cost=cost,
        credits=_credits(cells, cost, number),
        at_list=_money(cells, "cost_at_list", number) if text(cells, "cost_at_list") else None,
        chip_seconds=_chip_seconds(cells, sku.chips if sku else 1, number),
        zone=_kept(cells, "location_zone", number),
    )


def text(cells: Cells, name: str) -> str:
    """A cell as text; empty where there is none."""
    value = cells.get(name)
    return "" if value is None else str(value).strip()


def _kept(cells: Cells, name: str, number: int) -> str:
    """A cell that is kept as it is: no database keeps what is no text."""
    said = text(cells, name)
    if len(said) > LONGEST_TEXT or "\0" in said or not _is_unicode(said):
        raise refused(
            number,
            f"{name} {said[:40]!r} is no text of {LONGEST_TEXT:,} characters at most",
        )
    return said


def _is_unicode(said: str) -> bool:
    """Whether it holds no half of a pair, as JSON may spell one."""
    return said.isascii() or not any("\ud800" <= one <= "\udfff" for one in said)


def refused(number: int, why: str) -> Rejected:
    """The refusal of a whole file for one of its rows."""
    return Rejected(f"row {number}: {why}; nothing was kept", row=number, field="body")


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
        raise ValueError(f"{said[:40]!r} does not lie between 1970 and 2100")
    return seconds


def nanos(said: str) -> int:
    """Nano-dollars of a decimal as exports write it, such as `1.3500000000000001` or `1.2E-05`.

    What lies beyond the ninth place, which the export's binary numbers leave there, is rounded half
    to even, row by row. Raises ValueError for what is no amount.
    """
    return _whole(said, NANOS)


def _whole(said: str, times: int) -> int:
    """A decimal times that many, to the nearest integer."""
    try:
        amount = decimal_of(said)
        if not amount.is_finite() or amount.adjusted() > _LARGEST_EXPONENT:
            raise ValueError(f"{said[:40]!r} is no finite amount")
        whole = int(_EXACT.to_integral_value(_EXACT.multiply(amount, Decimal(times))))
    except DecimalException:
        raise ValueError(f"{said[:40]!r} is no number") from None
    if abs(whole) > MAX_NANOS:
        raise ValueError(f"{said[:40]!r} is more than can be kept")
    return whole


def _instant(cells: Cells, name: str, number: int) -> int:
    said = text(cells, name)
    try:
        return instant(said)
    except (ValueError, OverflowError):
        raise refused(
            number, f"{name} {said[:40]!r} is no instant such as 2026-11-01T00:00:00Z"
        ) from None


def _money(cells: Cells, name: str, number: int) -> int:
    try:
        return nanos(text(cells, name))
    except ValueError as error:
        raise refused(number, f"{name}: {error}") from None


def _check_currency(cells: Cells, number: int) -> None:
    said = text(cells, "currency")
    if said.upper() != CURRENCY:
        raise refused(
            number, f"its currency is {said[:20]!r}, and the ledger is kept in {CURRENCY}"
        )


def _check_within_an_hour(span: Span, number: int) -> None:
    if span.end > floor_to(span.start, HOUR) + HOUR:
        raise refused(
            number,
            "its usage lies in more than one UTC hour; the detailed export has hourly rows,"
            " send those",
        )


def _credits(cells: Cells, cost: int, number: int) -> int:
    """The sum of what is taken off: nested, as JSON text, or as one number."""
    found = _parsed(cells.get("credits"))
    try:
        if isinstance(found, list):
            return _within(sum(nanos(str(one["amount"])) for one in found))
        for name in ("credits", "credits_amount", "credits_total"):
            if said := text(cells, name):
                return nanos(said)
        if said := text(cells, "net_cost"):
            return _within(nanos(said) - cost)
    except (ValueError, KeyError, TypeError) as error:
        raise refused(number, f"its credits cannot be read: {error}") from None
    return 0


def _within(amount: int) -> int:
    if abs(amount) > MAX_NANOS:
        raise ValueError("they are more than can be kept")
    return amount


def _parsed(value: object) -> object:
    """A nested value, where it came as JSON text; the value itself otherwise."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value, parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            return value
    return value


def _label(value: object) -> str:
    """Our label: in `labels[]` of the export, or in the `Tags` of FOCUS."""
    if isinstance(value, str) and STEWARD_ID not in value:
        return ""
    found = _parsed(value)
    if isinstance(found, Mapping):
        return str(found.get(STEWARD_ID) or "")
    pairs = found if isinstance(found, list) else []
    for one in pairs:
        if isinstance(one, Mapping) and one.get("key") == STEWARD_ID:
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
