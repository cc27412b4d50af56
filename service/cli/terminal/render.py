"""Prints tables, facts and lines: styled on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

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


def make_console(*, err: bool = False) -> Console:
    """A console without markup. It prints colours on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and not for all commands

    file = sys.stderr if err else sys.stdout
    width = None if file.isatty() else PIPE_WIDTH
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def print_renderable(thing: RenderableType) -> None:
    """Print a table without trailing blanks."""
    screen = make_console()
    with screen.capture() as capture:
        screen.print(thing)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()), color=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print rows under their headings. A column with a heading that begins with `>` is aligned
    right."""
    from rich.table import Table  # noqa: PLC0415 - as above

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        justify: Any = "right" if column.startswith(">") else "left"
        grid.add_column(column.removeprefix(">"), justify=justify, overflow="fold")
    for row in rows:
        grid.add_row(*map(to_text, row))
    print_renderable(grid)


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
    """Print lines."""
    for line in lines:
        typer.echo(clean_text(line))


def print_paragraphs(*paragraphs: str) -> None:
    """Print each text, wrapped between words at the width of the terminal."""
    for paragraph in paragraphs:
        print_renderable(to_text(paragraph))


def print_errors(*lines: str) -> None:
    """Print lines to stderr."""
    for line in lines:
        typer.echo(clean_text(line), err=True)


def print_json(answer: ApiAnswer) -> None:
    """Print the JSON of an answer as it came."""
    typer.echo(answer.text)
