"""What request and response models share: closed shapes, plain texts, instants and pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema

from service.domain.billing_period import MONTH
from service.domain.clock import DATE, INSTANT, instant
from service.domain.time_window import WINDOW

T = TypeVar("T")

YEAR_SECONDS = 31_536_000


class Body(BaseModel):
    """What callers send: an unknown field is refused, so that a typing error is never a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def digest(self) -> str:
        """The same for the same wish, in whatever order and spacing it was written."""
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

    def cut(self, items: Sequence[T]) -> tuple[Sequence[T], str]:
        """This page of the items, and the token of the next one."""
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
    def after(self) -> int:
        """The number that the page before ended with."""
        return int(self.page_token or 0)

    @property
    def one_more(self) -> int:
        """How many to read, so as to know whether there is another page."""
        return self.page_size + 1

    def cut(self, numbered: Sequence[T], numbers: Sequence[int]) -> tuple[Sequence[T], str]:
        """This page of what was read, and the token of the next one."""
        page = numbered[: self.page_size]
        return page, str(numbers[len(page) - 1]) if len(numbered) > len(page) else ""


def one_line(text: str) -> str:
    """The text, unless it holds what would break a line of a log or of a table, or nothing that
    can be seen."""
    if not text.isprintable():
        raise ValueError("control characters, NUL and line breaks are not allowed")
    if text.isspace():
        raise ValueError("blanks alone are not allowed")
    return text


def _unicode(text: str) -> str:
    """The text, unless it holds half a character, as JSON can write: nothing could keep it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("should be valid Unicode") from None
    return text


def _is_instant(text: str) -> str:
    instant(text)
    return text


def whole(pattern: str) -> str:
    """The pattern of a text that matches as a whole, as the OpenAPI document shows it."""
    return f"^({pattern})$"


def shown(**keywords: JsonValue) -> Any:
    """JSON Schema keywords that the document shows and that the domain checks, in better words than
    a schema has: `tests/api/test_formats.py` holds the two together."""
    return Field(json_schema_extra=keywords)


Line = Annotated[str, Field(max_length=200), AfterValidator(one_line)]
Name = Annotated[str, Field(max_length=80), AfterValidator(one_line)]
_INSTANT = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "format": "date-time", "pattern": whole(INSTANT)},
            {"type": "string", "format": "date", "pattern": whole(DATE)},
        ]
    }
)
Instant = Annotated[str, Field(max_length=40), AfterValidator(_is_instant), _INSTANT]
LocalInstant = Annotated[str, Field(max_length=80), AfterValidator(one_line), _INSTANT]
"""An instant, or a date that begins in a time zone which is said beside it."""
WindowText = Annotated[str, Field(max_length=100), shown(pattern=whole(WINDOW))]
LABEL = r"[^:]+:[\s\S]*"
"""What `key:value` of a label looks like."""
Text = Annotated[str, AfterValidator(_unicode)]
Secret = Annotated[str, Field(min_length=16, max_length=200), AfterValidator(one_line)]
Flag = Annotated[bool, Field(strict=True)]
Seconds = Annotated[int, Field(strict=True, gt=0, le=YEAR_SECONDS)]
Usd = Annotated[
    str,
    Field(description="Dollars, with nine places.", examples=["12.015600000"]),
    shown(pattern=whole(r"-?[0-9]+\.[0-9]{9}")),
]
Time = Annotated[
    str,
    Field(description="RFC 3339, UTC.", examples=["2026-11-01T12:00:00Z"]),
    shown(format="date-time"),
]
Month = Annotated[str, Field(examples=["2026-11"]), shown(pattern=whole(MONTH))]
Percent = Annotated[int, shown(minimum=0, maximum=100)]
