"""`costs forecast`: expected cost of a period at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import connected
from service.cli.terminal.formatting import counted, moment, money, parts
from service.cli.terminal.render import as_json, echo, facts


def forecast(
    period: Annotated[
        str, typer.Option("--period", metavar="PERIOD", help="day, week, month, quarter or year.")
    ] = "month",
    tz: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone, such as Europe/Berlin.")
    ] = "UTC",
    only: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="DIMENSION=VALUE", help="Only these values. Repeatable."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Forecast the cost of the current period."""
    asked = {
        "period": period,
        "tz": tz,
        "filter": options.conditions(only),
    }
    with connected() as client:
        answer = client.get("/v1/forecasts", asked)
    if json:
        as_json(answer)
    else:
        show(answer.value)


def show(found: Mapping[str, Any]) -> None:
    """Print the expected total with its band, its parts, and how they were computed."""
    total, running, launches = found["total"], found["running"], found["new_launches"]
    echo(f"{money(total['mid'])} by {moment(found['end'])} UTC ({_format_band(total)})", "")
    amounts = [found["spent"], running["mid"], launches["mid"]]
    spent, runs, new = parts(total["mid"], amounts)
    most = money(found["committed"])
    last = ""  # error of the forecast that was made at the middle of the last month
    if (error := found["last_error"]) is not None:
        percent = "" if error["error_percent"] is None else f", off by {error['error_percent']} %"
        mid = money(error["forecast"]["mid"])
        last = f"{money(error['actual'])}, forecast at half time as {mid}{percent}"
    facts(
        [
            ("  Spent", spent),
            *(
                [("  Runs until its TTL", runs), ("  At this run-rate", new)]
                if found["method"] == "run_rate"
                else [
                    ("  Runs now", f"{runs} ({_format_band(running)}), {most} at most"),
                    ("  New launches", f"{new} ({_format_band(launches)})"),
                ]
            ),
            ("  Last month", last),
        ]
    )
    echo("", found["explanation"])
    if found["unpriced_nodes"]:
        nodes = counted(found["unpriced_nodes"], "node")
        echo(f"{nodes} with unknown price: in no figure.")


def _format_band(band: Mapping[str, str]) -> str:
    if band["low"] == band["high"]:
        return "no band"
    return f"{money(band['low'])} to {money(band['high'])}"
