"""The base classes and field types that request and response models share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema

from service.domain.billing_period import MONTH
from service.domain.clock import DATE, INSTANT, parse_instant_or_date, to_rfc3339
from service.domain.money import format_usd, parse_usd
from service.domain.time_window import WINDOW

T = TypeVar("T")

YEAR_SECONDS = 31_536_000


class Body(BaseModel):
    """What callers send: an unknown field is refused, so that a typing error is never a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_digest(self) -> str:
        """SHA-256 of the fields that were sent, whatever the order and the spacing of the JSON."""
        said = self.model_dump(mode="json", exclude_unset=True)
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class View(BaseModel):
    """What callers are answered."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class Page(View):
    """What every list ends with."""

    next_page_token: str = Field(description="Empty on the last page.", examples=[""])


class PageQuery(BaseModel):
    """The two parameters that every list takes; an unknown one is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page_size: int = Field(default=1000, ge=1, le=1000, description="The most items to return.")
    page_token: str = Field(
        default="",
        pattern=r"^[0-9]{0,6}$",
        description="The `next_page_token` of the previous page.",
    )

    def cut_page(self, items: Sequence[T]) -> tuple[Sequence[T], str]:
        """The items of this page, and the token of the next page."""
        start = int(self.page_token or 0)
        end = start + self.page_size
        return items[start:end], str(end) if end < len(items) else ""


class NumberedQuery(BaseModel):
    """A page of what is numbered in the order in which it happened."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page_size: int = Field(default=100, ge=1, le=1000, description="The most items to return.")
    page_token: str = Field(
        default="",
        pattern=r"^[0-9]{0,18}$",
        description="The `next_page_token` of the previous page.",
    )

    @property
    def after_number(self) -> int:
        """Last number of the previous page."""
        return int(self.page_token or 0)

    @property
    def one_more(self) -> int:
        """Number of items to read: one more than the page, to know whether there is a next page."""
        return self.page_size + 1

    def cut_page(self, numbered: Sequence[T], numbers: Sequence[int]) -> tuple[Sequence[T], str]:
        """The items of this page, and the token of the next page. `numbers` are theirs."""
        page = numbered[: self.page_size]
        return page, str(numbers[len(page) - 1]) if len(numbered) > len(page) else ""


def one_line(text: str) -> str:
    """The text. Raises ValueError for line breaks and control characters, and for blanks alone."""
    if not text.isprintable():
        raise ValueError("control characters, NUL and line breaks are not allowed")
    if text.isspace():
        raise ValueError("blanks alone are not allowed")
    return text


def _check_unicode(text: str) -> str:
    """The text. Raises ValueError for a lone surrogate, which JSON can contain and no database can
    store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("should be valid Unicode") from None
    return text


def _check_instant(text: str) -> str:
    parse_instant_or_date(text)
    return text


def _check_usd(text: str) -> str:
    parse_usd(text)
    return text


def whole_pattern(pattern: str) -> str:
    """The pattern anchored at both ends, as the OpenAPI document shows it."""
    return f"^({pattern})$"


def schema_extra(**keywords: JsonValue) -> Any:
    """JSON Schema keywords for the document only. The domain checks the same rules with better
    messages; `tests/api/test_formats.py` compares both."""
    return Field(json_schema_extra=keywords)


def usd_or_none(nanos: int | None) -> str | None:
    """Nano-dollars as dollars with nine places. None for None."""
    return None if nanos is None else format_usd(nanos)


def time_or_none(seconds: int | None) -> str | None:
    """Seconds since the epoch in RFC 3339. None for None."""
    return None if seconds is None else to_rfc3339(seconds)


Line = Annotated[str, Field(max_length=200), AfterValidator(one_line)]
Name = Annotated[str, Field(max_length=80), AfterValidator(one_line)]
_INSTANT = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "format": "date-time", "pattern": whole_pattern(INSTANT)},
            {"type": "string", "format": "date", "pattern": whole_pattern(DATE)},
        ]
    }
)
Instant = Annotated[str, Field(max_length=40), AfterValidator(_check_instant), _INSTANT]
LocalInstant = Annotated[str, Field(max_length=80), AfterValidator(one_line), _INSTANT]
"""An instant, or a date in a time zone that another field gives."""
WindowText = Annotated[str, Field(max_length=100), schema_extra(pattern=whole_pattern(WINDOW))]
LABEL = r"[^:]+:[\s\S]*"
"""Pattern of a label as `key:value`."""
Text = Annotated[str, AfterValidator(_check_unicode)]
Secret = Annotated[str, Field(min_length=16, max_length=200), AfterValidator(one_line)]
Flag = Annotated[bool, Field(strict=True)]
Seconds = Annotated[int, Field(strict=True, gt=0, le=YEAR_SECONDS)]
UsdText = Annotated[str, Field(max_length=40), AfterValidator(_check_usd)]
"""Dollars as callers write them: a decimal number."""
Usd = Annotated[
    str,
    Field(description="Dollars, with nine places.", examples=["12.015600000"]),
    schema_extra(pattern=whole_pattern(r"-?[0-9]+\.[0-9]{9}")),
]
Time = Annotated[
    str,
    Field(description="RFC 3339, UTC.", examples=["2026-11-01T12:00:00Z"]),
    schema_extra(format="date-time"),
]
Month = Annotated[str, Field(examples=["2026-11"]), schema_extra(pattern=whole_pattern(MONTH))]
Percent = Annotated[int, schema_extra(minimum=0, maximum=100)]
