"""`estimate`: cost of a node in each zone, the cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import format_column, format_count, format_span, format_usd
from service.cli.terminal.render import print_json, print_lines, print_paragraphs, print_table


def estimate(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    accelerator_type: options.AcceleratorType = None,
    generation: options.Generation = None,
    chips: options.Chips = None,
    topology: options.Topology = None,
    zone: options.Zones = None,
    region: options.Regions = None,
    provisioning_model: options.Model = None,
    spot: options.Spot = False,
    preemptible: options.Preemptible = False,
    flex_start: options.FlexStart = False,
    slices: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of equal slices.")
    ] = None,
    duration: Annotated[
        int,
        typer.Option("--for", parser=options.parse_seconds, metavar="DURATION", help="Duration."),
    ] = options.AN_HOUR,
    team: Annotated[
        str | None, typer.Option(metavar="NAME", help="Team whose budgets are checked.")
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="The same.")] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="PROJECT", help="The same.")
    ] = None,
    label: options.Labels = None,
    json: options.Json = False,
) -> None:
    """Estimate the cost of a node before you create it."""
    options.check_hardware(accelerator_type, generation)
    body = {
        "accelerator_type": accelerator_type,
        "generation": generation,
        "chips": chips,
        "topology": topology,
        **options.place_fields(zone, region),
        "provisioning_model": options.choose_model(
            provisioning_model, spot=spot, preemptible=preemptible, flex_start=flex_start
        ),
        "slices": slices,
        "duration_seconds": duration,
        "team": team,
        "owner": owner,
        "project": project,
        "labels": options.parse_mapping(label, "--label"),
    }
    with open_client() as client:
        said = {name: value for name, value in body.items() if value is not None}
        answer = client.send_request("POST", "/v1/estimates", body=said)
    if json:
        print_json(answer)
    else:
        print_estimate(answer.value)


def print_estimate(estimate: Mapping[str, Any], *, has_end: bool = True) -> None:
    """Print a row for each zone and model, then the effect on each budget. A node that has no end
    has no cost in all."""
    long = format_span(estimate["duration_seconds"])
    chips = format_count(estimate["chips"], "chip")
    until = f"for {long}" if has_end else "until it is deleted"
    slices = estimate.get("slices", 1)
    each = estimate["accelerator_type"] + (f", {slices:,} slices" if slices > 1 else "")
    print_lines(f"{each}, {chips}, {until}", "")
    offers = estimate["estimates"]
    rates = [offer["hourly_cost"] for offer in offers]
    per_chip = format_column(
        [None if rate is None else str(Decimal(rate) / estimate["chips"]) for rate in rates]
    )
    print_table(
        ["ZONE", "MODEL", ">PER CHIP-HOUR", ">PER HOUR", *([f">FOR {long}"] if has_end else [])],
        (
            [
                offer["zone"],
                offer["provisioning_model"],
                chip_hour,
                hour,
                *([format_usd(offer["cost"])] if has_end else []),
            ]
            for offer, chip_hour, hour in zip(offers, per_chip, format_column(rates), strict=True)
        ),
        spare=["PER CHIP-HOUR"],
    )
    # The share of a budget that the cheapest offer takes, and the amount that is left or missing.
    lines = []
    for budget in estimate.get("budgets", ()):
        name, fits = budget["name"] or budget["budget_id"], budget["fits"]
        taken = (
            f"{name}: the cheapest takes {budget['percent']} % of {format_usd(budget['amount'])}"
        )
        left = budget["left"]
        if left is None or fits is None:
            rest = "what is left is unknown"
        elif Decimal(left) < 0:
            rest = f"that is {format_usd(left.removeprefix('-'))} more than it has left"
        elif fits:
            rest = f"{format_usd(left)} is left after it"
        else:
            amount = format_usd(left)
            rest = (
                f"{amount} is left after it, too little for the minute that its deletion may take"
            )
        answer = ": it only notifies" if budget["on_exceeded"] == "notify" else ": it would refuse"
        lines.append(f"{taken}; {rest}{'' if fits else answer}")
    print_paragraphs(*lines)
