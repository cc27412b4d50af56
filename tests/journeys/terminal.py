"""A terminal in which the commands of the README and the manual are typed as written."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from tests.journeys.house import PATIENCE, House

ROOT = Path(__file__).parents[2]
README, MANUAL = ROOT / "README.md", ROOT / "service" / "manual"


def part_of(page: Path, name: str) -> str:
    """What stands between the two comments of that name on a page."""
    _, opening, found = page.read_text().partition(f"<!-- {name}:")
    part, closing, _ = found.partition(f"<!-- end of {name} -->")
    assert opening, f"{page.name} has no part {name}"
    assert closing, f"the part {name} of {page.name} has no end"
    return part


def commands(part: str) -> list[tuple[str, str]]:
    """The commands that a part of a page shows, each with what it is shown to print."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", part, re.DOTALL):
        for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = typed.partition("\n")
            found.append((command, printed))
    return found


def alike(text: str) -> list[str]:
    """The text without what differs each time: figures, times, names made by chance, widths."""
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "#", text)
    text = re.sub(r"-[0-9a-f]{8}\b", "-#", text)
    text = re.sub(r"[0-9][0-9:.,]*[smh]?", "#", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


_PROGRESS = re.compile(r"# [A-Z]+ [a-z]")
"""What `--wait` prints of a state while it lasts; one that is over between two looks is not."""


def is_alike(found: str, shown: str) -> bool:
    """Whether a command printed what is shown, but for states that were too short to be told."""
    lines = alike(found)
    return lines == [line for line in alike(shown) if line in lines or not _PROGRESS.match(line)]


class Terminal:
    """One shell in a folder of its own, so that what one line defines the next one knows.

    A command that prints nothing for `patience` seconds has failed.
    """

    def __init__(self, house: House, folder: Path, patience: int = 2 * PATIENCE) -> None:
        self._house = house
        self._patience = patience
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._shell = subprocess.Popen(
            ["sh"],
            cwd=folder,
            env=house.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Leave the shell."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.close()
        self._shell.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self._shell.stdout.close()

    def type(self, command: str) -> str:
        """What the command prints, on this house's ports rather than on the usual ones."""
        mark = f"--{secrets.token_hex(8)}--"
        typed = (
            command.replace("http://127.0.0.1:8080", self._house.api)
            .replace("http://127.0.0.1:9471", self._house.emulator)
            .replace(".venv/bin/tpu-steward", f"{sys.executable} -m service.cli")
        )
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{typed}\nprintf '\\n%s\\n' {mark}\n")
        self._shell.stdin.flush()
        return self._until(mark)

    def type_until(self, command: str, printed: str) -> None:
        """Type it again, as a reader would, until it prints what is shown."""
        deadline = time.monotonic() + PATIENCE
        while not is_alike(found := self.type(command), printed):
            shown = f"{command}\nprints\n{found}\nrather than\n{printed}"
            assert time.monotonic() < deadline, shown

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._lines.put(line)

    def _until(self, mark: str) -> str:
        found: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=self._patience)
            except Empty:
                raise AssertionError(f"no answer but: {''.join(found)}") from None
            if line.strip() == mark:
                return "".join(found)
            found.append(line)
