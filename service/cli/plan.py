"""`plan`: which hardware fits a need, and what it would cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import connected
from service.cli.terminal.formatting import NOTHING, moment, money, span
from service.cli.terminal.render import as_json, echo, table

_DURATION = "DURATION"


def plan(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    chips: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Smallest number of chips.")
    ] = None,
    hbm: Annotated[
        int | None, typer.Option("--hbm", metavar="GIB", min=1, help="Memory of all chips, in GiB.")
    ] = None,
    speed: Annotated[
        str | None,
        typer.Option("--flops-per-second", metavar="N", help="Peak in bfloat16, as in 1.8e18."),
    ] = None,
    work: Annotated[
        str | None,
        typer.Option("--flops", metavar="N", help="Total work; the duration follows from it."),
    ] = None,
    utilisation: Annotated[
        int | None,
        typer.Option(
            metavar="PERCENT",
            min=1,
            max=100,
            help="Utilization in percent of the peak. Default 40.",
        ),
    ] = None,
    duration: Annotated[
        int | None,
        typer.Option("--for", parser=options.seconds, metavar=_DURATION, help="Instead of --flops"),
    ] = None,
    within: Annotated[
        int | None,
        typer.Option(parser=options.seconds, metavar=_DURATION, help="Finish within this time."),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Finish by then, such as 2026-11-05T18:00:00Z."),
    ] = None,
    max_spend: Annotated[
        str | None, typer.Option(metavar="USD", help="Largest spend, in dollars.")
    ] = None,
    global_batch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Examples in one step of training.")
    ] = None,
    per_chip_batch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Examples that fit on one chip.")
    ] = None,
    generation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this generation, as in v5e.")
    ] = None,
    region: options.Regions = None,
    provisioning_model: options.Model = None,
    spot: options.Spot = False,
    json: options.Json = False,
) -> None:
    """Find hardware that fits a need, with its cost."""
    body = {
        "chips": chips,
        "hbm_gib": hbm,
        "flops_per_second": speed,
        "flops": work,
        "utilisation_percent": utilisation,
        "duration_seconds": duration,
        "deadline_seconds": within,
        "deadline": deadline,
        "max_spend": max_spend,
        "global_batch": global_batch,
        "per_chip_batch": per_chip_batch,
        "generation": generation,
        "regions": region or None,
        "provisioning_model": options.model(provisioning_model, spot=spot),
    }
    with connected() as client:
        said = {name: value for name, value in body.items() if value is not None}
        answer = client.ask("POST", "/v1/estimates:plan", body=said)
    if json:
        as_json(answer)
    else:
        show(answer.value)


def show(found: Mapping[str, Any]) -> None:
    """A line for each type and model."""
    table(
        ["TYPE", ">CHIPS", "MODEL", "ZONE", ">PER HOUR", ">TAKES", ">COST", ">STEPS", "FITS"],
        map(_line, found["plans"]),
    )
    echo("", f"prices as of {moment(found['as_of'])} UTC")


def _line(one: Mapping[str, Any]) -> list[str]:
    takes, hourly = one["duration_seconds"], one["hourly_cost"]
    return [
        one["accelerator_type"],
        str(one["chips"]),
        one["provisioning_model"],
        one["zone"],
        money(hourly),
        NOTHING if takes is None else span(takes),
        NOTHING if takes is None else money(one["cost"]),
        _steps(one),
        _fits(one),
    ]


def _steps(one: Mapping[str, Any]) -> str:
    """`4`, or `4, uneven` where the last of them would not be full."""
    steps = one["accumulation_steps"]
    if steps is None:
        return NOTHING
    return str(steps) if one["divides_evenly"] else f"{steps}, uneven"


def _fits(one: Mapping[str, Any]) -> str:
    """What it misses, or for how long the money would do."""
    missed = [
        "too late" if one["meets_deadline"] is False else "",
        "too expensive" if one["meets_max_spend"] is False else "",
        "price not known" if one["hourly_cost"] is None else "",
    ]
    if any(missed):
        return ", ".join(filter(None, missed))
    lasts = one["affords_seconds"]
    dear = lasts is not None and one["duration_seconds"] is None and Decimal(one["hourly_cost"])
    return f"yes, the spend lasts for {span(lasts)}" if dear else "yes"
