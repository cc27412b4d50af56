"""A worker's machine while it is up: one process of ours, and below it what its scripts start."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path

from service.emulator.workers import init
from service.emulator.workers.path_shims import python

STARTUP = "startup-script"
SHUTDOWN = "shutdown-script"
# How long processes have between SIGTERM and SIGKILL, if the shutdown script used up all the time.
LEAST_GRACE_SECONDS = 0.25
# A script that writes without end must not keep the servers from their work.
CHUNK = 4096
CHUNK_SECONDS = 0.01
HALT_SECONDS = init.KILL_SECONDS + 1

Write = Callable[[list[str]], None]


class Machine:
    """Started once, halted once; `exits` tells the exit codes of the scripts that have ended."""

    def __init__(self, directory: Path, environment: Mapping[str, str], write: Write) -> None:
        self.exits: dict[str, int] = {}
        self._directory = directory
        self._environment = dict(environment)
        self._write = write
        self._ended: dict[str, asyncio.Event] = {}
        self._empty = asyncio.Event()
        self._halted = False

    async def start(self) -> None:
        """Raises OSError when this computer has no room for another process."""
        (self._directory / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            *python("init"),
            cwd=self._directory,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._listening = asyncio.create_task(self._listen())

    def run(self, name: str, text: str) -> None:
        """Let a script run; what it writes is told line by line."""
        path = self._directory / name
        path.write_text(text, errors="replace")
        path.chmod(0o700)
        self._ended[name] = asyncio.Event()
        self._tell(f"{init.RUN} {name}")

    async def shut_down(self, script: str, seconds: float) -> None:
        """End it in order: the shutdown script, SIGTERM to all, SIGKILL to what is left."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        if script:
            self.run(SHUTDOWN, script)
            await _within(seconds, self._ended[SHUTDOWN].wait())
        self._empty.clear()
        self._tell(init.TERMINATE)
        await _within(max(end - loop.time(), LEAST_GRACE_SECONDS), self._empty.wait())
        await self.halt()

    async def halt(self) -> None:
        """Cut the power, and wait until nothing is left."""
        self.cut()
        await _within(HALT_SECONDS, self._process.wait())
        self._kill_group()
        await self._process.wait()
        await self._listening
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(ConnectionError):
            await self._process.stdin.wait_closed()

    def cut(self) -> None:
        """Let everything be killed; whoever waits for something of this machine waits no longer."""
        self._halted = True
        self._tell(init.HALT)

    def _kill_group(self) -> None:
        """Kill what the first process left, which is nothing unless it was killed itself."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _tell(self, order: str) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(f"{order}\n".encode())

    async def _listen(self) -> None:
        """Hear what the first process tells until it is gone, and all who wait for it with it."""
        assert self._process.stdout is not None
        begun = b""
        while data := await self._process.stdout.read(CHUNK):
            *lines, begun = (begun + data).split(b"\n")
            self._hear([line.decode(errors="replace") for line in lines])
            if len(data) == CHUNK:
                await asyncio.sleep(CHUNK_SECONDS)
        if not self._halted:
            self._write(["emulator: the machine's first process was killed, and all the others"])
            self._kill_group()
        for each in (*self._ended.values(), self._empty):
            each.set()

    def _hear(self, told: list[str]) -> None:
        lines = []
        for line in told:
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


async def _within(seconds: float, something: Coroutine[None, None, object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(something, seconds)
