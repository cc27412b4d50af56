"""`costs statement`: what a month comes to, line by line."""

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
        _show(answer.value)
    else:
        _list(answer.value["statements"])


def _list(months: list[Mapping[str, Any]]) -> None:
    rows = [
        [one["period"], one["state"], chip_hours(one["chip_seconds"]), money(one["amount"])]
        for one in months
    ]
    if rows:
        table(["MONTH", "STATE", ">CHIP-HOURS", ">AMOUNT"], rows)
    else:
        echo(NOTHING_POSTED)


def _show(found: Mapping[str, Any]) -> None:
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
                    _model(line),
                    line["zone"],
                    price,
                    _quantity(line),
                    amount + _note(line["corrects"]),
                ]
                for line, price, amount in zip(found["lines"], prices, amounts, strict=True)
            ),
        )
        echo("")
    echo(f"{found['period']}: {money(found['amount'])}, {found['state']}")


def _quantity(line: Mapping[str, Any]) -> str:
    """Chip-hours, or how many hours of the VM that drives a legacy TPU Node."""
    of_vm = line["vm_seconds"]
    return f"{chip_hours(of_vm)} of the VM" if of_vm else chip_hours(line["chip_seconds"])


def _model(line: Mapping[str, Any]) -> str:
    """How it is bought, with the reservation that it was taken from, or that nobody used."""
    model = str(line["provisioning_model"])
    if not line["reservation"]:
        return model
    unused = "unused of " if line["reservation_status"] == "unused" else ""
    return f"{model} ({unused}{line['reservation']})"


def _note(month: str) -> str:
    return f" (corrects {month})" if month else ""
