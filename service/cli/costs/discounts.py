"""`prices discount`: negotiated discounts and their time ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client, quote_segment
from service.cli.terminal.formatting import NOTHING, format_time
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import print_json, print_lines, print_table

app = typer.Typer(help="Manage negotiated discounts.", no_args_is_help=True, rich_markup_mode=None)

DiscountId = Annotated[
    str,
    typer.Argument(callback=options.require_name, metavar="DISCOUNT", help="Id, from the list."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", parser=options.require_instant, metavar="TIME", help="Start. Default: now."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", parser=options.require_instant, metavar="TIME", help="End, exclusive."),
]


@app.command("list", cls=ListCommand)
def list_discounts(
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only discounts in force at this time.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List all discounts, the latest start first."""
    with open_client() as client:
        answer = client.get_all("/v1/prices/discounts", "discounts", {"at": at})
    if json:
        print_json(answer)
    elif not answer.value["discounts"]:
        print_lines("no discount is known")
    else:
        print_table(
            [">PERCENT", "GENERATION", "MODEL", "FROM (UTC)", "UNTIL (UTC)", "SOURCE", "ID"],
            (
                [
                    discount["percent"],
                    discount["generation"] or "any",
                    discount["provisioning_model"] or "any",
                    format_time(discount["effective_from"]),
                    format_time(discount["effective_until"]),
                    discount["source"] or NOTHING,
                    discount["id"],
                ]
                for discount in answer.value["discounts"]
            ),
            spare=("SOURCE", "UNTIL (UTC)", "FROM (UTC)"),
        )


@app.command()
def add(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    percent: Annotated[
        str, typer.Argument(metavar="PERCENT", help="Percent off the list price, such as 12.5.")
    ],
    generation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this generation, or this machine type.")
    ] = None,
    model: options.Model = None,
    begin: From = None,
    until: Until = None,
    source: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Source, such as a contract.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Add a discount. A second one on the same price is refused."""
    said = {
        "percent": percent,
        "generation": generation,
        "provisioning_model": options.choose_model(model),
        "effective_from": begin,
        "effective_until": until,
        "source": source,
    }
    body = {key: value for key, value in said.items() if value is not None}
    with open_client() as client:
        answer = client.send_request("POST", "/v1/prices/discounts", body=body)
    if json:
        print_json(answer)
    else:
        print_lines(_describe_discount(answer.value), f"id {answer.value['id']}")


@app.command()
def end(
    discount: DiscountId,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", parser=options.require_instant, metavar="TIME", help="End. Default: now."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """End a discount early. What was charged with it stays as it was charged."""
    body = {} if at is None else {"effective_until": at}
    with open_client() as client:
        answer = client.send_request(
            "POST", f"/v1/prices/discounts/{quote_segment(discount)}:end", body=body
        )
    if json:
        print_json(answer)
    else:
        print_lines(_describe_discount(answer.value))


def _describe_discount(discount: Mapping[str, Any]) -> str:
    generation, model = discount["generation"], discount["provisioning_model"]
    every = " ".join(word for word in ("every", model, "TPU") if word)
    what = f"{generation} {model}".strip() if generation else every
    until = discount["effective_until"]
    ends = "" if until is None else f" until {format_time(until)}"
    begins = format_time(discount["effective_from"])
    return f"{discount['percent']} % off {what} from {begins}{ends} (UTC)"
