"""`commitments recommended`: how many chips to commit to, computed from the hours of use."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

import typer

from service.cli.terminal import options
from service.cli.terminal.client import open_client
from service.cli.terminal.formatting import format_count, format_exact, format_time, format_usd
from service.cli.terminal.render import print_facts, print_json, print_lines, print_paragraphs

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
    print_paragraphs(f"from {format_count(found['days'], 'full day')}, {start} to {end} UTC")
    for advice in several:
        years = format_count(advice["term_years"], "year")
        chips = format_count(advice["chips"], "chip") if advice["chips"] else "nothing"
        facts = [(f"{advice['generation']} in {advice['region']}", years), ("  Commit to", chips)]
        if advice["reason"]:
            facts.append(("  Because", advice["reason"]))
        if advice["break_even_of_a_day"]:
            committed = format_exact(advice["commitment_price"])
            on_demand = format_exact(advice["on_demand_price"])
            facts += [
                ("  A chip-hour", f"{committed} for {on_demand} on demand"),
                ("  Saves money from", f"{advice['break_even_of_a_day']} of use a day"),
            ]
        if advice["chips_best"]:
            between = f"{advice['chips_low']:,} to {advice['chips_high']:,} in eight of ten draws"
            best = format_count(advice["chips_best"], "chip")
            facts.append(("  Cheapest", f"{best}; {between}"))
        if advice["chips"]:
            low = format_usd(advice["saving_per_month_low"])
            high = format_usd(advice["saving_per_month_high"])
            facts += [
                ("  In use", f"{Decimal(advice['utilisation_percent']):.1f} % of the time"),
                ("  Saves a month", f"{format_usd(advice['saving_per_month'])} ({low} to {high})"),
                ("  Due if use stops", format_usd(advice["cost_if_unused"])),
            ]
        print_lines("")
        print_facts(facts)
    # A sentence to a line: together they would not fit into 80 columns.
    *firsts, last = found["caution"].split(". ")
    choice = "Choose one term or the other, not both."
    print_paragraphs("", choice, *(f"{sentence}." for sentence in firsts), last)
