"""Machines of workers: each worker of a READY node with a script to run has a running machine."""

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
    build_environment,
    device_names,
)
from service.emulator.workers.proc import ProcFiles
from service.emulator.world.world import World

# Compute Engine's grace between the ACPI signal and the end of a preempted machine.
ACPI_SECONDS = 30.0
# Real processes do not speed up with the emulator.
LEAST_SECONDS = 1.0
STARTS_AT_ONCE = 8

# The startup scripts that run: all, none, or scripts with one of these SHA-256 digests.
Scripts = frozenset[str] | bool


@dataclass(eq=False)
class _Life:
    """One worker from its first boot to the end of its node."""

    worker: Worker
    directory: Path
    asked: int = 0
    """The number of requested boots."""
    wanted: int = 0
    """The boot that should be on, counted from 1; 0 for off."""
    on: int = 0
    boots: int = 0
    """The number of completed boots."""
    gone: bool = False
    abrupt: bool = False
    """Whether the machine ends without a shutdown, as when its power is cut."""
    machine: Machine | None = None
    proc: ProcFiles | None = None
    exits: dict[str, int] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def request_state(self, *, on: bool, gone: bool = False) -> None:
        if on:
            self.asked += 1
        self.wanted = self.asked if on else 0
        self.gone = self.gone or gone
        self.changed.set()

    def get_script(self, name: str) -> str:
        return str(self.worker.node.metadata.get(name, ""))


class Power:
    """Brings each machine to the state that its node wants, one step after another."""

    def __init__(
        self,
        world: World,
        address: Callable[[Worker], Awaitable[str]],
        write: Callable[[Worker, list[str]], None],
        scripts: Scripts,
        overflow: Callable[[NodeRecord], None],
    ) -> None:
        """`overflow` is called with each node that has a script to run but no room for machines."""
        self._world = world
        self._scripts = scripts
        self._overflow = overflow
        self._crowded_out: dict[int, NodeRecord] = {}
        self._address = address
        self._write = write
        self._lives: dict[int, list[_Life]] = {}
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._shared: Path | None = None

    def follow_node(self, uid: int, record: NodeRecord | None, state: str) -> None:
        """Follow a node into a state, empty for its end. Call this in the event loop."""
        if state == "READY" and record is not None:
            self._create_lives(record)
        for life in self._lives.get(uid, ()):
            life.request_state(on=state == "READY", gone=not state)
        if not state:
            self._crowded_out.pop(uid, None)

    def forget_unless(self, known: Callable[[NodeRecord], bool]) -> None:
        """End the machines of nodes that a reset dropped without a deletion."""
        for life in self._list_lives():
            if not life.gone and not known(life.worker.record):
                life.request_state(on=False, gone=True)
        for uid, record in list(self._crowded_out.items()):
            if not known(record):
                del self._crowded_out[uid]

    def show_activity(self, now: float) -> None:
        """Write the configured activity of each node to its running machines."""
        for life in self._list_lives():
            if life.proc is not None and life.machine is not None:
                worker = life.worker
                life.proc.update_files(now, Observer(worker.record, worker.number).observe_at(now))

    def describe_worker(self, worker: Worker) -> dict[str, object]:
        """Return a worker's number of boots, whether it is on, and its scripts' exit codes."""
        for life in self._lives.get(worker.uid, ()):
            if life.worker.number == worker.number:
                exits = life.machine.exits if life.machine else life.exits
                return {"boots": life.boots, "on": life.machine is not None, "exits": dict(exits)}
        return {"boots": 0, "on": False, "exits": {}}

    async def stop(self) -> None:
        """Cut the power of every machine, and remove their files."""
        lives = list(self._list_lives())
        for life in lives:
            life.abrupt = True
            life.request_state(on=False, gone=True)
            if life.machine is not None:
                life.machine.cut_power()
        await asyncio.gather(*(life.task for life in lives if life.task is not None))
        if self._shared is not None:
            await asyncio.to_thread(shutil.rmtree, self._shared, ignore_errors=True)

    def _list_lives(self) -> Iterator[_Life]:
        for lives in list(self._lives.values()):
            yield from lives

    def _create_lives(self, record: NodeRecord) -> None:
        if record.is_played:
            return
        uid = int(record.message.id)
        scripts = {STARTUP, SHUTDOWN} & set(record.message.metadata)
        known = uid in self._lives or uid in self._crowded_out
        if not scripts or known or record.message.api_version in LEGACY:
            return
        workers = [Worker(record, number) for number in range(record.accelerator.hosts)]
        # A machine whose node is gone is about to end, so a reset frees its room at once.
        others = (life.worker.record for life in self._list_lives() if not life.gone)
        machines = sum(self._world.nodes.get(other.name) is other for other in others)
        refusal = self._find_refusal(str(record.message.metadata.get(STARTUP, "")))
        if refusal:
            self._write_refusal(workers, refusal)
        elif machines + len(workers) > self._world.config.real_workers:
            self._crowded_out[uid] = record
            room = f"at most {self._world.config.real_workers} workers run at once"
            self._write_refusal(workers, f"{room}; this node's {len(workers)} do not")
            self._overflow(record)
        else:
            if self._shared is None:
                self._shared = Path(tempfile.mkdtemp(prefix="tpu-emulator-"))
                path_shims.install_shims(self._shared / "bin")
            lives = []
            for worker in workers:
                # The path has only the emulator's numbers, no name that a user chose.
                life = _Life(worker, self._shared / f"worker-{worker.uid}-{worker.number}")
                life.task = asyncio.create_task(self._run_life(life))
                lives.append(life)
            self._lives[uid] = lives

    def _find_refusal(self, script: str) -> str:
        """Return why scripts of a node with this startup script do not run; empty if they do."""
        if isinstance(self._scripts, bool):
            return "" if self._scripts else "no scripts are run"
        digest = digest_of(script)
        return "" if digest in self._scripts else f"a startup script with SHA-256 {digest}"

    def _write_refusal(self, workers: list[Worker], why: str) -> None:
        for worker in workers:
            self._write(worker, [f"emulator: not run: {why}"])

    async def _run_life(self, life: _Life) -> None:
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
        # The metadata may have changed since the last boot, and may change during this one.
        script = life.get_script(STARTUP)
        refusal = self._find_refusal(script)
        if refusal:
            self._write_refusal([life.worker], refusal)
            return
        try:
            address = await self._address(life.worker)
            files = Files(life.directory)
            files.prepare_boot(life.worker, address, life.on)
            allowed = RUN if self._scripts is True else RECORD
            speed = self._world.config.meter_speed
            variables = build_environment(life.worker, life.directory, address, allowed, speed)
            device = files.devices.resolve() / device_names(life.worker)[0]
            life.proc = ProcFiles(files.proc, device, files.docker / "told", speed)
            machine = Machine(life.directory, variables, partial(self._write, life.worker))
            async with self._starts:
                await machine.start()
            life.machine = machine
            life.boots += 1
            if script:
                machine.run_script(STARTUP, script)
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
            # The list of allowed digests covers startup scripts only.
            script = life.get_script(SHUTDOWN) if self._scripts is True else ""
            await life.machine.shut_down(script, seconds)
        life.exits = life.machine.exits
        life.machine = None


def digest_of(script: str) -> str:
    """Return the SHA-256 of a script's bytes as hexadecimal digits."""
    return hashlib.sha256(script.encode()).hexdigest()
