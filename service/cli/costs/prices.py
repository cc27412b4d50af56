"""`prices`: prices of chips and machines, with their discounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.costs import discounts
from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import NOTHING, format_column
from service.cli.terminal.render import print_json, print_lines, print_table

app = typer.Typer(
    help="Show prices, and manage discounts.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(discounts.app, name="discount")


@app.command("list")
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
                    *((_format_discount(price), less) if some_are_less else ()),
                    _UNITS[price["unit"]],
                    price["effective_from"][:10],
                    price["source"],
                ]
                for price, amount, less in zip(
                    prices, format_column([p["usd"] for p in prices]), paid, strict=True
                )
            ),
        )


_UNITS = {"chip_hour": "chip-hour", "device_hour": "device-hour", "vm_hour": "hour"}


def _format_discount(price: Mapping[str, Any]) -> str:
    discount = price.get("discount")
    return f"{discount['percent']} %" if discount else NOTHING
