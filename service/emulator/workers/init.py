"""The first process of an emulated machine: it runs the scripts, and no process outlives it.

Orders are lines on its standard input, and reports are lines on its standard output. An input that
ends without a `halt` means that the emulator is dead: all processes are killed, and the machine's
directory is removed. Only the standard library is imported, so that the start is fast.
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

# The first character of a report: a line of output, the exit of a script, no process left.
OUTPUT = "|"
EXIT = "="
EMPTY = "."
# The orders: `run <script>`, `terminate`, `halt`.
RUN = "run"
TERMINATE = "terminate"
HALT = "halt"

MAX_LINE = 4096
# Bytes of one read: few, so that orders are read although a script writes without end.
CHUNK = 4096
PIPE_CHUNKS = 32
KILL_SECONDS = 5.0
LOOK_SECONDS = 0.005
KILL_LOOKS = 40
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Script:
    """A started script, and the unfinished line of its output."""

    name: str
    pipe: int
    begun: bytes = b""

    def split_lines(self, data: bytes) -> list[str]:
        """Return the whole lines in new output; a line that is too long is cut in pieces."""
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

    def run_until_halt(self) -> None:
        """Carry out orders until the input ends, or until the halt."""
        self._wake = open_wake_pipe()
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(self._wake, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fd == 0:
                    if not self._obey_orders(os.read(0, 65536)):
                        return
                elif key.fd == self._wake:
                    os.read(self._wake, 4096)
                else:
                    self._pass_on(key.data)
            self._reap_scripts()

    def _obey_orders(self, data: bytes) -> bool:
        """Carry out the orders in new input; False at the end."""
        if not data:
            # The emulator is dead, so nothing else cleans up.
            kill_all()
            remove_directory(self.directory)
            return False
        *orders, self.orders = (self.orders + data).split(b"\n")
        for order in orders:
            verb, _, name = order.decode().partition(" ")
            if verb == RUN:
                # As Compute Engine does: with bash, unless the script's first line names another.
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
            elif verb == TERMINATE:
                self.told_empty = False
                signal_all(signal.SIGTERM)
            elif verb == HALT:
                kill_all()
                return False
        return True

    def _pass_on(self, script: Script) -> bool:
        """Report some output of a script and of its children; False if there is none."""
        if script.pipe not in self.selector.get_map():
            return False
        try:
            data = os.read(script.pipe, CHUNK)
        except BlockingIOError:
            return False
        for line in script.split_lines(data):
            write_report(f"{OUTPUT}{script.name}: {line}")
        if not data:
            self.selector.unregister(script.pipe)
            os.close(script.pipe)
        return bool(data)

    def _reap_scripts(self) -> None:
        for pid, status in reap_children():
            script = self.scripts.pop(pid, None)
            if script is not None:
                # Its output is reported before its exit, unless its children go on writing.
                any(not self._pass_on(script) for _ in range(PIPE_CHUNKS))
                write_report(f"{EXIT}{script.name} {os.waitstatus_to_exitcode(status)}")
        if not self.told_empty and not has_children():
            self.told_empty = True
            write_report(EMPTY)


def write_report(line: str) -> None:
    data = line.encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, where the system supports it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_all(number: int) -> None:
    """Send a signal to every descendant; on other systems than Linux to the process group."""
    if sys.platform == "linux":
        for pid in find_descendants():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    else:
        os.killpg(0, number)


def kill_all() -> None:
    """Kill until no process is left: a killed process may have started another."""
    if sys.platform != "linux":
        # This process belongs to the group as well, and ends last.
        signal_all(signal.SIGTERM)
        return
    end = time.monotonic() + KILL_SECONDS
    while has_children() and time.monotonic() < end:
        signal_all(signal.SIGKILL)
        # Another scan costs more than a wait for the killed processes.
        for _ in range(KILL_LOOKS):
            time.sleep(LOOK_SECONDS)
            reap_children()
            if not has_children():
                return


def find_descendants() -> list[int]:
    """Return all processes below this one, from `/proc`."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            parent = 0
            with suppress(OSError), open(f"{entry.path}/stat", "rb") as file:  # noqa: PTH123 - many
                # The name, in parentheses, may hold anything.
                parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def remove_directory(directory: Path) -> None:
    """Remove the machine's directory and, with the last machine, their shared directory."""
    import shutil  # noqa: PLC0415 - slow, and mostly not needed

    shutil.rmtree(directory, ignore_errors=True)
    shared = directory.parent
    if not any(path.name.startswith("worker-") for path in shared.iterdir()):
        shutil.rmtree(shared, ignore_errors=True)


def reap_children() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def open_wake_pipe() -> int:
    """Return a pipe that becomes readable when a child exits."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def main() -> None:
    """Run the first process of the machine whose directory is the current one."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    try:
        Init(Path.cwd()).run_until_halt()
    except BrokenPipeError:
        # The emulator died during a report.
        kill_all()
        remove_directory(Path.cwd())
    if sys.platform != "linux":
        os.killpg(0, signal.SIGKILL)
