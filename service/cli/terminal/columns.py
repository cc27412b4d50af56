"""Columns of a table that fit a terminal: which are shown, and how wide. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

GAP = 2
"""Blanks between two columns."""

LONGEST_WORD = 40
"""The longest word of a text that is kept whole. A longer one, such as an address in an error, may
be broken."""


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A heading and its cells. A heading that begins with `>` is aligned right."""

    heading: str
    cells: Sequence[Text]

    @property
    def name(self) -> str:
        """The heading as it is shown."""
        return self.heading.removeprefix(">")

    @property
    def is_right(self) -> bool:
        """Whether the column is aligned right, as amounts are."""
        return self.heading.startswith(">")

    @cached_property
    def full_width(self) -> int:
        """The width in which nothing is wrapped."""
        return max(map(_measure_text, (self.name, *(cell.plain for cell in self.cells))), default=0)

    @cached_property
    def least_width(self) -> int:
        """The least width in which no word is broken. Cells of one word, such as a name or an
        amount, are never broken; neither is their heading."""
        texts = [cell.plain for cell in self.cells]
        if not any(" " in text for text in texts):
            return self.full_width
        words = [word for text in (self.name, *texts) for word in text.split()]
        return max((min(_measure_text(word), LONGEST_WORD) for word in words), default=0)


def choose_columns(
    columns: Sequence[TableColumn], spare: Sequence[str], screen_width: int
) -> list[TableColumn]:
    """The columns that fit. Those named in `spare` are left out first, in that order; then texts,
    the last of them first; then amounts, the first of them first. The first column stays."""
    kept = list(columns)
    named = [column for name in spare for column in columns[1:] if column.name == name]
    texts = [column for column in reversed(columns[1:]) if not column.is_right]
    amounts = [column for column in columns[1:] if column.is_right]
    for column in dict.fromkeys([*named, *texts, *amounts]):
        if sum(column.least_width for column in kept) + GAP * (len(kept) - 1) <= screen_width:
            break
        kept.remove(column)
    return kept


def choose_widths(columns: Sequence[TableColumn], screen_width: int) -> list[int]:
    """The width of each column: the whole, or what the others leave to texts that can be wrapped.
    The narrowest of these get their whole width first."""
    widths = [column.least_width for column in columns]
    left = screen_width - sum(widths) - GAP * (len(columns) - 1)
    by_need = sorted(
        range(len(columns)), key=lambda at: columns[at].full_width - columns[at].least_width
    )
    for number, at in enumerate(by_need):
        share = max(0, left) // (len(by_need) - number)
        more = min(share, columns[at].full_width - widths[at])
        widths[at] += more
        left -= more
    if left < 0 and columns:  # not even the first column fits
        widths[-1] = max(1, widths[-1] + left)
    return widths


def _measure_text(text: str) -> int:
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import, and not for all commands

    return cell_len(text)
