"""The order of `--sort-by`: by a column of a table, or by a field of the API. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import typer

from service.cli.terminal.options import parse_seconds

_BLANK = frozenset({"", "-", "unpriced", "not known", "held", "never"})
"""Cells without a value. They come last in both orders."""

_NUMBER = re.compile(r"(?:[<>]=?)?(-?)\$?(\d[\d,]*(?:\.\d+)?)(?: ?%| .*)?")
_NOW = frozenset({"now", "failing"})
"""Cells of a time until something ends that has passed. They come before every age."""

_AGE = re.compile(r"(?:in )?((?:\d{1,9}[smhd])+)(?: ago)?")

Row = TypeVar("Row")
Key: TypeAlias = tuple[Decimal, str]


def sort_rows(
    rows: Sequence[Row], columns: Mapping[str, Sequence[str]], sort_by: str
) -> Sequence[Row]:
    """The rows in the order of the column `sort_by`, the least first; `-COLUMN` is the reverse.

    `columns` are the texts of each column, one for each row. A column of numbers, amounts or ages
    is in the order of these. Usage error for an unknown column.
    """
    if not rows or not sort_by:
        return rows
    wanted = _fold_heading(sort_by)
    texts = next((texts for name, texts in columns.items() if _fold_heading(name) == wanted), None)
    if texts is None:
        names = ", ".join(name.lower().replace(" ", "-") for name in columns if name)
        raise typer.BadParameter(
            f"{sort_by!r} is not a column; use one of: {names}", param_hint="--sort-by"
        )
    # A cell without a value has no key.
    filled = [text for text in texts if text.strip() not in _BLANK]
    known = dict[int, Key]()
    readers = (_read_number, _read_age)
    read = next((read for read in readers if all(read(text) is not None for text in filled)), None)
    for at, text in enumerate(texts):
        if read is None and text.strip() not in _BLANK:
            known[at] = Decimal(0), text.strip().casefold()
        elif read is not None and (found := read(text)) is not None:
            known[at] = found, ""
    ordered = sorted(known, key=lambda at: known[at], reverse=sort_by.startswith("-"))
    return [rows[at] for at in (*ordered, *(at for at in range(len(texts)) if at not in known))]


def sort_documents(
    documents: Sequence[Mapping[str, Any]], sort_by: str
) -> Sequence[Mapping[str, Any]]:
    """Resources of the API in the order of their field `sort_by`, as `sort_rows` does."""
    names = dict.fromkeys(name for document in documents for name in document)
    texts = {
        name: [
            "" if (value := document.get(name)) is None else str(value) for document in documents
        ]
        for name in names
    }
    return sort_rows(documents, texts, sort_by)


def _fold_heading(text: str) -> str:
    """`PER HOUR`, `per-hour` and `-per_hour` as `perhour`. `(UTC)` is left out."""
    return re.sub(r"\(.*?\)|[^a-z0-9]", "", text.lower())


def _read_number(text: str) -> Decimal | None:
    match = _NUMBER.fullmatch(text.strip())
    return None if match is None else Decimal(match[1] + match[2].replace(",", ""))


def _read_age(text: str) -> Decimal | None:
    if text.strip() in _NOW:
        return Decimal(-1)
    match = _AGE.fullmatch(text.strip())
    return None if match is None else Decimal(parse_seconds(match[1]))
