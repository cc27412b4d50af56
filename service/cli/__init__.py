"""The command line."""

from __future__ import annotations

from service.cli.app import app


def main() -> None:
    """Run the command that the arguments name."""
    app(prog_name="tpu-steward")
