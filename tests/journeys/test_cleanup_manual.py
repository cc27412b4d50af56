"""The manual's chapter on the cleanup, typed as written, gives what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.house import House
from tests.journeys.terminal import Terminal, alike, commands

pytestmark = pytest.mark.deep

MANUAL = Path(__file__).parents[2] / "service/manual/cleanup.md"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house in which idle nodes go as soon as with `make run`."""
    made = House(tmp_path, supervisors=True, laptop=True)
    yield made
    made.stop()


def is_asked_again(command: str) -> bool:
    """Whether a reader who types a command too early sees something else, and types it again."""
    return "nodes list" in command or "grep -o '^state" in command


@pytest.mark.long
def test_the_five_minutes_of_the_cleanup_typed_as_written_give_what_is_shown(
    house: House, tmp_path: Path
) -> None:
    part = MANUAL.read_text().partition("<!-- cleanup")[2].partition("<!-- end of cleanup")[0]
    steps = commands(part)
    assert len(steps) == 15, "the chapter is still there"
    terminal = Terminal(house, tmp_path, patience=420)
    for command, printed in steps:
        if is_asked_again(command):
            terminal.type_until(command, printed)
            continue
        found = terminal.type(command)
        assert alike(found) == alike(printed), f"{command}\n{found}\n{house.logs('daemon')[-3000:]}"
    terminal.close()

    (ended,) = house.get("/v1/cleanup/history")["history"]
    assert (ended["name"], ended["action"]) == ("sleepy", "delete")
    signals = {one["signal"]: one["level"] for one in ended["evidence"]["signals"]}
    assert signals["cpu"] == signals["network"] == "QUIET"
    assert ended["evidence"]["verdict"]["level"] == "QUIET"
