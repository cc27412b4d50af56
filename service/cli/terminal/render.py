"""Prints tables, facts and lines: styled on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

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


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], spare: Sequence[str] = ()
) -> None:
    """Print rows under their headings. A column with a heading that begins with `>` is aligned
    right.

    Where a terminal is so narrow that words would be broken, the `spare` columns are left out, the
    first of them first, and a line says which.
    """
    from rich.table import Table  # noqa: PLC0415 - as above

    screen, left_out = make_console(), list[str]()
    lines = list(zip(columns, *([to_text(cell) for cell in row] for row in rows), strict=True))
    least = [_measure_column(heading, cells) for heading, *cells in lines]
    for column in spare:
        if sum(width for width, _ in least) + 2 * (len(least) - 1) <= screen.width:
            break
        place = next(at for at, (heading, *_) in enumerate(lines) if heading.strip(">") == column)
        left_out.append(column)
        del lines[place], least[place]
    fits = sum(width for width, _ in least) + 2 * (len(least) - 1) <= screen.width
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for (heading, *_), (_, is_word) in zip(lines, least, strict=True):
        grid.add_column(
            heading.removeprefix(">"),
            justify="right" if heading.startswith(">") else "left",
            overflow="fold",
            no_wrap=fits and is_word,
        )
    for row in zip(*(cells for _, *cells in lines), strict=True):
        grid.add_row(*row)
    print_renderable(grid)
    if left_out:
        print_paragraphs(f"(a wider terminal also shows {', '.join(left_out)})")


def _measure_column(heading: str, cells: Iterable[Text]) -> tuple[int, bool]:
    """The least width in which no word of the column is broken, and whether that is because every
    cell is one word: then the heading is not wrapped either."""
    from rich.cells import cell_len  # noqa: PLC0415 - as above

    name, texts = heading.removeprefix(">"), list(cells)
    is_word = not any(" " in text.plain for text in texts)
    words = [cell_len(word) for text in texts for word in text.plain.split()]
    parts = [name] if is_word else name.split()
    return max((*words, *map(cell_len, parts)), default=0), is_word


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
