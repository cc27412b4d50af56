"""The README's tour and short examples of the manual, typed as written, give what is shown."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.emulator.app import run_in_thread
from tests.journeys.house import House
from tests.journeys.terminal import MANUAL, README, Terminal, alike, commands, is_alike, part_of

LATER = "nodes list"
"""The first command for which the node must be READY; the text before it says so."""


def bad_day() -> tuple[str, str]:
    """The script of a bad day in the emulator, and what it is shown to print."""
    part = part_of(MANUAL / "emulator.md", "bad day")
    (script,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", part, re.DOTALL)
    return script, printed


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own, in no more hurry than the tour is."""
    made = House(tmp_path, speed=10)
    yield made
    made.stop()


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_the_tour_typed_as_written_gives_what_is_shown(house: House, tmp_path: Path) -> None:
    steps = commands(part_of(README, "tour"))
    assert len(steps) >= 10, "the tour is still there"
    terminal = Terminal(house, tmp_path)
    for command, printed in steps:
        if LATER in command:
            house.until(lambda: house.get("/v1/nodes?state=READY")["nodes"] != [], "a READY node")
        found = terminal.type(command)
        assert is_alike(found, printed), f"{command}\n{alike(found)}\n{alike(printed)}"
    ((command, printed),) = commands(part_of(MANUAL / "nodes.md", "runtimes"))
    assert is_alike(terminal.type(command), printed)
    terminal.close()


def test_the_bad_day_as_written_prints_what_is_shown() -> None:
    script, printed = bad_day()
    with run_in_thread() as emulator:
        typed = script.replace("127.0.0.1:9470", emulator.grpc_address)
        typed = typed.replace("http://127.0.0.1:9471", emulator.rest_url)
        done = subprocess.run(
            [sys.executable, "-c", typed], capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.stdout, done.stderr) == (printed, "")
