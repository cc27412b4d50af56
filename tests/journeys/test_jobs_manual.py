"""The manual's chapter on jobs, typed as written, gives what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.journeys.house import House
from tests.journeys.terminal import Terminal, alike, commands

pytestmark = pytest.mark.deep

MANUAL = Path(__file__).parents[2] / "service/manual/jobs.md"
STATES = re.compile(r"QUEUED|WAITING_FOR_NODE|PULLING|STARTING")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house in which supervisors run."""
    made = House(tmp_path, speed=2, supervisors=True)
    yield made
    made.stop()


def told(text: str) -> list[str]:
    """What is printed, without what depends on when it was looked: a state that is over between
    two looks, and whether the node is gone already when its job has ended."""
    lines = [line for line in alike(text) if not STATES.fullmatch(line)]
    return [line.removesuffix(" so far") if line.startswith("Cost:") else line for line in lines]


def is_asked_again(command: str) -> bool:
    """Whether a reader who types a command too early sees something else, and types it again."""
    return "nodes list --all" in command or "jobs show" in command


@pytest.mark.long
def test_the_five_minutes_with_jobs_typed_as_written_give_what_is_shown(
    house: House, tmp_path: Path
) -> None:
    part = MANUAL.read_text().partition("<!-- jobs")[2].partition("<!-- end of jobs")[0]
    steps = commands(part)
    assert len(steps) == 12, "the chapter is still there"
    terminal = Terminal(house, tmp_path, patience=300)
    found = {}
    for command, printed in steps:
        if is_asked_again(command):
            terminal.type_until(command, printed)
            continue
        found[command] = terminal.type(command)
        assert told(found[command]) == told(printed), f"{command}\n{found[command]}"
    terminal.close()

    (resumed,) = [text for command, text in found.items() if command.endswith("grep training")]
    first, second = [int(step) for step in re.findall(r"from step (\d+) of", resumed)]
    assert first == 0
    assert second >= 20, "the second attempt goes on after the checkpoint"
    check_money(house)


def check_money(house: House) -> None:
    """Each job costs what its nodes do, and each node was billed the emulator's seconds."""
    for job in house.get("/v1/jobs")["jobs"]:
        attempts = house.get(f"/v1/jobs/{job['id']}/attempts")["attempts"]
        nodes = [
            house.until_state({"id": attempt["node_id"], "name": ""}, "DELETED")
            for attempt in attempts
        ]
        costs = [house.get(f"/v1/nodes/{node['id']}/cost") for node in nodes]
        mine = [line for node in nodes for line in house.bill(node["cloud_id"])]
        assert sum(cost["chip_seconds"] for cost in costs) == sum(
            line["seconds"] * line["chips"] for line in mine
        )
        total = sum(Decimal(cost["cost"]) for cost in costs)
        assert Decimal(house.get(f"/v1/jobs/{job['id']}")["cost"]) == total > 0
