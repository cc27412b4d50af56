"""The workers of a served world: their metadata servers always, their scripts where allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from service.emulator.nodes import guest_attributes
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.worker import Worker
from service.emulator.telemetry import logs
from service.emulator.worker_http.control_channel import ControlChannel
from service.emulator.worker_http.worker_ports import WorkerPorts
from service.emulator.workers.console import Console
from service.emulator.workers.power import Power, Scripts
from service.emulator.workers.server import GONE, MetadataServer
from service.emulator.workers.waiting import Waiting
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

TICK_SECONDS = 0.05
SHOW_SECONDS = 0.5
"""Between two looks of the machines at what they do."""


class Workers:
    """Only `run_scripts`, which no request can change, lets anything be run on this machine.

    `on_overflow` is called with each node whose scripts would run if there were room for its
    workers: see `real_workers` of the configuration.
    """

    def __init__(self, world: World, *, run_scripts: Scripts = False) -> None:
        self.run_scripts = bool(run_scripts)
        self.on_overflow: list[Callable[[NodeRecord], None]] = []
        self.waiting = Waiting()
        self.metadata = MetadataServer(world, self.waiting, self._remark)
        self._world = world
        self._ports = WorkerPorts(world, self.metadata, ControlChannel(world))
        self._power = Power(world, self._ports.open, self._write, run_scripts, self._overflow)
        self._consoles: dict[tuple[int, int], Console] = {}

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Follow the world, in this event loop."""
        self._loop = asyncio.get_running_loop()
        self._world.observers.append(self._observe)
        if self.run_scripts:
            for record in list(self._world.nodes.values()):
                self._power.follow(int(record.message.id), record, record.state)
        ticking = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            self._world.observers.remove(self._observe)
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
            self.waiting.dismiss_all(GONE)
            await self._power.stop()
            await self._ports.close()

    async def address(self, worker: Worker) -> str:
        """Give a worker the loopback port that its clients can be told; raises ApiError."""
        return await self._ports.open(worker)

    def serial(self, worker: Worker) -> dict[str, object]:
        """Show what a worker's scripts wrote, and how they ended."""
        console = self._consoles.get((worker.uid, worker.number), Console(worker))
        return {
            "name": worker.record.name,
            "worker": worker.number,
            "run_startup_scripts": self.run_scripts,
            "guest_attribute_queries": guest_attributes.query_times(worker.record, worker.number),
            "guest_attribute_reads": guest_attributes.read_times(worker.record, worker.number),
            **self._power.shown(worker),
            **console.shown(),
        }

    def _observe(self, transition: Transition) -> None:
        """Take note, perhaps in another thread than that of the loop."""
        self.waiting.check(transition.uid)
        if self.run_scripts:
            record = self._world.nodes.get(transition.name)
            self._loop.call_soon_threadsafe(
                self._power.follow, transition.uid, record, transition.after
            )

    async def _tick(self) -> None:
        """See to what no observer is told of: time passing, values that change, a reset."""
        shown_at = 0.0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.run_scripts or self.waiting or self._ports:
                now = self._world.settle()
                if abs(now - shown_at) >= SHOW_SECONDS:
                    self._power.show_activity(now)
                    shown_at = now
                self.waiting.check_all()
                self._ports.close_unless(lambda worker: self._is_known(worker.record))
                self._power.forget_unless(self._is_known)
                self._forget_consoles()

    def _is_known(self, record: NodeRecord) -> bool:
        return self._world.nodes.get(record.name) is record

    def _forget_consoles(self) -> None:
        for key, console in list(self._consoles.items()):
            if not self._is_known(console.worker.record):
                del self._consoles[key]

    def _overflow(self, record: NodeRecord) -> None:
        for told in self.on_overflow:
            told(record)

    def _remark(self, worker: Worker, line: str) -> None:
        self._write(worker, [f"emulator: {line}"])

    def _write(self, worker: Worker, lines: list[str]) -> None:
        key = worker.uid, worker.number
        self._consoles.setdefault(key, Console(worker)).write(lines)
        logs.write(self._world, worker.record, worker.number, lines, severity="INFO")
