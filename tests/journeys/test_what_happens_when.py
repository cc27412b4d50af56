"""The manual's page of things that go wrong, typed as written, shows what it says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.house import House
from tests.journeys.terminal import MANUAL, Terminal, alike, commands, is_alike, part_of

pytestmark = pytest.mark.deep

LOOKS = re.compile(r"^(cloud|told) |^curl -s \S+ \||(list|show|events)\b")
"""What changes nothing, and may be typed again until it shows what it should."""

KILL, SHOWN = "kill -9 4243", "4243"
"""The line that ends the daemon, and the process id in it, which is another one each time."""

Section = tuple[str, list[tuple[str, str]]]


def chapter() -> tuple[list[str], list[Section]]:
    """The shorthands, and each question with the lines that are typed to see the answer."""
    part = part_of(MANUAL / "what-happens-when.md", "what happens when")
    first, *others = re.split(r"^## (.*)$", part, flags=re.MULTILINE)
    sections = zip(others[::2], map(commands, others[1::2]), strict=True)
    return [command for command, _ in commands(first)], list(sections)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for all of it, at the speed that the manual says."""
    made = House(tmp_path_factory.mktemp("house"), speed=10)
    yield made
    made.stop()


@pytest.fixture
def terminal(house: House, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal that knows the shorthands."""
    opened = Terminal(house, tmp_path)
    for shorthand in chapter()[0]:
        assert opened.type(shorthand).strip() == ""
    yield opened
    opened.close()


def test_the_chapter_answers_what_is_asked_most() -> None:
    asked = " ".join(title for title, _ in chapter()[1])
    for word in ("run out", "spot", "daemon", "out", "console", "queue", "hangs", "nobody"):
        assert word in asked


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
@pytest.mark.parametrize("section", chapter()[1], ids=lambda section: section[0])
def test_what_the_manual_shows_is_what_happens(
    section: Section, house: House, terminal: Terminal
) -> None:
    assert any(printed for _, printed in section[1]), "something is shown"
    for command, printed in section[1]:
        if command == KILL:
            said = terminal.type(command.replace(SHOWN, str(house.process("daemon"))))
            assert said.strip() == ""
            house.until(lambda: not house.runs("daemon"), "the end of the daemon")
            house.start("daemon")
        elif printed and LOOKS.search(command):
            terminal.type_until(command, printed)
        else:
            found = terminal.type(command)
            assert is_alike(found, printed), f"{command}\n{alike(found)}\n{alike(printed)}"
