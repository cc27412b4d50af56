"""`catalog`: which hardware there is, and where."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli import options
from service.cli.client import connected
from service.cli.render import as_json, table

app = typer.Typer(help="What Google offers.", no_args_is_help=True, rich_markup_mode=None)

Generation = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only this generation, as in v5e.")
]


@app.command()
def accelerators(
    generation: Generation = None,
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Only what this zone has.")
    ] = None,
    chips: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only with so many chips.")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the accelerator types."""
    asked = {"generation": generation, "zone": zone, "chips": chips}
    with connected() as client:
        answer = client.pages("/v1/catalog/accelerators", "accelerators", asked)
    if json:
        as_json(answer)
        return
    table(
        ["TYPE", "GENERATION", ">CHIPS", ">HOSTS", "TOPOLOGY", "MACHINE"],
        (
            [
                one["name"],
                one["generation"],
                f"{one['chips']:,}",
                f"{one['hosts']:,}",
                one["topology"],
                one["machine_type"],
            ]
            for one in answer.value["accelerators"]
        ),
    )


@app.command()
def zones(
    generation: Generation = None,
    region: Annotated[str | None, typer.Option(metavar="REGION", help="Only this region.")] = None,
    json: options.Json = False,
) -> None:
    """List the zones that have TPUs."""
    asked = {"generation": generation, "region": region}
    with connected() as client:
        answer = client.pages("/v1/catalog/zones", "zones", asked)
    if json:
        as_json(answer)
        return
    table(
        ["ZONE", "REGION", "GENERATIONS"],
        (
            [
                one["name"],
                one["region"],
                ", ".join(each["generation"] for each in one["generations"]),
            ]
            for one in answer.value["zones"]
        ),
    )
