"""Cells of a CSV file that people open in a spreadsheet."""

from __future__ import annotations

from service.domain.money import decimal_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> str:
    """The value as text, empty for None. What a spreadsheet would take for a formula is quoted
    (OWASP, CSV injection): a team or a label is named by whoever asks for a node, and the file is
    opened by somebody else. Numbers stay numbers, also below zero."""
    text = "" if value is None else str(value)
    if not text.startswith(_FORMULA):
        return text
    try:
        decimal_of(text)
    except ValueError:
        return f"'{text}"
    return text
