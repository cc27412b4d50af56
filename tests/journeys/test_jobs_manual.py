"""The manual's chapter on jobs, typed as written, gives what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.house import House
from tests.journeys.terminal import Terminal, alike, commands

MANUAL = Path(__file__).parents[2] / "service/manual/jobs.md"
STATES = re.compile(r"QUEUED|WAITING_FOR_NODE|PULLING|STARTING")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house in which supervisors run."""
    made = House(tmp_path, speed=10, supervisors=True)
    yield made
    made.stop()


def told(text: str) -> list[str]:
    """What is printed, without the states: one that is over between two looks is not printed."""
    return [line for line in alike(text) if not STATES.fullmatch(line)]


def test_the_five_minutes_with_jobs_typed_as_written_give_what_is_shown(
    house: House, tmp_path: Path
) -> None:
    part = MANUAL.read_text().partition("<!-- jobs")[2].partition("<!-- end of jobs")[0]
    steps = commands(part)
    assert len(steps) == 3, "the chapter is still there"
    terminal = Terminal(house, tmp_path)
    for command, printed in steps:
        found = terminal.type(command)
        assert told(found) == told(printed), f"{command}\n{found}"
    terminal.close()
