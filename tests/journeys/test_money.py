"""The manual's pages on money, typed as written one after another, show what they say."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.journeys import test_what_happens_when as above
from tests.journeys.house import PATIENCE, House
from tests.journeys.terminal import MANUAL, Terminal, alike, commands, part_of

pytestmark = pytest.mark.deep

QUESTIONS = ("Who spent it?", "Why so much?", "Can it still change?", "What is ±?")
"""What somebody who pays asks of a figure; none of them may be left out."""

PAGES = (
    ("why-this-figure.md", "money"),
    ("money.md", "forecast"),
    ("budgets.md", "budgets"),
    ("reservations.md", "reservations"),
    ("reconciliation.md", "reconciliation"),
)
"""The pages in the order in which they are typed, and the part of each."""

LOOKS = re.compile(r"tpu-steward (nodes (cost|events|ledger|explain)|costs --by) ")
"""What changes nothing, and may be typed again until it shows what it should."""

PREEMPTION = "nodes/preempt"
PAST_THE_FREE_MINUTE = 62
"""Seconds READY after which it costs money to be preempted, however long it took to be made."""


def parts() -> list[str]:
    return [part_of(MANUAL / page, name) for page, name in PAGES]


def lines(text: str) -> list[str]:
    """The text without what differs each time; a full hour, which begins a new line of the ledger
    while this is typed, makes two lines of one."""
    return [line for line, _ in groupby(alike(text))]


def typed(terminal: Terminal, command: str, shown: list[str]) -> list[str]:
    """What it prints; a look is typed again, as a reader would, until that is what is shown."""
    deadline = time.monotonic() + PATIENCE
    found = lines(terminal.type(command))
    while LOOKS.search(command) and found != shown and time.monotonic() < deadline:
        found = lines(terminal.type(command))
    return found


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house at the speed that the manual says."""
    made = House(tmp_path, speed=10)
    yield made
    made.stop()


@pytest.fixture
def terminal(house: House, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal that knows the shorthands of the chapter above."""
    opened = Terminal(house, tmp_path)
    for shorthand in above.chapter()[0]:
        assert opened.type(shorthand).strip() == ""
    yield opened
    opened.close()


def test_the_chapter_answers_who_pays() -> None:
    assert tuple(re.findall(r"^## (.*\?)$", parts()[0], re.MULTILINE)) == QUESTIONS


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_the_money_is_where_the_manual_says(house: House, terminal: Terminal) -> None:
    pages = [commands(part) for part in parts()]
    assert all(any(printed for _, printed in page) for page in pages), "each page shows something"
    steps = [step for page in pages for step in page]
    for command, printed in steps:
        if PREEMPTION in command:
            house.until(lambda: house.bill("llm")[0]["seconds"] >= PAST_THE_FREE_MINUTE, "a minute")
        found = typed(terminal, command, lines(printed))
        assert found == lines(printed), command
