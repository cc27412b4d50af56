"""What people read, as terminals of 60, 80 and 120 columns show it, compared with recorded output.

After a change, `RECORD_SCREENS=1` writes the files again. Read them before they are committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from service.cli import orphans
from service.cli.app import app
from service.cli.cleanup import cleanup
from service.cli.costs import costs
from service.cli.jobs import jobs
from service.cli.nodes import delete, idle, jobs_of_node
from service.cli.terminal import render
from tests.cli.given import Api, served
from tests.cli.terminal.screens import ANSWERS, DOCUMENTS, SCREENS
from tests.hands import NOON

RECORDED = Path(__file__).parent / "recorded"
WIDTHS = (60, 80, 120)
COPIED = re.compile(r"(  Example|to do it now): tpu-steward .+")
"""A command that stays in one line, to be copied."""


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    """Address of an API that answers with all documents."""
    api = Api()
    for path, document in DOCUMENTS.items():
        api.when("GET", path, document)
    for (method, path), document in ANSWERS.items():
        api.when(method, path, document)
    with served(api) as running:
        yield running.url


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_shown_as_it_was_recorded(lab, monkeypatch, name):
    for module in (jobs, orphans, cleanup, idle):
        monkeypatch.setattr(module, "wall_clock", lambda: NOON)
    for module in (render, costs):
        monkeypatch.setattr(module, "is_terminal", lambda _: True)
    for module in (delete, jobs_of_node):
        monkeypatch.setattr(module, "can_ask", lambda: True)
    Path("bill.jsonl").write_text("{}")
    shown = {}
    for width in WIDTHS:
        runner = CliRunner(env={"STEWARD_URL": lab, "COLUMNS": str(width), "TERM": "xterm"})
        # The runner sets the width of help to 80 columns, unless another is given.
        result = runner.invoke(
            app,
            SCREENS[name],
            "y\n",
            prog_name="tpu-steward",
            terminal_width=min(width, 80) - 2,
        )
        assert result.exit_code == 0, result.output
        shown[width] = result.output
    text = "\n".join(f"{f' {width} columns ':=^{width}}\n{shown[width]}" for width in WIDTHS)
    file = RECORDED / f"{name}.txt"
    if os.environ.get("RECORD_SCREENS"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", [name for name in SCREENS if not name.endswith("-csv")])
def test_no_line_is_wider_than_its_terminal(name):
    width = 0
    for line in (RECORDED / f"{name}.txt").read_text().splitlines():
        if title := re.fullmatch(r"=+ (\d+) columns =+", line):
            width = int(title[1])
        elif len(line.split()) > 1 and not COPIED.fullmatch(line):
            assert cell_len(line) <= width, line


def test_every_recorded_screen_is_compared():
    assert {file.stem for file in RECORDED.iterdir()} == SCREENS.keys()
