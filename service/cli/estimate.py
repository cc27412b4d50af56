"""`estimate`: what a node would cost, place by place, cheapest first."""

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


def _per_chip(hourly: str | None, chips: int) -> str | None:
    return None if hourly is None else str(Decimal(hourly) / chips)


def show(estimate: Mapping[str, Any]) -> None:
    """A line for each zone and model."""
    long = span(estimate["duration_seconds"])
    echo(f"{estimate['accelerator_type']}, {counted(estimate['chips'], 'chip')}, for {long}", "")
    offers = estimate["estimates"]
    rates = [offer["hourly_cost"] for offer in offers]
    per_chip = column([_per_chip(rate, estimate["chips"]) for rate in rates])
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
    echo(*map(_of_budget, estimate.get("budgets", ())))


def _of_budget(budget: Mapping[str, Any]) -> str:
    """What the cheapest would take of it, and what is left then, or is missing."""
    name, percent, amount = (
        budget["name"] or budget["budget_id"],
        budget["percent"],
        budget["amount"],
    )
    taken = f"{name}: the cheapest takes {percent} % of {money(amount)}"
    rest = _rest(budget["left"], fits=budget["fits"])
    return f"{taken}; {rest}{_answer(budget['on_exceeded'], fits=budget['fits'])}"


def _answer(on_exceeded: str, *, fits: bool | None) -> str:
    """What the budget would say to it, where it is short of money or nobody knows."""
    if fits:
        return ""
    return ": it only notifies" if on_exceeded == "notify" else ": it would refuse"


def _rest(left: str | None, *, fits: bool | None) -> str:
    if left is None or fits is None:
        return "what is left is unknown"
    if Decimal(left) < 0:
        return f"that is {money(left.removeprefix('-'))} more than what is left of it"
    if fits is False:
        return (
            f"{money(left)} is left after it, too little for the minute that its deletion may take"
        )
    return f"{money(left)} is left after it"
