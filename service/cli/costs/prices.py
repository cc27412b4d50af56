"""`prices`: prices of chips and machines, with their discounts."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.costs import discounts
from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import NOTHING, format_column, format_exact, format_time
from service.cli.terminal.lists import ListCommand
from service.cli.terminal.render import print_json, print_lines, print_paragraphs, print_table

app = typer.Typer(
    help="Show and add prices, and manage discounts.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(discounts.app, name="discount")


@app.command("list", cls=ListCommand)
def list_prices(
    generation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this generation, as in v5e, or machine type."),
    ] = None,
    model: options.Model = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="REGION", help="Only this region.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="As of this time. Default: now.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the prices in force, with discounts."""
    asked = {
        "generation": generation,
        "provisioning_model": options.choose_model(model),
        "region": region,
        "at": at,
    }
    with open_client() as client:
        answer = client.get_all("/v1/prices", "prices", asked)
    if json:
        print_json(answer)
    elif not answer.value["prices"]:
        print_lines("no such price is known")
    else:
        prices = answer.value["prices"]
        some_are_less = any(price.get("discount") for price in prices)
        paid = format_column([(price.get("discount") or price)["usd"] for price in prices])
        discounts = [
            f"{price['discount']['percent']} %" if price.get("discount") else NOTHING
            for price in prices
        ]
        print_table(
            [
                *("GENERATION", "MODEL", "REGION", ">PRICE"),
                *((">DISCOUNT", ">PAID") if some_are_less else ()),
                *("PER", "SINCE", "SOURCE"),
            ],
            (
                [
                    price["generation"],
                    price["provisioning_model"],
                    price["region"] or NOTHING,
                    amount,
                    *((discount, less) if some_are_less else ()),
                    _UNITS[price["unit"]],
                    price["effective_from"][:10],
                    price["source"],
                ]
                for price, amount, discount, less in zip(
                    prices, format_column([p["usd"] for p in prices]), discounts, paid, strict=True
                )
            ),
            spare=("SOURCE", "SINCE", "PER", "DISCOUNT"),
        )


@app.command()
def add(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    generation: Annotated[
        str, typer.Option(metavar="NAME", help="Generation, as in v5e, or a machine type.")
    ],
    provisioning_model: Annotated[
        str,
        typer.Option(
            "--provisioning-model",
            metavar="MODEL",
            help="on_demand, spot, preemptible, reserved, flex_start or calendar.",
        ),
    ],
    region: Annotated[str, typer.Option("--region", metavar="REGION", help="Region.")],
    usd: Annotated[str, typer.Option("--usd", metavar="USD", help="Dollars per unit, as in 1.20.")],
    unit: Annotated[
        str, typer.Option("--unit", metavar="UNIT", help="chip_hour, device_hour or vm_hour.")
    ] = "chip_hour",
    start: Annotated[
        str | None,
        typer.Option(
            "--from", parser=options.require_instant, metavar="TIME", help="Start. Default: now."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="TEXT", help="Where the price is known from."),
    ] = None,
    confidence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="How sure it is, as in contract.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            callback=options.require_key,
            metavar="TEXT",
            help="A second request with this key adds nothing.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Add a list price from now on, or from a later time."""
    fields = {
        "generation": generation,
        "provisioning_model": provisioning_model.replace("-", "_").lower(),
        "region": region,
        "usd": usd,
        "unit": unit,
        "effective_from": start,
        "source": source,
        "confidence": confidence,
    }
    body = {name: value for name, value in fields.items() if value is not None}
    headers = {} if key is None else {"Idempotency-Key": key}
    with open_client() as client:
        answer = client.send_request("POST", "/v1/prices", body=body, headers=headers)
    if json:
        print_json(answer)
        return
    price = answer.value
    print_paragraphs(
        f"{price['generation']} {price['provisioning_model']} in {price['region']}:"
        f" {format_exact(price['usd'])} per {_UNITS[price['unit']]}"
        f" from {format_time(price['effective_from'])} UTC ({price['source']})"
    )


_UNITS = {"chip_hour": "chip-hour", "device_hour": "device-hour", "vm_hour": "hour"}
