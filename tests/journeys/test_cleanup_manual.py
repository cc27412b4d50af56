"""The manual's chapter on the cleanup, typed as written after `make run`, gives what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.cli.processes.dev import IDLE_SETTINGS, TELEMETRY_DELAY
from service.cli.terminal.errors import FAILED
from tests.cli.given import steward
from tests.journeys.laptop import Laptop, typed_by_make_run
from tests.journeys.terminal import MANUAL, Terminal, alike, commands, part_of
from tests.ports import free_port

CHAPTER = MANUAL / "cleanup.md"
PROGRAM = ".venv/bin/tpu-steward "


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    """All that `make run` starts."""
    running = Laptop(tmp_path)
    yield running
    running.stop()


def steps_of_the_tour() -> list[tuple[str, str]]:
    """The commands of the chapter with what they are shown to print."""
    steps = commands(part_of(CHAPTER, "cleanup"))
    assert len(steps) == 15, "the chapter is still there"
    return steps


def typed_in_the_tour() -> list[list[str]]:
    """The words of each command of this program in the tour."""
    typed = [command.partition(PROGRAM)[2] for command, _ in steps_of_the_tour()]
    return [shlex.split(re.split(r" [|>]|\)$", words)[0]) for words in typed if words]


def printed_by_make_run() -> list[str]:
    """The sentences about its short times, in the welcome and in the chapter. `dev` has them in
    seconds."""
    short = {
        name: IDLE_SETTINGS[f"idle_{name}_seconds"] for name in ("warmup", "telemetry", "start")
    }
    assert (short, TELEMETRY_DELAY) == ({"warmup": 30, "telemetry": 60, "start": 15}, 30)
    return [
        "Idleness counts from 30 s after READY.",
        "The newest 60 s of signals do not count, and signals arrive 30 s late at most.",
        "the daemon ends no node in its first 15 s.",
    ]


def is_asked_again(command: str) -> bool:
    """Whether a reader who types a command too early sees something else, and types it again."""
    return "nodes list" in command or "grep -o '^state" in command


def test_every_command_of_the_tour_is_one_that_the_program_understands() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    for words in typed_in_the_tour():
        answer = steward(*words, STEWARD_URL=nobody)
        assert answer.exit_code == FAILED, words
        assert f"nothing answers at {nobody}" in answer.stderr


def test_the_chapter_names_the_short_times_of_make_run() -> None:
    assert typed_by_make_run() == ["dev"]
    said = " ".join(CHAPTER.read_text().split())
    for sentence in printed_by_make_run():
        assert sentence in said, sentence


@pytest.mark.deep
@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_the_tour_typed_as_written_after_make_run_gives_what_is_shown(
    laptop: Laptop, tmp_path: Path
) -> None:
    the_settings_are_those_that_are_printed(laptop)
    terminal = Terminal(laptop, tmp_path, patience=420)
    for command, printed in steps_of_the_tour():
        if is_asked_again(command):
            terminal.type_until(command, printed)
            continue
        found = terminal.type(command)
        assert alike(found) == alike(printed), f"{command}\n{found}\n{laptop.logs('dev')[-3000:]}"
    terminal.close()

    (ended,) = laptop.get("/v1/cleanup/history")["history"]
    assert (ended["name"], ended["action"]) == ("sleepy", "delete")
    shown = laptop.get(f"/v1/nodes/{ended['node_id']}/idle")
    assert shown["ended"] == [ended], "the node shows the evidence of the history"
    signals = {signal["signal"]: signal["level"] for signal in ended["evidence"]["signals"]}
    assert signals["cpu"] == signals["network"] == "QUIET"
    assert ended["evidence"]["verdict"]["level"] == "QUIET"


def the_settings_are_those_that_are_printed(laptop: Laptop) -> None:
    """Nobody set them: they are the defaults of `make run`."""
    said = " ".join(laptop.welcome().split())
    for sentence in printed_by_make_run():
        assert sentence in said, sentence
    cleanup = laptop.get("/v1/cleanup")
    assert (cleanup["mode"], cleanup["telemetry_seconds"]) == ("delete", 60)
    config = laptop.get("/_emulator/config", laptop.emulator)
    assert (config["speed"], config["telemetry"]["delay_seconds"]) == (1, 30)
