"""What `make run` starts, by the same command, on free ports of this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.journeys.house import House
from tests.journeys.terminal import ROOT
from tests.ports import free_port

PROGRAM = "@$(BIN)/tpu-steward "


def typed_by_make_run() -> list[str]:
    """The words that `make run` types after the name of the program."""
    recipe = re.search(r"^run:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe, "the Makefile has no recipe for run"
    (line,) = recipe[1].splitlines()
    assert line.startswith(f"\t{PROGRAM}"), line
    return shlex.split(line.removeprefix(f"\t{PROGRAM}"))


class Laptop(House):
    """A house in a folder of its own with the settings of `make run`: only its ports differ."""

    def __init__(self, folder: Path) -> None:
        web, grpc, rest = free_port(), free_port(), free_port()
        self.api, self.emulator = f"http://127.0.0.1:{web}", f"http://127.0.0.1:{rest}"
        self._folder = folder
        self.environment = {
            **{name: said for name, said in os.environ.items() if not name.startswith("STEWARD_")},
            "STEWARD_PORT": str(web),
            "STEWARD_EMULATOR": f"127.0.0.1:{grpc}",
            "STEWARD_EMULATOR_REST": f"127.0.0.1:{rest}",
            "STEWARD_URL": self.api,
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        command, *options = typed_by_make_run()
        self._log = command
        self.start(command, *options)
        try:
            self.until(lambda: "\nDashboard: " in self.welcome(), "the welcome")
        except AssertionError:
            self.stop()
            raise

    def welcome(self) -> str:
        """What the command has printed so far, without the logs of its children."""
        return "\n".join(line for line in self.logs(self._log).splitlines() if line[:1] != "{")
