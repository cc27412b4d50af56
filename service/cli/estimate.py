"""`estimate`: cost of a node in each zone, the cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import connected
from service.cli.terminal.formatting import column, counted, money, span
from service.cli.terminal.render import as_json, echo, table


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
    duration: Annotated[
        int, typer.Option("--for", parser=options.seconds, metavar="DURATION", help="Duration.")
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
        **options.places(zone, region),
        "provisioning_model": options.model(
            provisioning_model, spot=spot, preemptible=preemptible, flex_start=flex_start
        ),
        "duration_seconds": duration,
        "team": team,
        "owner": owner,
        "project": project,
        "labels": options.mapping(label, "--label"),
    }
    with connected() as client:
        said = {name: value for name, value in body.items() if value is not None}
        answer = client.ask("POST", "/v1/estimates", body=said)
    if json:
        as_json(answer)
    else:
        show(answer.value)


def show(estimate: Mapping[str, Any]) -> None:
    """Print a row for each zone and model, then the effect on each budget."""
    long = span(estimate["duration_seconds"])
    echo(f"{estimate['accelerator_type']}, {counted(estimate['chips'], 'chip')}, for {long}", "")
    offers = estimate["estimates"]
    rates = [offer["hourly_cost"] for offer in offers]
    per_chip = column(
        [None if rate is None else str(Decimal(rate) / estimate["chips"]) for rate in rates]
    )
    table(
        ["ZONE", "MODEL", ">PER CHIP-HOUR", ">PER HOUR", f">FOR {long}"],
        (
            [
                offer["zone"],
                offer["provisioning_model"],
                chip_hour,
                hour,
                money(offer["cost"]),
            ]
            for offer, chip_hour, hour in zip(offers, per_chip, column(rates), strict=True)
        ),
    )
    echo(*map(_describe_budget, estimate.get("budgets", ())))


def _describe_budget(budget: Mapping[str, Any]) -> str:
    """Share of a budget that the cheapest offer takes, and the amount that is left or missing."""
    name, fits = budget["name"] or budget["budget_id"], budget["fits"]
    taken = f"{name}: the cheapest takes {budget['percent']} % of {money(budget['amount'])}"
    left = budget["left"]
    if left is None or fits is None:
        rest = "what is left is unknown"
    elif Decimal(left) < 0:
        rest = f"that is {money(left.removeprefix('-'))} more than what is left of it"
    elif fits:
        rest = f"{money(left)} is left after it"
    else:
        amount = money(left)
        rest = f"{amount} is left after it, too little for the minute that its deletion may take"
    answer = ": it only notifies" if budget["on_exceeded"] == "notify" else ": it would refuse"
    return f"{taken}; {rest}{'' if fits else answer}"
