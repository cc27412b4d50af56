"""`costs`: what was spent, by calendar bucket and any grouping."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from service.cli import exports, forecast, options, reconcile, statements
from service.cli.client import connected
from service.cli.render import as_json, echo, table
from service.cli.wording import NOTHING, chip_hours, moment, money

app = typer.Typer(help="Say what was spent.", invoke_without_command=True, rich_markup_mode=None)
app.command("export")(exports.export)
app.command("forecast")(forecast.forecast)
app.command("reconcile")(reconcile.reconcile)
app.command("statement")(statements.statement)


@app.callback()
def costs(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    context: typer.Context,
    window: Annotated[
        str, typer.Option(metavar="WINDOW", help="7d, 24h, today, mtd, or two instants: A,B.")
    ] = "7d",
    aggregate: Annotated[
        list[str] | None,
        typer.Option(
            "--aggregate",
            "--by",
            metavar="DIMENSION",
            help="team, owner, node, generation, zone, label:KEY and so on; may be said again.",
        ),
    ] = None,
    step: Annotated[
        str, typer.Option(metavar="STEP", help="hour, day, week, month or all.")
    ] = "day",
    tz: Annotated[
        str, typer.Option(metavar="ZONE", help="Whose calendar, as in Europe/Berlin.")
    ] = "UTC",
    only: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="DIMENSION=VALUE", help="Only these; may be said again."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what was spent."""
    if context.invoked_subcommand is not None:
        return
    asked = {
        "window": window,
        "aggregate": ",".join(aggregate or ()),
        "step": step,
        "tz": tz,
        "filter": [f"{key}:{value}" for key, value in options.pairs(only, "--filter")],
    }
    with connected() as client:
        answer = client.get("/v1/costs", asked)
    if json:
        as_json(answer)
    else:
        show(answer.value)


def _day(text: str, tz: str) -> str:
    """The beginning of a bucket by the calendar that was asked for; a date where it is midnight."""
    begin = datetime.fromisoformat(text).astimezone(ZoneInfo(tz))
    return f"{begin:%Y-%m-%d}" if not (begin.hour or begin.minute) else f"{begin:%Y-%m-%d %H:%M}"


def show(report: Mapping[str, Any]) -> None:
    """The rows, and their sum."""
    names = report["aggregate"]
    if report["rows"]:
        table(
            [f"FROM ({report['tz']})", *(name.upper() for name in names), ">CHIP-HOURS", ">COST"],
            (
                [
                    _day(row["start"], report["tz"]),
                    *(row[name] or NOTHING for name in names),
                    chip_hours(row["chip_seconds"]),
                    money(row["cost"]),
                ]
                for row in report["rows"]
            ),
        )
        echo("")
    running = "; some of it still runs" if report.get("estimated") else ""
    echo(f"{money(report['total'])} in all, as of {moment(report['as_of'])} UTC{running}")
