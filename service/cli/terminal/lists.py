"""The options of every command that prints a list: format, order, headings and watching."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from service.cli.terminal.printing import DOCUMENTS, Output, Printing, print_as

WATCH_SECONDS = "2"
"""Seconds between two updates of --watch, if no number is given."""

_NUMBER = re.compile(r"\d+")


def _describe_options(
    output: Annotated[
        Output,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            help="table, wide, json, yaml, csv or name. wide leaves no column out.",
        ),
    ] = Output.TABLE,
    sort_by: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Sort by this column; -COLUMN for the reverse order."),
    ] = "",
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Print the rows only, without headings.")
    ] = False,
    watch: Annotated[
        int | None,
        typer.Option(
            metavar="[SECONDS]", min=1, max=3_600, help="Update until Ctrl-C. Default: every 2 s."
        ),
    ] = None,
) -> None:
    """The parameters of this function become the options."""


@cache
def _list_options() -> tuple[Any, ...]:
    probe = typer.Typer(add_completion=False)
    probe.command()(_describe_options)
    return tuple(typer.main.get_command(probe).params)


class ListCommand(TyperCommand):
    """A command that prints a list."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params = [*self.params, *_list_options()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. `--watch` may be given without a number."""
        return list(super().parse_args(ctx, add_watch_seconds(args)))

    def invoke(self, ctx: Any) -> Any:
        """Print the list as the options say, once or again and again."""
        return _run_list(ctx, super().invoke)


class ListGroup(TyperGroup):
    """A group that prints a list if no command of it is named."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.params = [*self.params, *_list_options()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. `--watch` may be given without a number."""
        return list(super().parse_args(ctx, add_watch_seconds(args)))

    def invoke(self, ctx: Any) -> Any:
        """Print the list as the options say. Usage error if a command is named behind them."""
        return _run_list(ctx, super().invoke, named=getattr(ctx, "_protected_args", ()))


def add_watch_seconds(args: Sequence[str]) -> list[str]:
    """The arguments, with a number behind each `--watch` that has none."""
    found = list[str]()
    for word, after in zip(args, [*args, ""][1:], strict=True):
        found.append(word)
        if word == "--watch" and not _NUMBER.fullmatch(after):
            found.append(WATCH_SECONDS)
    return found


def _run_list(ctx: Any, run: Callable[[Any], Any], named: Sequence[str] = ()) -> Any:
    """Run the command of `ctx`, without the options of the list in its parameters. `named` is the
    command of a group that was named, if there is one."""
    values = {option.name: ctx.params.pop(option.name) for option in _list_options()}
    printing = Printing(
        Output(values["output"]),
        values["sort_by"],
        has_headings=not values["no_headers"],
        is_list=True,
    )
    if named:
        if printing != Printing(is_list=True) or values["watch"] is not None:
            ctx.fail(f"the options of the list cannot be combined with {named[0]!r}")
        return run(ctx)
    if ctx.params["json"]:
        if printing.output not in {Output.TABLE, Output.JSON}:
            ctx.fail(f"give --json or -o {printing.output}, not both")
        printing = replace(printing, output=Output.JSON)
    ctx.params["json"] = printing.output in DOCUMENTS
    with print_as(printing):
        if values["watch"] is None:
            return run(ctx)
        from service.cli.terminal.live import keep_printing  # noqa: PLC0415 - for few

        return keep_printing(lambda: run(ctx), values["watch"])
