"""Prints again and again: in place on a terminal, one after the other elsewhere."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout

import typer

from service.cli.terminal.client import Unreachable
from service.cli.terminal.render import is_terminal, make_console, print_errors

HOME_AND_CLEAR = "\x1b[H\x1b[J"


class _Screen(io.StringIO):
    """Collects the text of one update. It counts as a terminal, so that colours stay."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the terminal."""
        return sys.__stdout__.encoding if sys.__stdout__ else "utf-8"

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return True


def keep_printing(draw: Callable[[], object], seconds: float) -> None:
    """Call `draw` every so many seconds, until Ctrl-C. What it prints replaces what it printed
    before; what does not fit the terminal is counted.

    A service that does not answer is tried again, once `draw` has printed something. Before that
    Unreachable is raised.
    """
    on_terminal, shown = is_terminal(sys.stdout), False
    try:
        while True:
            try:
                if on_terminal:
                    _redraw(draw)
                else:
                    if shown:
                        typer.echo("")
                    draw()
                    sys.stdout.flush()
                shown = True
            except Unreachable as trouble:
                if not shown:
                    raise
                print_errors(*trouble.lines)
            time.sleep(seconds)
    except KeyboardInterrupt:
        if on_terminal:
            typer.echo("")


def _redraw(draw: Callable[[], object]) -> None:
    height = make_console().height
    text = _Screen()
    with redirect_stdout(text):
        draw()
    typer.echo(HOME_AND_CLEAR + cut_lines(text.getvalue(), height), color=True, nl=False)
    sys.stdout.flush()


def cut_lines(text: str, height: int) -> str:
    """The lines of a text that fit the height of a terminal, and the number of those left out."""
    lines = text.splitlines()
    room = max(1, height - 1)
    if len(lines) <= room:
        return text
    kept = lines[: room - 1]
    return "\n".join([*kept, f"({len(lines) - len(kept):,} more lines)"]) + "\n"
