"""`costs`: spend by calendar bucket and dimension."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from service.cli.costs import exports, forecast, reconcile, statements
from service.cli.terminal import options
from service.cli.terminal.bars import can_show_blocks, draw_bars
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import (
    NOTHING,
    chip_hours,
    format_age,
    format_parts,
    format_time,
    format_usd,
)
from service.cli.terminal.lists import ListCommand, ListGroup
from service.cli.terminal.render import (
    is_terminal,
    print_json,
    print_lines,
    print_paragraphs,
    print_table,
)
from service.cli.terminal.resolve import names_of

app = typer.Typer(
    cls=ListGroup,
    help="Show what was spent.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
CHART_WIDTH = 20
"""Characters of the longest bar."""

app.command("export")(exports.export)
app.command("forecast")(forecast.forecast)
app.command("reconcile")(reconcile.reconcile)
app.command("reconciliations", cls=ListCommand)(reconcile.reconciliations)
app.command("statement", cls=ListCommand)(statements.statement)


@app.callback()
def costs(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    context: typer.Context,
    window: Annotated[
        str,
        typer.Option(
            "--window", metavar="WINDOW", help="7d, 24h, today, mtd, or two timestamps: A,B."
        ),
    ] = "7d",
    aggregate: Annotated[
        list[str] | None,
        typer.Option(
            "--aggregate",
            "--by",
            metavar="DIMENSION",
            help="team, owner, node, generation, zone, label:KEY and others. Repeatable.",
        ),
    ] = None,
    step: Annotated[
        str, typer.Option("--step", metavar="STEP", help="hour, day, week, month or all.")
    ] = "day",
    tz: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone, such as Europe/Berlin.")
    ] = "UTC",
    only: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="DIMENSION=VALUE", help="Only these values. Repeatable."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what was spent."""
    if context.invoked_subcommand is not None:
        return
    asked = {
        "window": window,
        "aggregate": ",".join(aggregate or ()),
        "step": step,
        "tz": tz,
        "filter": options.parse_filters(only),
    }
    with open_client() as client:
        answer = client.get("/v1/costs", asked)
        rows = answer.value["rows"]
        names = {} if json else names_of(client, {row["node"] for row in rows if "node" in row})
    if json:
        print_json(answer)
    else:
        print_report(answer.value, names)


def print_report(report: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Print the rows, their sum, and the notes on the sum.

    `names` has the names of nodes by id. The ids are in the last column.
    """
    by = report["aggregate"]
    if report["rows"]:
        ids = ["ID"] if "node" in by else []
        zone = ZoneInfo(report["tz"])
        starts = [datetime.fromisoformat(row["start"]).astimezone(zone) for row in report["rows"]]
        costs = format_parts(report["total"], [row["cost"] for row in report["rows"]])
        # A bar for the cost of each row; none for a single row, and where no terminal is.
        bars = []
        if len(report["rows"]) > 1 and is_terminal(sys.stdout):
            amounts = [Decimal(row["cost"]) for row in report["rows"]]
            bars = draw_bars(amounts, CHART_WIDTH, has_blocks=can_show_blocks())
        print_table(
            [
                f"FROM ({report['tz']})",
                *(name.upper() for name in by),
                *(">CHIP-HOURS", ">COST", *(["CHART"] if bars else []), *ids),
            ],
            (
                [
                    # The time is left out at midnight.
                    f"{starts[at]:%Y-%m-%d %H:%M}".removesuffix(" 00:00"),
                    *(
                        (names.get(row[name], row[name]) if name == "node" else row[name])
                        or NOTHING
                        for name in by
                    ),
                    *(chip_hours(row["chip_seconds"]), cost),
                    *bars[at : at + 1],
                    *(row["node"] for _ in ids),
                ]
                for at, (row, cost) in enumerate(zip(report["rows"], costs, strict=True))
            ),
            spare=("ID", "CHART", "CHIP-HOURS"),
        )
        print_lines("")
    running = "; some of it still runs" if report["estimated"] else ""
    print_paragraphs(
        f"{format_usd(report['total'])} in all, as of {format_time(report['as_of'])} UTC{running}"
    )
    print_paragraphs(*_list_notes(report))


def _list_notes(report: Mapping[str, Any]) -> Iterator[str]:
    """Notes on the sum: its uncertainty, the time without a price, and the list price."""
    if Decimal(report["uncertainty"]):
        yield (
            f"uncertain by ± {format_usd(report['uncertainty'])}: some ends are known only between"
            " two polls"
        )
    if report["unpriced_seconds"]:
        yield f"{format_age(report['unpriced_seconds'])} with unknown price: in no figure"
    if report["list_total"] not in (None, report["total"]):
        yield f"on demand at list price: {format_usd(report['list_total'])}"
