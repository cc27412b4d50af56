"""Which machines are on: those of the workers of READY nodes that have a script to run."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from service.emulator.errors import ApiError
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.observed import Observer
from service.emulator.nodes.worker import LEGACY, Worker
from service.emulator.workers import path_shims
from service.emulator.workers.boot import SHUTDOWN, STARTUP, Machine
from service.emulator.workers.environment import (
    RECORD,
    RUN,
    Files,
    device_names,
    environment,
)
from service.emulator.workers.proc import ProcFiles
from service.emulator.world.world import World

# What Compute Engine gives a preempted machine between the signal of its power button and its end.
ACPI_SECONDS = 30.0
# A real process is no faster because the emulator is.
LEAST_SECONDS = 1.0
STARTS_AT_ONCE = 8

# Which startup scripts are run: all, none, or those whose bytes have one of these SHA-256 digests.
Scripts = frozenset[str] | bool


@dataclass(eq=False)
class _Life:
    """One worker from its first boot to the end of its node."""

    worker: Worker
    directory: Path
    asked: int = 0
    """How many boots were asked for."""
    wanted: int = 0
    """The boot that should be on, counted from 1; 0 for off."""
    on: int = 0
    boots: int = 0
    """How often its machine has booted."""
    gone: bool = False
    abrupt: bool = False
    """Whether it ends without a shutdown, like a machine whose power is cut."""
    machine: Machine | None = None
    proc: ProcFiles | None = None
    exits: dict[str, int] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def want(self, *, on: bool, gone: bool = False) -> None:
        if on:
            self.asked += 1
        self.wanted = self.asked if on else 0
        self.gone = self.gone or gone
        self.changed.set()

    def script(self, name: str) -> str:
        return str(self.worker.node.metadata.get(name, ""))


class Power:
    """Each machine is brought from what it is to what its node wants, one step after another."""

    def __init__(
        self,
        world: World,
        address: Callable[[Worker], Awaitable[str]],
        write: Callable[[Worker, list[str]], None],
        scripts: Scripts,
        overflow: Callable[[NodeRecord], None],
    ) -> None:
        """`overflow` is told of a node that has a script to run, and no room for its machines."""
        self._world = world
        self._scripts = scripts
        self._overflow = overflow
        self._crowded_out: dict[int, NodeRecord] = {}
        self._address = address
        self._write = write
        self._lives: dict[int, list[_Life]] = {}
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._shared: Path | None = None

    def follow(self, uid: int, record: NodeRecord | None, state: str) -> None:
        """Follow a node into a state, empty for its end; to be called in the loop."""
        if state == "READY" and record is not None:
            self._have_lives(record)
        for life in self._lives.get(uid, ()):
            life.want(on=state == "READY", gone=not state)
        if not state:
            self._crowded_out.pop(uid, None)

    def forget_unless(self, known: Callable[[NodeRecord], bool]) -> None:
        """Follow the end of nodes that were forgotten rather than deleted."""
        for life in self._every():
            if not life.gone and not known(life.worker.record):
                life.want(on=False, gone=True)
        for uid, record in list(self._crowded_out.items()):
            if not known(record):
                del self._crowded_out[uid]

    def show_activity(self, now: float) -> None:
        """Have each machine that is on show what its node was told to do."""
        for life in self._every():
            if life.proc is not None and life.machine is not None:
                worker = life.worker
                life.proc.show(now, Observer(worker.record, worker.number).at(now))

    def shown(self, worker: Worker) -> dict[str, object]:
        """Say how often a worker has booted, whether it is on, and how its scripts ended."""
        for life in self._lives.get(worker.uid, ()):
            if life.worker.number == worker.number:
                exits = life.machine.exits if life.machine else life.exits
                return {"boots": life.boots, "on": life.machine is not None, "exits": dict(exits)}
        return {"boots": 0, "on": False, "exits": {}}

    async def stop(self) -> None:
        """Cut the power of every machine, and remove what they leave behind."""
        lives = list(self._every())
        for life in lives:
            life.abrupt = True
            life.want(on=False, gone=True)
            if life.machine is not None:
                life.machine.cut()
        await asyncio.gather(*(life.task for life in lives if life.task is not None))
        if self._shared is not None:
            await asyncio.to_thread(shutil.rmtree, self._shared, ignore_errors=True)

    def _every(self) -> Iterator[_Life]:
        for lives in list(self._lives.values()):
            yield from lives

    def _have_lives(self, record: NodeRecord) -> None:
        if record.is_played:
            return
        uid = int(record.message.id)
        scripts = {STARTUP, SHUTDOWN} & set(record.message.metadata)
        known = uid in self._lives or uid in self._crowded_out
        if not scripts or known or record.message.api_version in LEGACY:
            return
        workers = [Worker(record, number) for number in range(record.accelerator.hosts)]
        refusal = self._refusal(str(record.message.metadata.get(STARTUP, "")))
        if refusal:
            self._write_all(workers, refusal)
        elif self._taken() + len(workers) > self._world.config.real_workers:
            self._crowded_out[uid] = record
            room = f"at most {self._world.config.real_workers} workers run at once"
            self._write_all(workers, f"{room}; this node's {len(workers)} do not")
            self._overflow(record)
        else:
            self._lives[uid] = [self._born(worker) for worker in workers]

    def _taken(self) -> int:
        """How many machines there are, but for those whose node is gone: they are about to end, and
        take no room from what is made after a reset."""
        records = (life.worker.record for life in self._every() if not life.gone)
        return sum(self._world.nodes.get(record.name) is record for record in records)

    def _refusal(self, script: str) -> str:
        """Say why the scripts of a node with this startup script are not run; empty if they are."""
        if isinstance(self._scripts, bool):
            return "" if self._scripts else "no scripts are run"
        digest = digest_of(script)
        return "" if digest in self._scripts else f"a startup script with SHA-256 {digest}"

    def _write_all(self, workers: list[Worker], why: str) -> None:
        for worker in workers:
            self._write(worker, [f"emulator: not run: {why}"])

    def _born(self, worker: Worker) -> _Life:
        # The numbers are ours: nothing that a user named becomes part of a path.
        life = _Life(worker, self._directory() / f"worker-{worker.uid}-{worker.number}")
        life.task = asyncio.create_task(self._live(life))
        return life

    def _directory(self) -> Path:
        if self._shared is None:
            self._shared = Path(tempfile.mkdtemp(prefix="tpu-emulator-"))
            path_shims.install(self._shared / "bin")
        return self._shared

    async def _live(self, life: _Life) -> None:
        while not life.gone:
            await life.changed.wait()
            life.changed.clear()
            if life.on and life.on != life.wanted:
                await self._turn_off(life)
            if life.wanted and life.wanted != life.on:
                await self._turn_on(life)
        await self._turn_off(life)
        await asyncio.to_thread(shutil.rmtree, life.directory, ignore_errors=True)
        lives = self._lives[life.worker.uid]
        lives.remove(life)
        if not lives:
            del self._lives[life.worker.uid]

    async def _turn_on(self, life: _Life) -> None:
        life.on = life.wanted
        # The metadata may have changed since the boot before, and may change during this one.
        script = life.script(STARTUP)
        refusal = self._refusal(script)
        if refusal:
            self._write_all([life.worker], refusal)
            return
        try:
            address = await self._address(life.worker)
            files = Files(life.directory)
            files.prepare(life.worker, address, life.on)
            allowed = RUN if self._scripts is True else RECORD
            speed = self._world.config.meter_speed
            told = environment(life.worker, life.directory, address, allowed, speed)
            device = files.devices.resolve() / device_names(life.worker)[0]
            life.proc = ProcFiles(files.proc, device, files.docker / "told", speed)
            machine = Machine(life.directory, told, partial(self._write, life.worker))
            async with self._starts:
                await machine.start()
            life.machine = machine
            life.boots += 1
            if script:
                machine.run(STARTUP, script)
        except (ApiError, OSError) as error:
            self._write(life.worker, [f"emulator: not booted: {error}"])

    async def _turn_off(self, life: _Life) -> None:
        life.on = 0
        if life.machine is None:
            return
        if life.abrupt:
            await life.machine.halt()
        else:
            seconds = max(ACPI_SECONDS / self._world.config.speed, LEAST_SECONDS)
            # Nobody has vouched for a shutdown script where startup scripts are chosen.
            script = life.script(SHUTDOWN) if self._scripts is True else ""
            await life.machine.shut_down(script, seconds)
        life.exits = life.machine.exits
        life.machine = None


def digest_of(script: str) -> str:
    """Give the SHA-256 of a script's bytes as hexadecimal digits."""
    return hashlib.sha256(script.encode()).hexdigest()
