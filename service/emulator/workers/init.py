"""The first process of an emulated machine: it runs the scripts, and nothing outlives it.

It is told what to do by lines on its standard input, and tells what happens by lines on its
standard output. When that input ends without a word, the emulator is dead: all is killed, and the
machine's directory is removed. The standard library only, so that it starts at once.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

# What begins a line that is told: a line of output, the exit of a script, the end of everything.
OUTPUT = "|"
EXIT = "="
EMPTY = "."
# What it is told: `run <script>`, `terminate`, `halt`.
RUN = "run"
TERMINATE = "terminate"
HALT = "halt"

MAX_LINE = 4096
# How much is read at once: little, so that an order is heard though a script never stops writing.
CHUNK = 4096
PIPE_CHUNKS = 32
KILL_SECONDS = 5.0
LOOK_SECONDS = 0.005
KILL_LOOKS = 40
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Script:
    """A script that was started, and the line it has begun to write."""

    name: str
    pipe: int
    begun: bytes = b""

    def lines(self, data: bytes) -> list[str]:
        """Cut what was read into whole lines; a line that is too long is cut in pieces."""
        *whole, self.begun = (self.begun + data).split(b"\n")
        if len(self.begun) > MAX_LINE or (not data and self.begun):
            whole.append(self.begun)
            self.begun = b""
        return [
            line[start : start + MAX_LINE].decode(errors="replace")
            for line in whole
            for start in range(0, max(len(line), 1), MAX_LINE)
        ]


@dataclass
class Init:
    directory: Path
    orders: bytes = b""
    scripts: dict[int, Script] = field(default_factory=dict)
    """By process id, until the script has exited."""
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    told_empty: bool = True

    def live(self) -> None:
        """Do what is told until there is nobody left to tell it, or until the halt."""
        self._wake = woken_by_children()
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(self._wake, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fd == 0:
                    if not self._obey(os.read(0, 65536)):
                        return
                elif key.fd == self._wake:
                    os.read(self._wake, 4096)
                else:
                    self._pass_on(key.data)
            self._reap()

    def _obey(self, data: bytes) -> bool:
        """Carry out what is told; False for the end."""
        if not data:
            # The emulator is dead. Nobody else would clean up.
            kill_all()
            remove(self.directory)
            return False
        *orders, self.orders = (self.orders + data).split(b"\n")
        for order in orders:
            verb, _, name = order.decode().partition(" ")
            if verb == RUN:
                self._run(name)
            elif verb == TERMINATE:
                self.told_empty = False
                signal_all(signal.SIGTERM)
            elif verb == HALT:
                kill_all()
                return False
        return True

    def _run(self, name: str) -> None:
        """Run a script as Compute Engine does: by bash, unless its first line names another."""
        reading, writing = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        pid = os.posix_spawnp(
            "bash",
            ["bash", "-c", f"./{name}"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
                (os.POSIX_SPAWN_DUP2, writing, 2),
            ],
            setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE],
        )
        os.close(writing)
        os.close(null)
        os.set_blocking(reading, False)
        script = self.scripts[pid] = Script(name, reading)
        self.selector.register(reading, selectors.EVENT_READ, script)

    def _pass_on(self, script: Script) -> bool:
        """Tell some of what a script, or what it left running, has written; False if nothing."""
        if script.pipe not in self.selector.get_map():
            return False
        try:
            data = os.read(script.pipe, CHUNK)
        except BlockingIOError:
            return False
        for line in script.lines(data):
            tell(f"{OUTPUT}{script.name}: {line}")
        if not data:
            self.selector.unregister(script.pipe)
            os.close(script.pipe)
        return bool(data)

    def _reap(self) -> None:
        for pid, status in exited():
            script = self.scripts.pop(pid, None)
            if script is not None:
                # What it wrote before its end comes before its end, unless others go on writing.
                any(not self._pass_on(script) for _ in range(PIPE_CHUNKS))
                tell(f"{EXIT}{script.name} {os.waitstatus_to_exitcode(status)}")
        if not self.told_empty and not any_children():
            self.told_empty = True
            tell(EMPTY)


def tell(line: str) -> None:
    data = line.encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def adopt_orphans() -> None:
    """Become the parent of what descendants leave behind, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_all(number: int) -> None:
    """Send a signal to every descendant; elsewhere than on Linux to the process group."""
    if sys.platform == "linux":
        for pid in descendants():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    else:
        os.killpg(0, number)


def kill_all() -> None:
    """Kill until nothing is left: what is killed may have had children in the meantime."""
    if sys.platform != "linux":
        # This process is of the group as well, and comes last.
        signal_all(signal.SIGTERM)
        return
    end = time.monotonic() + KILL_SECONDS
    while any_children() and time.monotonic() < end:
        signal_all(signal.SIGKILL)
        # To look again costs more than to wait for what was killed.
        for _ in range(KILL_LOOKS):
            time.sleep(LOOK_SECONDS)
            exited()
            if not any_children():
                return


def descendants() -> list[int]:
    """Find all processes below this one, in `/proc`."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            children.setdefault(_parent(entry.path), []).append(int(entry.name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def remove(directory: Path) -> None:
    """Remove the machine's directory and, after the last machine, what they shared."""
    import shutil  # noqa: PLC0415 - slow, and mostly not needed

    shutil.rmtree(directory, ignore_errors=True)
    shared = directory.parent
    if not any(each.name.startswith("worker-") for each in shared.iterdir()):
        shutil.rmtree(shared, ignore_errors=True)


def _parent(process: str) -> int:
    try:
        with open(f"{process}/stat", "rb") as file:  # noqa: PTH123 - there are many to read
            status = file.read()
    except OSError:
        return 0
    # The name, in parentheses, may hold anything.
    return int(status.rpartition(b")")[2].split()[1])


def exited() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def any_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def woken_by_children() -> int:
    """Give a pipe that can be read whenever a child has exited."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def main() -> None:
    """Live in the directory that is given, which is also the present one."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    try:
        Init(Path.cwd()).live()
    except BrokenPipeError:
        # The emulator died while something was told.
        kill_all()
        remove(Path.cwd())
    if sys.platform != "linux":
        os.killpg(0, signal.SIGKILL)
