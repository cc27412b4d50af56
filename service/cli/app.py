"""The commands, put together, and what happens when one fails."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import typer
from typer.core import TyperGroup

from service.cli import (
    budgets,
    catalog,
    cleanup,
    commitments,
    costs,
    daemon,
    dev,
    emulator,
    estimate,
    jobs,
    migrate,
    nodes,
    orphans,
    plan,
    prices,
    reservations,
    runtimes,
    serve,
)
from service.cli.configuration import is_text
from service.cli.failure import FAILED, Failure
from service.cli.render import complain
from service.cli.unforeseen import NO_ROOM, foreseen, give_up
from service.domain.errors import StewardError

ALONE = (dev.dev, serve.serve, daemon.daemon, emulator.emulator, migrate.migrate)
"""The commands that ask no service: they are it. A fault of theirs is told with its traceback."""

TYPED = f"{__name__}.typed"
"""Where the arguments are noted as they were typed."""


class Commands(TyperGroup):
    """A group whose commands fail in plain lines on stderr, never with a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the arguments say. A pipe that nobody reads any more is no failure of ours."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            give_up(error)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments in. Usage error where one is no text."""
        for arg in args:
            if not is_text(arg):
                raise typer.BadParameter(f"{arg!r} is not UTF-8 text")
        ctx.meta[TYPED] = tuple(args)
        return list(super().parse_args(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        typed = ctx.meta[TYPED]
        alone = any(command.__name__ == typed[0] for command in ALONE)
        try:
            with nullcontext() if alone else foreseen(_path(self, ctx.info_name, typed)):
                return super().invoke(ctx)
        except Failure as failure:
            complain(*failure.lines)
            raise typer.Exit(failure.code) from None
        except StewardError as error:
            complain(str(error))
            raise typer.Exit(FAILED) from None


def _path(group: Any, program: str, typed: Iterable[str]) -> str:
    """What the command is called of which the arguments were typed: `tpu-steward nodes show`."""
    path = [program]
    for word in typed:
        group = getattr(group, "commands", {}).get(word)
        if group is None:
            break
        path.append(word)
    return " ".join(path)


app = typer.Typer(
    cls=Commands,
    help="Provision Cloud TPUs, and control what they cost.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (*ALONE, estimate.estimate, plan.plan):
    app.command()(command)
app.add_typer(nodes.app, name="nodes")
app.add_typer(jobs.app, name="jobs")
app.add_typer(costs.app, name="costs")
app.add_typer(orphans.app, name="orphans")
app.add_typer(cleanup.app, name="cleanup")
app.add_typer(runtimes.app, name="runtimes")
app.add_typer(prices.app, name="prices")
app.add_typer(budgets.app, name="budgets")
app.add_typer(reservations.app, name="reservations")
app.add_typer(commitments.app, name="commitments")
app.add_typer(catalog.app, name="catalog")
