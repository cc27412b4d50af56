"""`costs statement`: cost of a month, line by line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.node_output import NOTHING_POSTED
from service.cli.terminal import options
from service.cli.terminal.client import connected, segment
from service.cli.terminal.formatting import NOTHING, chip_hours, column, money, parts
from service.cli.terminal.render import as_json, echo, table


def statement(
    month: Annotated[str | None, typer.Argument(metavar="[MONTH]", help="As in 2026-11.")] = None,
    json: options.Json = False,
) -> None:
    """Show the lines of a month, or the sums of all months."""
    with connected() as client:
        answer = client.get(f"/v1/statements/{segment(month)}" if month else "/v1/statements")
    if json:
        as_json(answer)
    elif month:
        _print_statement(answer.value)
    elif answer.value["statements"]:
        table(
            ["MONTH", "STATE", ">CHIP-HOURS", ">AMOUNT"],
            [
                [
                    total["period"],
                    total["state"],
                    chip_hours(total["chip_seconds"]),
                    money(total["amount"]),
                ]
                for total in answer.value["statements"]
            ],
        )
    else:
        echo(NOTHING_POSTED)


def _print_statement(found: Mapping[str, Any]) -> None:
    if found["lines"]:
        prices = column([line["usd_per_chip_hour"] for line in found["lines"]])
        amounts = parts(found["amount"], [line["amount"] for line in found["lines"]])
        table(
            ["TEAM", "OWNER", "TYPE", "MODEL", "ZONE", ">PER CHIP-HOUR", ">CHIP-HOURS", ">AMOUNT"],
            (
                [
                    line["team"] or NOTHING,
                    line["owner"] or NOTHING,
                    line["accelerator_type"],
                    _describe_model(line),
                    line["zone"],
                    price,
                    # A legacy TPU Node is driven by a VM, which is charged by the hour.
                    f"{chip_hours(line['vm_seconds'])} of the VM"
                    if line["vm_seconds"]
                    else chip_hours(line["chip_seconds"]),
                    amount + (f" (corrects {line['corrects']})" if line["corrects"] else ""),
                ]
                for line, price, amount in zip(found["lines"], prices, amounts, strict=True)
            ),
        )
        echo("")
    echo(f"{found['period']}: {money(found['amount'])}, {found['state']}")


def _describe_model(line: Mapping[str, Any]) -> str:
    """Provisioning model of a line, with its reservation. `unused` marks time that no node used."""
    model = str(line["provisioning_model"])
    if not line["reservation"]:
        return model
    unused = "unused of " if line["reservation_status"] == "unused" else ""
    return f"{model} ({unused}{line['reservation']})"
