"""Cells of CSV files that people open in a spreadsheet."""

from __future__ import annotations

from service.domain.money import decimal_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def format_cell(value: object) -> str:
    """The value as the text of a CSV cell, empty for None, with formulas quoted.

    A spreadsheet would run a formula (OWASP, CSV injection). Users choose the names of teams and
    labels, and other people open the file. Negative numbers stay numbers.
    """
    text = "" if value is None else str(value)
    if not text.startswith(_FORMULA):
        return text
    try:
        decimal_of(text)
    except ValueError:
        return f"'{text}"
    return text
