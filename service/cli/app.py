"""The commands, put together, and what happens when one fails."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from service.cli import (
    budgets,
    catalog,
    costs,
    daemon,
    dev,
    emulator,
    estimate,
    migrate,
    nodes,
    orphans,
    plan,
    prices,
    reservations,
    runtimes,
    serve,
)
from service.cli.failure import FAILED, Failure
from service.cli.render import complain
from service.domain.errors import StewardError


class Commands(TyperGroup):
    """A group whose commands fail in plain lines on stderr, never with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except Failure as failure:
            complain(*failure.lines)
            raise typer.Exit(failure.code) from None
        except StewardError as error:
            complain(str(error))
            raise typer.Exit(FAILED) from None


app = typer.Typer(
    cls=Commands,
    help="TPU Steward owns the life of every Cloud TPU in your projects.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    dev.dev,
    serve.serve,
    daemon.daemon,
    emulator.emulator,
    migrate.migrate,
    estimate.estimate,
    plan.plan,
):
    app.command()(command)
app.add_typer(nodes.app, name="nodes")
app.add_typer(costs.app, name="costs")
app.add_typer(orphans.app, name="orphans")
app.add_typer(runtimes.app, name="runtimes")
app.add_typer(prices.app, name="prices")
app.add_typer(budgets.app, name="budgets")
app.add_typer(reservations.app, name="reservations")
app.add_typer(catalog.app, name="catalog")
