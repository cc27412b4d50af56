"""Prints tables, facts and lines: styled on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO, TypeAlias

import typer

from service.cli.terminal.columns import GAP, TableColumn, choose_columns, choose_widths
from service.cli.terminal.printing import Output, current_printing
from service.cli.terminal.sorting import sort_rows

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from service.cli.terminal.client import ApiAnswer

PIPE_WIDTH = 4_000
"""Columns of an output that is no terminal: lines are not wrapped."""

_STYLES = {
    "READY": "green",
    "FAILED": "red",
    "PREEMPTED": "red",
    "TERMINATED": "red",
    "DELETED": "dim",
    "HIDDEN": "dim",
    "STOPPED": "dim",
    "UNKNOWN": "magenta",
}

Cell: TypeAlias = "str | Text"


def make_console(*, err: bool = False, wide: bool = False) -> Console:
    """A console without markup. It prints colours on a terminal only, and wraps no line if
    `wide`."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and not for all commands

    file = sys.stderr if err else sys.stdout
    width = None if is_terminal(file) and not wide else PIPE_WIDTH
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def is_terminal(file: TextIO) -> bool:
    """Whether a person reads the output: it is a terminal."""
    return file.isatty()


def can_ask() -> bool:
    """Whether a person can answer a question: standard input is a terminal."""
    return sys.stdin.isatty()


def print_renderable(thing: RenderableType, *, wide: bool = False, err: bool = False) -> None:
    """Print a table without trailing blanks. If `wide`, no line is wrapped."""
    screen = make_console(wide=wide, err=err)
    with screen.capture() as capture:
        screen.print(thing)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()), color=True, err=err)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], spare: Sequence[str] = ()
) -> None:
    """Print rows under their headings. A column with a heading that begins with `>` is aligned
    right.

    Where a terminal is so narrow that words would be broken, columns are left out: the `spare` ones
    first, in their order. A line says which. The options of a list choose the order of the rows,
    and whether all columns or only the names are printed.
    """
    printing = current_printing()
    texts = [[to_text(cell) for cell in row] for row in rows]
    headings = [heading.removeprefix(">") for heading in columns]
    plain = {name: [row[at].plain for row in texts] for at, name in enumerate(headings)}
    texts = list(sort_rows(texts, plain, printing.sort_by))
    if printing.output is Output.NAME:
        at = next((headings.index(name) for name in ("NAME", "ID") if name in headings), 0)
        for name in dict.fromkeys(row[at].plain for row in texts):
            if name not in {"", "-"}:
                typer.echo(name)
        return
    table = [TableColumn(heading, [row[at] for row in texts]) for at, heading in enumerate(columns)]
    wide = printing.output is Output.WIDE
    screen = make_console(wide=wide)
    kept = table if wide else choose_columns(table, spare, screen.width)

    from rich.table import Table  # noqa: PLC0415 - as above

    grid = Table(
        box=None,
        pad_edge=False,
        padding=(0, GAP, 0, 0),
        header_style="bold",
        show_header=printing.has_headings,
    )
    for column, width in zip(kept, choose_widths(kept, screen.width), strict=True):
        grid.add_column(
            column.name,
            justify="right" if column.is_right else "left",
            overflow="fold",
            width=width,
        )
    for row in zip(*(column.cells for column in kept), strict=True):
        grid.add_row(*row)
    print_renderable(grid, wide=wide)
    left_out = [column.name for column in table if column not in kept and column.name]
    if left_out and printing.has_notes:
        also = "a wider terminal, or -o wide," if printing.is_list else "a wider terminal"
        print_paragraphs(f"({also} also shows {', '.join(left_out)})")


def print_facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Print names with their values. Pairs with an empty value are left out."""
    from rich.table import Table  # noqa: PLC0415 - as above

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            grid.add_row(name, to_text(value))
    print_renderable(grid)


def style_state(name: str, note: str = "") -> Text:
    """A state in its colour."""
    from rich.text import Text  # noqa: PLC0415 - as above

    return Text(f"{name}{note}", style=_STYLES.get(name, "yellow"))


def to_text(cell: Cell) -> Text:
    """A cell as text, without characters that move the cursor or change colours."""
    from rich.text import Text  # noqa: PLC0415 - as above

    return cell if isinstance(cell, Text) else Text(clean_text(cell))


def clean_text(text: str) -> str:
    """Text in one line. Characters that cannot be printed become blanks."""
    return "".join(char if char.isprintable() else " " for char in text)


def print_lines(*lines: str) -> None:
    """Print lines. A list of which only the rows are wanted prints none."""
    if current_printing().has_notes:
        for line in lines:
            typer.echo(clean_text(line))


def print_paragraphs(*paragraphs: str, err: bool = False) -> None:
    """Print each text, wrapped between words at the width of the terminal, as `print_lines`
    does. All lines of a text have the indent of its first line."""
    if not current_printing().has_notes:
        return
    from rich.padding import Padding  # noqa: PLC0415 - as above

    for paragraph in paragraphs:
        text = paragraph.lstrip(" ")
        indent = len(paragraph) - len(text)
        print_renderable(Padding(to_text(text), (0, 0, 0, indent)), err=err)


def print_errors(*lines: str) -> None:
    """Print lines to stderr."""
    for line in lines:
        typer.echo(clean_text(line), err=True)


def print_json(answer: ApiAnswer) -> None:
    """Print the JSON of an answer as it came, or in the format that the options of a list say."""
    printing = current_printing()
    if not printing.is_list:
        typer.echo(answer.text)
        return
    from service.cli.terminal.documents import format_answer  # noqa: PLC0415 - for few

    if text := format_answer(answer, printing):
        typer.echo(text)
