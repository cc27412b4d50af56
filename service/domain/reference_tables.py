"""Reads the tables that ship with the service (`service/data/*.csv`)."""

from __future__ import annotations

import csv
from importlib import resources


def read_rows(table: str) -> list[dict[str, str]]:
    """The rows of the reference table `service/data/<table>.csv`, each a mapping from column to
    text."""
    text = resources.files("service").joinpath(f"data/{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def split_cell(cell: str) -> tuple[str, ...]:
    """The values of a table's cell with several values: `v2|v3` is `("v2", "v3")`."""
    return tuple(cell.split("|")) if cell else ()


def parse_number(cell: str) -> int | None:
    """The whole number in a cell of a reference table; None for an empty cell."""
    return int(cell) if cell else None
