"""Whatever answers in place of the service: every command ends in a plain sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from service.cli.app import ALONE, app
from tests.cli.given import ID, answering

ODD_ID = ID.replace("-", "")

SAID = {
    "NODE": ID,
    "JOB": ID,
    "-- COMMAND": "true",
    "RESERVATION": ID,
    "COMMITMENT": ID,
    "BUDGET": "monthly",
    "ORPHAN": ODD_ID,
    "SCOPE": "default",
    "PLAN": "0" * 32,
    "DISCOUNT": ID,
    "ID": ODD_ID,
    "NAME": "trainer",
    "NODE...": "trainer",
    "PERCENT": "10",
    "FILE": "bill.csv",
    "[MONTH]": "2026-11",
    "[NO.]": "1",
    "TIME": "2026-11-06",
    "USD": "10",
    "MODEL": "spot",
    "N": "8",
    "TEXT": "a reason",
    "ZONE": "us-west4-a",
    "REGION": "us-west4",
    "1y|3y": "1y",
    "TYPE": "v5litepod-8",
    "NAME[=VERSION]": "jax",
}
"""What to type for each thing that a command has to be told."""

MORE = {
    ("nodes", "create"): ["--accelerator-type", "v5litepod-8", "--wait"],
    ("nodes", "reimage"): ["--framework", "jax"],
    ("nodes", "set"): ["--team", "vision"],
    ("nodes", "keep"): ["--for", "4h"],
    ("budgets", "edit"): ["--amount", "10"],
    ("cleanup", "policies", "set"): ["--grace", "15m"],
    ("jobs", "submit"): ["--image", "a/b:c", "--accelerator-type", "v5litepod-8"],
    ("cleanup", "pause"): ["--reason", "a demo"],
    ("estimate",): ["--accelerator-type", "v5litepod-8"],
}
"""What they have to be told without saying so themselves."""

NOUNS = (
    *("nodes", "orphans", "budgets", "reservations", "prices", "discounts", "accelerators"),
    "commitments",
    *("zones", "capacity", "quotas", "runtimes", "entries", "events", "statements", "rows"),
    *("projects", "history", "policies", "jobs"),
)
ANSWERS = {
    "an empty object": (200, "{}"),
    "a list": (200, "[]"),
    "a number for a list": (200, '{"nodes": 5}'),
    "lists of numbers": (200, json.dumps({noun: [5] for noun in NOUNS})),
    "lists of empty objects": (200, json.dumps({noun: [{}] for noun in NOUNS} | {"total": "x"})),
    "a page": (200, "<html>hello</html>"),
    "nothing": (200, ""),
    "a failure as a page": (500, "<html>sorry</html>"),
    "a failure of another kind": (500, '{"message": "sorry"}'),
    "half an object": (200, '{"nodes": [{"id":'),
    "what is nested without end": (200, "[" * 100_000),
    "no text": (200, "\udcff"),
}


def _commands(group: Any, *path: str) -> Iterator[list[str]]:
    """Each command that asks a service, with what it has to be told."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, *path, name)
            if command.invoke_without_command:
                yield [*path, name]
        elif path or name not in ALONE:
            yield [*path, name, *_told(command), *MORE.get((*path, name), [])]


def _told(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield SAID[parameter.metavar]
        elif parameter.required:
            yield from (parameter.opts[-1], SAID[parameter.metavar])


PROGRAM = get_command(app)
COMMANDS = list(_commands(PROGRAM))


def test_every_command_that_asks_is_among_them():
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_is_not_the_service_is_told_apart_by_every_command(
    tmp_path, monkeypatch, capsys, answer
):
    (tmp_path / "bill.csv").write_text("a,b\n1,2\n")
    status, text = ANSWERS[answer]
    head = f"HTTP/1.1 {status} So\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    with answering((head + text).encode(errors="surrogateescape")) as url:
        monkeypatch.setenv("STEWARD_URL", url)
        for command in COMMANDS:
            with pytest.raises(SystemExit) as ended:
                PROGRAM.main(command, "tpu-steward")
            last = capsys.readouterr().err.splitlines()[-1]
            what = f"{' '.join(command)} said of {answer}: {last}"
            assert ended.value.code == 1, what
            assert last.startswith(f"{url} "), what
            assert "not as TPU Steward does; is it at that address?" in last, what
