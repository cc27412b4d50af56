"""`plan`: hardware that fits a need, with its cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import NOTHING, format_span, format_time, format_usd
from service.cli.terminal.render import print_json, print_lines, print_table

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
        typer.Option(
            "--for", parser=options.parse_seconds, metavar=_DURATION, help="Instead of --flops"
        ),
    ] = None,
    within: Annotated[
        int | None,
        typer.Option(
            parser=options.parse_seconds, metavar=_DURATION, help="Finish within this time."
        ),
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
        "provisioning_model": options.choose_model(provisioning_model, spot=spot),
    }
    with open_client() as client:
        said = {name: value for name, value in body.items() if value is not None}
        answer = client.send_request("POST", "/v1/estimates:plan", body=said)
    if json:
        print_json(answer)
    else:
        print_plans(answer.value)


def print_plans(found: Mapping[str, Any]) -> None:
    """Print a row for each accelerator type and provisioning model."""
    rows = []
    for plan in found["plans"]:
        duration, affords = plan["duration_seconds"], plan["affords_seconds"]
        missed = [
            "too late" if plan["meets_deadline"] is False else "",
            "too expensive" if plan["meets_max_spend"] is False else "",
            "price not known" if plan["hourly_cost"] is None else "",
        ]
        fits = ", ".join(filter(None, missed))
        if not fits:
            # Without a duration, the largest spend says how long the node may run.
            is_limited = affords is not None and duration is None
            has_span = is_limited and Decimal(plan["hourly_cost"]) > 0
            fits = f"yes, the spend lasts for {format_span(affords)}" if has_span else "yes"
        steps = NOTHING
        if plan["accumulation_steps"] is not None:
            # Uneven: the last step is not full.
            steps = f"{plan['accumulation_steps']}{'' if plan['divides_evenly'] else ', uneven'}"
        rows.append(
            [
                plan["accelerator_type"],
                str(plan["chips"]),
                plan["provisioning_model"],
                plan["zone"],
                format_usd(plan["hourly_cost"]),
                NOTHING if duration is None else format_span(duration),
                NOTHING if duration is None else format_usd(plan["cost"]),
                steps,
                fits,
            ]
        )
    print_table(
        ["TYPE", ">CHIPS", "MODEL", "ZONE", ">PER HOUR", ">TAKES", ">COST", ">STEPS", "FITS"],
        rows,
        spare=("CHIPS", "STEPS", "ZONE", "PER HOUR", "TAKES"),
    )
    print_lines("", f"prices as of {format_time(found['as_of'])} UTC")
