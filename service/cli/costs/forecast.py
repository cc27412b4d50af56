"""`costs forecast`: expected cost of a period at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import format_count, format_parts, format_time, format_usd
from service.cli.terminal.render import print_facts, print_json, print_lines, print_paragraphs


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
        "filter": options.parse_filters(only),
    }
    with open_client() as client:
        answer = client.get("/v1/forecasts", asked)
    if json:
        print_json(answer)
    else:
        print_forecast(answer.value)


def print_forecast(found: Mapping[str, Any]) -> None:
    """Print the expected total with its band, its parts, and how they were computed."""
    total, running, launches = found["total"], found["running"], found["new_launches"]
    print_paragraphs(
        f"{format_usd(total['mid'])} by {format_time(found['end'])} UTC ({_format_band(total)})", ""
    )
    amounts = [found["spent"], running["mid"], launches["mid"]]
    spent, runs, new = format_parts(total["mid"], amounts)
    most = format_usd(found["committed"])
    last = ""  # error of the forecast that was made at the middle of the last month
    if (error := found["last_error"]) is not None:
        percent = "" if error["error_percent"] is None else f", off by {error['error_percent']} %"
        mid = format_usd(error["forecast"]["mid"])
        last = f"{format_usd(error['actual'])}, forecast at half time as {mid}{percent}"
    print_facts(
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
    print_lines("")
    print_paragraphs(found["explanation"])
    if found["unpriced_nodes"]:
        nodes = format_count(found["unpriced_nodes"], "node")
        print_lines(f"{nodes} with unknown price: in no figure.")


def _format_band(band: Mapping[str, str]) -> str:
    if band["low"] == band["high"]:
        return "no band"
    return f"{format_usd(band['low'])} to {format_usd(band['high'])}"
