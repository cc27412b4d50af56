"""`costs export`: the ledger as a FOCUS file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from service.cli.terminal.client import Unreachable, open_client
from service.cli.terminal.errors import Failure

MEDIA_TYPE = "text/csv"
BROKEN = "the file that was written is incomplete"


def export(
    focus: Annotated[
        str, typer.Option(metavar="VERSION", help="FOCUS version: 1.2 or 1.4.")
    ] = "1.2",
    window: Annotated[
        str,
        typer.Option(
            "--window", metavar="WINDOW", help="7d, 24h, today, mtd, or two timestamps: A,B."
        ),
    ] = "mtd",
) -> None:
    """Export charges as FOCUS rows in CSV to standard output."""
    asked = {"version": focus, "window": window}
    last = b""
    with open_client() as client:
        try:
            for last in client.read_stream("/v1/exports/focus", asked, media_type=MEDIA_TYPE):
                sys.stdout.buffer.write(last)
        except Unreachable as trouble:
            raise Failure(str(trouble), *([BROKEN] if last else [])) from None
    sys.stdout.buffer.flush()
    if not last.endswith(b"\n"):
        raise Failure(f"its last line is incomplete: {BROKEN}")
