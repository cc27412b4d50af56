"""Prints the lines of a ledger: those of a node, and those of a reservation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from service.cli.terminal.formatting import format_column, format_exact, format_time
from service.cli.terminal.render import print_lines, print_table

NOTHING_POSTED = "nothing is posted yet; what runs is posted at each full hour"

View = Mapping[str, Any]

_OF_CHIPS = ("KIND", ">CHIP-SECONDS", ">PER CHIP-HOUR")


def show_ledger(entries: Sequence[View]) -> None:
    """Print the lines of a ledger, then their sum."""
    prices = format_column([entry["usd_per_chip_hour"] for entry in entries])
    amounts = format_column([entry["amount"] for entry in entries])
    named = any(_is_of_vm(entry) for entry in entries)
    what = ("WHAT", "KIND", ">QUANTITY", ">PER HOUR OF ONE") if named else _OF_CHIPS
    print_table(
        [">NO.", "FROM (UTC)", "TO (UTC)", *what, ">AMOUNT"],
        (
            [
                str(entry["number"]),
                format_time(entry["start"]),
                format_time(entry["end"]),
                *([entry["what"]] if named else []),
                entry["kind"] + ("" if entry["corrects"] is None else f" of {entry['corrects']}"),
                f"{entry['vm_seconds']:,} VM-seconds"
                if _is_of_vm(entry)
                else f"{entry['chip_seconds']:,}{' chip-seconds' if named else ''}",
                price,
                amount,
            ]
            for entry, price, amount in zip(entries, prices, amounts, strict=True)
        ),
        spare=("TO (UTC)", "KIND"),
    )
    total = format_exact(str(sum((Decimal(entry["amount"]) for entry in entries), Decimal(0))))
    print_lines("", f"{total} in {len(entries):,} {'entry' if len(entries) == 1 else 'entries'}")


def _is_of_vm(entry: View) -> bool:
    return bool(entry.get("unit") == "vm_hour")
