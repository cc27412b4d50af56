"""How to reach a node, as a page of lines to paste."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.cli.terminal.formatting import NOTHING
from service.cli.terminal.render import echo, table

View = Mapping[str, Any]

_LABELS = {"jax": "JAX", "pytorch": "PyTorch", "tensorflow": "TensorFlow"}


def show_connection(found: View) -> None:
    """What it is, where its workers are, the lines to reach it, then each framework in turn."""
    echo(found["summary"], "")
    _workers(found["workers"], ports=bool(found["address"]))
    for line, title in (
        (found["ssh"], "A shell on the first worker"),
        (found["everywhere"], "A command on every worker"),
        (found["upload"], "Your program to every worker"),
        (found["address"], "Its address"),
        (found["vm_software"], "Your own VM has to run"),
    ):
        if line:
            _block(title, [line])
    for recipe in found["recipes"]:
        _recipe(recipe)
    for sentence in found["not_included"]:
        echo("", f"Not in its cost here: {sentence}")


def _workers(workers: list[View], *, ports: bool) -> None:
    """Where each worker is; its number counts anew in each slice. Of a TPU VM the port is nothing
    to log in by."""
    table(
        ["WORKER", "ADDRESS", "FROM OUTSIDE"],
        (
            [
                f"{one['cloud_id']}/{one['worker']}",
                f"{one['ip']}:{one['port']}" if ports else one["ip"],
                one["external_ip"] or NOTHING,
            ]
            for one in workers
        ),
    )


def _recipe(recipe: View) -> None:
    label = _LABELS[recipe["framework"]]
    if not recipe["works"]:
        echo("", f"{label}: {recipe['note']}")
        return
    _block(label, [*recipe["shell"], "# in train.py", *recipe["python"]])
    echo(f"  # {recipe['note']}")


def _block(title: str, lines: list[str]) -> None:
    echo("", f"{title}:", *(f"  {line}".rstrip() for line in lines))
