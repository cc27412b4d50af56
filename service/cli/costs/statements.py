"""`costs statement`: cost of a month, line by line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.costs.ledger import NOTHING_POSTED
from service.cli.terminal import options
from service.cli.terminal.client import open_client, quote_segment
from service.cli.terminal.formatting import (
    NOTHING,
    chip_hours,
    format_column,
    format_parts,
    format_usd,
)
from service.cli.terminal.render import print_json, print_lines, print_table


def statement(
    month: Annotated[str | None, typer.Argument(metavar="[MONTH]", help="As in 2026-11.")] = None,
    json: options.Json = False,
) -> None:
    """Show the lines of a month, or the sums of all months."""
    with open_client() as client:
        answer = client.get(f"/v1/statements/{quote_segment(month)}" if month else "/v1/statements")
    if json:
        print_json(answer)
    elif month:
        _print_statement(answer.value)
    elif answer.value["statements"]:
        print_table(
            ["MONTH", "STATE", ">CHIP-HOURS", ">AMOUNT"],
            [
                [
                    total["period"],
                    total["state"],
                    chip_hours(total["chip_seconds"]),
                    format_usd(total["amount"]),
                ]
                for total in answer.value["statements"]
            ],
        )
    else:
        print_lines(NOTHING_POSTED)


def _print_statement(found: Mapping[str, Any]) -> None:
    if found["lines"]:
        prices = format_column([line["usd_per_chip_hour"] for line in found["lines"]])
        amounts = format_parts(found["amount"], [line["amount"] for line in found["lines"]])
        print_table(
            ["TEAM", "OWNER", "TYPE", "MODEL", "ZONE", ">PER CHIP-HOUR", ">CHIP-HOURS", ">AMOUNT"],
            (
                [
                    line["team"] or NOTHING,
                    line["owner"] or NOTHING,
                    line["accelerator_type"],
                    f"{line['provisioning_model']} ({unused}{line['reservation']})"
                    if line["reservation"]
                    else line["provisioning_model"],
                    line["zone"],
                    price,
                    # A legacy TPU Node is driven by a VM, which is charged by the hour.
                    f"{chip_hours(line['vm_seconds'])} of the VM"
                    if line["vm_seconds"]
                    else chip_hours(line["chip_seconds"]),
                    amount + (f" (corrects {line['corrects']})" if line["corrects"] else ""),
                ]
                for line, price, amount in zip(found["lines"], prices, amounts, strict=True)
                # Time of a reservation that no node used.
                for unused in ["unused of " if line["reservation_status"] == "unused" else ""]
            ),
            spare=("PER CHIP-HOUR", "ZONE", "CHIP-HOURS", "MODEL"),
        )
        print_lines("")
    print_lines(f"{found['period']}: {format_usd(found['amount'])}, {found['state']}")
