"""The command line."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path

from service.cli.app import app


def main() -> None:
    """Run the command that the arguments name."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - to the end
    if isinstance(sys.stdout, TextIOWrapper):  # which may be set to an alphabet of few letters
        sys.stdout.reconfigure(errors="backslashreplace")
    app(prog_name="tpu-steward")
