"""How the running command prints its list: the format, the order, and whether with headings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class Output(StrEnum):
    """The format of a list. WIDE is a table that leaves no column out."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


DOCUMENTS = frozenset({Output.JSON, Output.YAML, Output.CSV})
"""The formats of the API's fields. The others print what a person reads."""


@dataclass(frozen=True, slots=True)
class Printing:
    """What the options of a list say. `sort_by` is a column, with `-` before it for the reverse
    order; empty for the order of the API. `is_list` is False for a command without these
    options."""

    output: Output = Output.TABLE
    sort_by: str = ""
    has_headings: bool = True
    is_list: bool = False

    @property
    def has_notes(self) -> bool:
        """Whether lines beside the rows are printed, such as a total."""
        return self.has_headings and self.output is not Output.NAME


_PLAIN = Printing()
_current: ContextVar[Printing] = ContextVar("printing", default=_PLAIN)


def current_printing() -> Printing:
    """How the running command prints."""
    return _current.get()


@contextmanager
def print_as(printing: Printing) -> Iterator[None]:
    """Lets the commands inside print that way."""
    before = _current.set(printing)
    try:
        yield
    finally:
        _current.reset(before)
