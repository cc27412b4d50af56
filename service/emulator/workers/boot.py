"""A worker's machine while it is up: one process of ours, and the processes of its scripts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path

from service.emulator.workers import init
from service.emulator.workers.path_shims import python_command

STARTUP = "startup-script"
SHUTDOWN = "shutdown-script"
# The grace between SIGTERM and SIGKILL after a shutdown script that used up all the time.
LEAST_GRACE_SECONDS = 0.25
# A pause after each full chunk keeps the servers responsive to an endless writer.
CHUNK = 4096
CHUNK_SECONDS = 0.01
HALT_SECONDS = init.KILL_SECONDS + 1

Write = Callable[[list[str]], None]


class Machine:
    """One boot of a machine; `exits` has the exit codes of the scripts that have ended."""

    def __init__(self, directory: Path, environment: Mapping[str, str], write: Write) -> None:
        self.exits: dict[str, int] = {}
        self._directory = directory
        self._environment = dict(environment)
        self._write = write
        self._ended: dict[str, asyncio.Event] = {}
        self._empty = asyncio.Event()
        self._halted = False

    async def start(self) -> None:
        """Start the first process. Raises OSError if this computer cannot start another process."""
        (self._directory / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            *python_command("init"),
            cwd=self._directory,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._listening = asyncio.create_task(self._read_output())

    def run_script(self, name: str, text: str) -> None:
        """Start a script; `write` is called with each of its lines."""
        path = self._directory / name
        path.write_text(text, errors="replace")
        path.chmod(0o700)
        self._ended[name] = asyncio.Event()
        self._send_order(f"{init.RUN} {name}")

    async def shut_down(self, script: str, seconds: float) -> None:
        """Shut down in order: the shutdown script, SIGTERM to all, SIGKILL to the rest."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        if script:
            self.run_script(SHUTDOWN, script)
            await _wait_within(seconds, self._ended[SHUTDOWN].wait())
        self._empty.clear()
        self._send_order(init.TERMINATE)
        await _wait_within(max(end - loop.time(), LEAST_GRACE_SECONDS), self._empty.wait())
        await self.halt()

    async def halt(self) -> None:
        """Cut the power, and wait until no process is left."""
        self.cut_power()
        await _wait_within(HALT_SECONDS, self._process.wait())
        self._kill_group()
        await self._process.wait()
        await self._listening
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(ConnectionError):
            await self._process.stdin.wait_closed()

    def cut_power(self) -> None:
        """Order the kill of all processes. All waits for this machine end."""
        self._halted = True
        self._send_order(init.HALT)

    def _kill_group(self) -> None:
        """Kill the processes that remain if the first process was killed itself."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send_order(self, order: str) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(f"{order}\n".encode())

    async def _read_output(self) -> None:
        """Read the output of the first process until its end, then end all waits."""
        assert self._process.stdout is not None
        begun = b""
        while data := await self._process.stdout.read(CHUNK):
            *lines, begun = (begun + data).split(b"\n")
            self._handle_lines([line.decode(errors="replace") for line in lines])
            if len(data) == CHUNK:
                await asyncio.sleep(CHUNK_SECONDS)
        if not self._halted:
            self._write(["emulator: the machine's first process was killed, and all the others"])
            self._kill_group()
        for event in (*self._ended.values(), self._empty):
            event.set()

    def _handle_lines(self, output: list[str]) -> None:
        lines = []
        for line in output:
            kind, rest = line[:1], line[1:]
            if kind == init.OUTPUT:
                lines.append(rest)
            elif kind == init.EXIT:
                name, _, code = rest.partition(" ")
                lines.append(f"{name} exit status {code}")
                self.exits[name] = int(code)
                self._ended[name].set()
            elif kind == init.EMPTY:
                self._empty.set()
            else:
                lines.append(line)
        if lines:
            self._write(lines)


async def _wait_within(seconds: float, change: Coroutine[None, None, object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(change, seconds)
