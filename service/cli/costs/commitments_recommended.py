"""`commitments recommended`: how many chips to commit to, computed from the hours of use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import format_count, format_exact, format_time, format_usd
from service.cli.terminal.render import print_facts, print_json, print_lines

NOTHING_USED = "no chip was in use on demand on a full day yet; a recommendation needs 28 full days"


def recommended(
    days: Annotated[
        int, typer.Option(metavar="N", min=28, max=90, help="Use this number of full UTC days.")
    ] = 90,
    json: options.Json = False,
) -> None:
    """Recommend how many chips to commit to."""
    with open_client() as client:
        answer = client.get("/v1/commitments/recommended", {"days": days})
    if json:
        print_json(answer)
    else:
        print_recommendations(answer.value)


def print_recommendations(found: Mapping[str, Any]) -> None:
    """Print the recommendation for each generation, region and term, with its reasons."""
    several = found["recommendations"]
    if not several:
        print_lines(NOTHING_USED)
        return
    start, end = format_time(found["start"]), format_time(found["end"])
    print_lines(f"from {format_count(found['days'], 'full day')}, {start} to {end} UTC")
    for recommendation in several:
        print_lines("")
        print_facts(_list_facts(recommendation))
    # One sentence to a line: a terminal has 80 columns.
    *firsts, last = found["caution"].split(". ")
    choice = "Choose one term or the other, not both."
    print_lines("", choice, *(f"{sentence}." for sentence in firsts), last)


def _list_facts(advice: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    years = format_count(advice["term_years"], "year")
    yield f"{advice['generation']} in {advice['region']}", years
    yield "  Commit to", format_count(advice["chips"], "chip") if advice["chips"] else "nothing"
    if advice["reason"]:
        yield "  Because", advice["reason"]
    if advice["break_even_of_a_day"]:
        committed, on_demand = (
            format_exact(advice["commitment_price"]),
            format_exact(advice["on_demand_price"]),
        )
        yield "  A chip-hour", f"{committed} for {on_demand} on demand"
        yield "  A chip pays from", f"{advice['break_even_of_a_day']} of use a day"
    if advice["chips_best"]:
        between = f"{advice['chips_low']:,} to {advice['chips_high']:,} in eight of ten draws"
        yield "  Cheapest", f"{format_count(advice['chips_best'], 'chip')}; {between}"
    if not advice["chips"]:
        return
    low, high = (
        format_usd(advice["saving_per_month_low"]),
        format_usd(advice["saving_per_month_high"]),
    )
    yield "  In use", f"{Decimal(advice['utilisation_percent']):.1f} % of the time"
    yield "  Saves a month", f"{format_usd(advice['saving_per_month'])} ({low} to {high})"
    yield "  Due if use stops", format_usd(advice["cost_if_unused"])
