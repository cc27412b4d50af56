"""Every command ends its help with an example, and the example can be typed."""

from __future__ import annotations

import shlex

import pytest
import typer

from service.cli.app import GROUPS, app
from service.cli.terminal.examples import EXAMPLES
from tests.cli.given import steward
from tests.cli.terminal.test_lists import commands_of

PROGRAM = typer.main.get_command(app)
LEAVES = {
    " ".join(path): command
    for path, command in commands_of(PROGRAM)
    if path and (not hasattr(command, "commands") or command.invoke_without_command)
}


def test_every_command_has_an_example_and_every_example_a_command():
    assert LEAVES.keys() == EXAMPLES.keys()


@pytest.mark.parametrize("path", LEAVES)
def test_an_example_is_a_line_that_the_command_understands(tmp_path, path):
    (tmp_path / "bill.csv").touch()
    command, example = LEAVES[path], EXAMPLES[path]
    context = command.context_class(command, info_name=path, terminal_width=80)
    *_, last = command.get_help(context).splitlines()
    assert last == f"  Example: tpu-steward {path} {example}".rstrip()
    words = shlex.split(example.partition("> ")[0])
    assert command.make_context(path, words).args == []


def test_the_help_lists_the_commands_by_what_they_are_for():
    shown = steward("--help").stdout
    titles = [line.rstrip(":") for line in shown.splitlines() if line.startswith("Commands")]
    assert titles == list(GROUPS)
