"""`commitments recommended`: how many chips to commit to, from one's own hours of use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import connected
from service.cli.terminal.formatting import counted, exact, moment, money
from service.cli.terminal.render import as_json, echo, facts

NOTHING_USED = "no chip was in use on demand on a full day yet; a recommendation needs 28 full days"


def recommended(
    days: Annotated[
        int, typer.Option(metavar="N", min=28, max=90, help="Use this number of full UTC days.")
    ] = 90,
    json: options.Json = False,
) -> None:
    """Recommend how many chips to commit to."""
    with connected() as client:
        answer = client.get("/v1/commitments/recommended", {"days": days})
    if json:
        as_json(answer)
    else:
        show(answer.value)


def show(found: Mapping[str, Any]) -> None:
    """Each generation and region, and for both terms what to commit to and why."""
    several = found["recommendations"]
    if not several:
        echo(NOTHING_USED)
        return
    start, end = moment(found["start"]), moment(found["end"])
    echo(f"from {counted(found['days'], 'full day')}, {start} to {end} UTC")
    for one in several:
        echo("")
        facts(_facts(one))
    echo("", "Choose one term or the other, not both.", *_wrapped(found["caution"]))


def _wrapped(text: str) -> Iterator[str]:
    """A sentence to a line: a terminal has 80 columns."""
    *firsts, last = text.split(". ")
    yield from (f"{one}." for one in firsts)
    yield last


def _facts(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    years = counted(one["term_years"], "year")
    yield f"{one['generation']} in {one['region']}", years
    yield "  Commit to", counted(one["chips"], "chip") if one["chips"] else "nothing"
    if one["reason"]:
        yield "  Because", one["reason"]
    if one["break_even_of_a_day"]:
        prices = f"{exact(one['commitment_price'])} for {exact(one['on_demand_price'])} on demand"
        yield "  A chip-hour", prices
        yield "  A chip pays from", f"{one['break_even_of_a_day']} of use a day"
    if one["chips_best"]:
        between = f"{one['chips_low']:,} to {one['chips_high']:,} in eight of ten draws"
        yield "  Cheapest", f"{counted(one['chips_best'], 'chip')}; {between}"
    if not one["chips"]:
        return
    low, high = money(one["saving_per_month_low"]), money(one["saving_per_month_high"])
    yield "  In use", f"{Decimal(one['utilisation_percent']):.1f} % of the time"
    yield "  Saves a month", f"{money(one['saving_per_month'])} ({low} to {high})"
    yield "  Due if use stops", money(one["cost_if_unused"])
