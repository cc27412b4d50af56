"""The README's tour, typed as written, gives what the README shows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.emulator.app import running
from tests.journeys.house import House

README = Path(__file__).parents[2] / "README.md"


def tour() -> list[tuple[str, str]]:
    """The commands of the tour, each with what it is shown to print."""
    part = README.read_text().partition("<!-- tour")[2].partition("<!-- end of tour")[0]
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", part, re.DOTALL):
        for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = typed.partition("\n")
            found.append((command, printed))
    return found


def bad_day() -> tuple[str, str]:
    """The script of a bad day in the emulator, and what it is shown to print."""
    part = README.read_text().partition("<!-- bad day")[2].partition("<!-- end of bad day")[0]
    (script,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", part, re.DOTALL)
    return script, printed


def alike(text: str) -> list[str]:
    """The text without what differs each time: figures, times, names made by chance, widths."""
    text = re.sub(r"-[0-9a-f]{8}\b", "-#", text)
    text = re.sub(r"[0-9][0-9:.,]*[smh]?", "#", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own, in no more hurry than the tour is."""
    made = House(tmp_path, speed=10)
    yield made
    made.stop()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_the_tour_typed_as_written_gives_what_is_shown(house: House, tmp_path: Path) -> None:
    steps = tour()
    assert len(steps) >= 10, "the tour is still there"
    for command, printed in steps:
        if "nodes list" in command:
            house.until(lambda: house.get("/v1/nodes?state=READY")["nodes"] != [], "a READY node")
        typed = (
            command.replace("http://127.0.0.1:8080", house.api)
            .replace("http://127.0.0.1:9471", house.emulator)
            .replace(".venv/bin/tpu-steward", f"{sys.executable} -m service.cli")
        )
        done = subprocess.run(
            ["sh", "-c", typed],
            cwd=tmp_path,
            env=house.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert alike(done.stdout) == alike(printed), command


def test_the_bad_day_as_written_prints_what_is_shown() -> None:
    script, printed = bad_day()
    with running() as emulator:
        typed = script.replace("127.0.0.1:9470", emulator.grpc_address)
        typed = typed.replace("http://127.0.0.1:9471", emulator.rest_url)
        done = subprocess.run(
            [sys.executable, "-c", typed], capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.stdout, done.stderr) == (printed, "")
