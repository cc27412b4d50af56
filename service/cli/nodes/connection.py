"""Prints the commands and the code that connect to a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.cli.terminal.formatting import NOTHING
from service.cli.terminal.render import print_lines, print_table
from service.domain.catalog.images import Framework
from service.domain.nodes.connection import LINE_TITLES

View = Mapping[str, Any]


def show_connection(found: View) -> None:
    """Print the summary, the workers, the commands to reach the node, then each framework."""
    print_lines(found["summary"], "")
    # The ports of a TPU VM are left out: they are not for SSH. Worker numbers start at 0 in each
    # slice.
    has_ports = bool(found["address"])
    print_table(
        ["WORKER", "ADDRESS", "FROM OUTSIDE"],
        (
            [
                f"{worker['cloud_id']}/{worker['worker']}",
                f"{worker['ip']}:{worker['port']}" if has_ports else worker["ip"],
                worker["external_ip"] or NOTHING,
            ]
            for worker in found["workers"]
        ),
    )
    for name, title in LINE_TITLES.items():
        if found[name]:
            _print_block(title, [found[name]])
    for recipe in found["recipes"]:
        label = Framework(recipe["framework"]).label
        if recipe["works"]:
            _print_block(label, [*recipe["shell"], "# in train.py", *recipe["python"]])
            print_lines(f"  # {recipe['note']}")
        else:
            print_lines("", f"{label}: {recipe['note']}")
    for sentence in found["not_included"]:
        print_lines("", f"Not in its cost here: {sentence}")


def _print_block(title: str, lines: list[str]) -> None:
    print_lines("", f"{title}:", *(f"  {line}".rstrip() for line in lines))
