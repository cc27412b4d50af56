"""A stand-in for `systemd-run` on an emulated worker: runs one command in the background.

Only the standard library is imported. Like a service of systemd, the command starts without its
caller's environment, except the variables of the machine (the path, the metadata server).
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from service.emulator.workers.options import (
    Misuse,
    Options,
    declare_options,
    last_value,
    parse_options,
)

OPTIONS = declare_options(
    "collect no-block quiet remain-after-exit same-dir scope slice-inherit user system"
    " no-ask-password expand-environment",
    "unit property description slice setenv uid gid nice working-directory service-type machine",
    "u=unit p=property E=setenv G=collect q=quiet r=remain-after-exit d=same-dir",
    leading=True,
)
UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}")
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|sec|m|min|h|)")
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
# Variables of the machine, which every service of an emulated worker gets.
MACHINE = ("EMULATOR_", "GCE_METADATA_")
MACHINE_NAMES = {
    *("PATH", "LANG", "TMPDIR", "HOSTNAME"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "ftp_proxy", "no_proxy"),
}
DEFAULTS = {
    "Restart": "no",
    "RestartSec": "100ms",
    "StartLimitIntervalSec": "10",
    "StartLimitBurst": "5",
}


class Failed(Exception):
    """An error of systemd-run before the unit starts."""


@dataclass
class Unit:
    """A transient service; `properties` are systemd's defaults with the given ones."""

    name: str
    command: list[str]
    environment: dict[str, str]
    properties: dict[str, str]
    stopping: bool = False
    starts: deque[float] = field(default_factory=deque)

    def run_until_stopped(self) -> None:
        """Run the command, with restarts by the unit's `Restart`, until SIGTERM."""

        def note_stop(_: int, __: FrameType | None) -> None:
            self.stopping = True

        signal.signal(signal.SIGTERM, note_stop)
        while self._may_start():
            # The command has its own session, whose other processes end with it.
            pid = os.posix_spawn(
                self.command[0],
                self.command,
                self.environment,
                setsid=True,
                setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE],
            )
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            for left in _list_session(pid):
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
            restart = self.properties["Restart"]
            is_wanted = restart == "always" or (restart.startswith("on-") and code != 0)
            if self.stopping or not is_wanted:
                return
            time.sleep(parse_seconds(self.properties["RestartSec"]))

    def _may_start(self) -> bool:
        """Count a start; False if the unit's start limit is reached, or if it is stopping."""
        if self.stopping:
            return False
        interval = parse_seconds(self.properties["StartLimitIntervalSec"])
        now = time.monotonic()
        while self.starts and self.starts[0] <= now - interval:
            self.starts.popleft()
        if interval and len(self.starts) >= int(self.properties["StartLimitBurst"]):
            write_error(f"{self.name}: Start request repeated too quickly.")
            return False
        self.starts.append(now)
        return True


def unit_of(options: Options, command: list[str]) -> Unit:
    """Return the unit that a command line describes. Raises Failed, ValueError."""
    if not command:
        raise Failed("Command line to execute required.")
    name = last_value(options, "unit", f"run-r{os.urandom(16).hex()}")
    name = name if name.endswith(".service") else f"{name}.service"
    if UNIT.fullmatch(name) is None:
        raise Failed(f"Failed to mangle unit name: Invalid argument: {name}")
    properties = dict(DEFAULTS)
    for text in options.get("property", []):
        key, given, value = text.partition("=")
        if not given:
            raise Failed(f"Not an assignment: {text}")
        properties[key] = value
    for key in ("RestartSec", "StartLimitIntervalSec"):
        parse_seconds(properties[key])
    int(properties["StartLimitBurst"])
    places = [""] if "/" in command[0] else os.environ.get("PATH", "").split(":")
    paths = (
        os.path.join(place, command[0]) if place else command[0]  # noqa: PTH118 - a name as it is
        for place in places
    )
    runnable = (path for path in paths if os.access(path, os.X_OK) and Path(path).is_file())
    program = next(runnable, None)
    if program is None:
        raise Failed(f"Failed to find executable {command[0]}: No such file or directory")
    environment = {
        key: value
        for key, value in os.environ.items()
        if key in MACHINE_NAMES or key.startswith(MACHINE)
    }
    for text in options.get("setenv", []):
        key, given, value = text.partition("=")
        environment[key] = value if given else os.environ.get(key, "")
    environment["INVOCATION_ID"] = os.urandom(16).hex()
    return Unit(name, [program, *command[1:]], environment, properties)


def parse_seconds(text: str) -> float:
    """Return a systemd time span in seconds. Raises ValueError."""
    span = SPAN.fullmatch(text)
    if span is None:
        raise ValueError(f"Failed to parse time span: {text}")
    return float(span[1]) * UNITS[span[2]]


def claim_name(directory: Path, name: str) -> int:
    """Return a file descriptor that reserves a unit's name while it is open. Raises Failed."""
    directory.mkdir(exist_ok=True)
    held = os.open(directory / name, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise Failed(
            f"Failed to start transient service unit: Unit {name} was already loaded or has a"
            " fragment file."
        ) from None
    return held


def start_unit(args: list[str]) -> int:
    """Carry out a command line, and return the exit code of systemd-run itself."""
    home = Path(os.environ["EMULATOR_UNITS"])
    try:
        options, command = parse_options(args, OPTIONS)
        unit = unit_of(options, command)
        held = claim_name(home, unit.name)
    except (Failed, Misuse, ValueError) as error:
        write_error(str(error))
        return 1
    if "quiet" not in options:
        write_error(f"Running as unit: {unit.name}; invocation ID: {os.urandom(16).hex()}")
    if os.fork() == 0:
        # The service leaves its caller's session, directory, input and output.
        os.setsid()
        os.chdir(home.parent)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        # The serial console gets the service's output through the caller's standard error.
        os.dup2(2, 1)
        unit.run_until_stopped()
        os._exit(0)
    os.close(held)
    return 0


def write_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _list_session(session: int) -> list[int]:
    """Return the processes of a session; none on systems without `/proc`."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in parentheses, may hold anything.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if fields[3] == str(session):
                found.append(int(stat.parent.name))
    return found


def main() -> None:
    sys.exit(start_unit(sys.argv[1:]))
