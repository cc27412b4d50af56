"""`costs export`: the ledger as a file for other people's tools."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from service.cli.client import connected


def export(
    focus: Annotated[
        str, typer.Option(metavar="VERSION", help="The edition of FOCUS: 1.2 or 1.4.")
    ] = "1.2",
    window: Annotated[
        str, typer.Option(metavar="WINDOW", help="7d, 24h, today, mtd, or two instants: A,B.")
    ] = "mtd",
) -> None:
    """Write what was billed as FOCUS rows in CSV to the standard output."""
    with connected() as client:
        for piece in client.stream("/v1/exports/focus", {"version": focus, "window": window}):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
