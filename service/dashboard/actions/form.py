"""The fields that a form of a page sent, read with a limit."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request

MAX_FORM_BYTES = 64 * 1024
MAX_FIELDS = 1_000
MEDIA_TYPE = "application/x-www-form-urlencoded"

KEY = "key"
"""The hidden field with the idempotency key of a form that creates something."""

_KEY = re.compile(r"[!-~]{1,255}")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,11}")


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form. A field may be repeated.

    `fault` is the status and the reason of a body that cannot be read; its fields are empty then.
    """

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fault: tuple[int, str] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def get_text(self, name: str) -> str:
        """The last value of a field without blanks around it. Empty without the field."""
        return self.fields.get(name, [""])[-1].strip()

    def list_values(self, name: str) -> Sequence[str]:
        """Every value of a repeated field, in the order of the page."""
        return self.fields.get(name, ())

    def read_key(self) -> str:
        """The idempotency key of the form, or a new one."""
        key = self.get_text(KEY)
        return key if _KEY.fullmatch(key) else secrets.token_hex(16)


async def read_form(request: Request) -> Form:
    """The form of a request. It stops reading at MAX_FORM_BYTES."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != MEDIA_TYPE:
        return Form(fault=(415, f"A form has the media type {MEDIA_TYPE}."))
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM_BYTES:
            return Form(fault=(413, f"A form has at most {MAX_FORM_BYTES:,} bytes."))
    return parse_form(bytes(body))


def parse_form(body: bytes) -> Form:
    """The form in a body of a request."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:  # also of text that is no UTF-8
        return Form(fault=(400, "The form cannot be read: it is damaged, or has too many fields."))
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\0" in value:
            return Form(fault=(400, "The form cannot be read: a field has a NUL character."))
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return Form(fields)


def parse_whole_number(text: str) -> int | None:
    """The number that a person typed. None for any other text, or for more than 11 digits."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


FormDep = Annotated[Form, Depends(read_form)]
