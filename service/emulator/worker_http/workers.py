"""The workers of a served world: their metadata servers, and their scripts if allowed."""

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
"""Between two updates of the machines' activity."""


class Workers:
    """All workers. Programs run on this machine only with `run_scripts`, which requests cannot set.

    `on_overflow` is called with each node whose scripts do not run because `real_workers` of the
    configuration is reached.
    """

    def __init__(self, world: World, *, run_scripts: Scripts = False) -> None:
        self.run_scripts = bool(run_scripts)
        self.on_overflow: list[Callable[[NodeRecord], None]] = []
        self.waiting = Waiting()
        self.metadata = MetadataServer(world, self.waiting, self._write_lines)
        self._world = world
        self._ports = WorkerPorts(world, self.metadata, ControlChannel(world))
        self._power = Power(
            world, self._ports.open_port, self._write_lines, run_scripts, self._report_overflow
        )
        self._consoles: dict[tuple[int, int], Console] = {}

    @asynccontextmanager
    async def follow_world(self) -> AsyncIterator[None]:
        """Follow the world, in this event loop."""
        self._loop = asyncio.get_running_loop()
        self._world.observers.append(self._follow_transition)
        if self.run_scripts:
            for record in list(self._world.nodes.values()):
                self._power.follow_node(int(record.message.id), record, record.state)
        ticking = asyncio.create_task(self._tick_forever())
        try:
            yield
        finally:
            self._world.observers.remove(self._follow_transition)
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
            self.waiting.dismiss_all(GONE)
            await self._power.stop()
            await self._ports.close()

    async def get_address(self, worker: Worker) -> str:
        """Return the loopback address of a worker's port, for its clients. Raises ApiError."""
        return await self._ports.open_port(worker)

    def describe_console(self, worker: Worker) -> dict[str, object]:
        """Return the console of a worker, and the exit codes of its scripts."""
        console = self._consoles.get((worker.uid, worker.number), Console(worker))
        return {
            "name": worker.record.name,
            "worker": worker.number,
            "run_startup_scripts": self.run_scripts,
            "guest_attribute_queries": guest_attributes.query_times(worker.record, worker.number),
            "guest_attribute_reads": guest_attributes.read_times(worker.record, worker.number),
            **self._power.describe_worker(worker),
            **console.describe_lines(),
        }

    def _follow_transition(self, transition: Transition) -> None:
        """Follow a change of a node. The call may come from another thread than the loop's."""
        self.waiting.check_node(transition.uid)
        if self.run_scripts:
            record = self._world.nodes.get(transition.name)
            self._loop.call_soon_threadsafe(
                self._power.follow_node, transition.uid, record, transition.after
            )

    async def _tick_forever(self) -> None:
        """Handle changes without an observer: passing time, changed values, a reset."""
        shown_at = 0.0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.run_scripts or self.waiting or self._ports:
                now = self._world.run_due_events()
                if abs(now - shown_at) >= SHOW_SECONDS:
                    self._power.show_activity(now)
                    shown_at = now
                self.waiting.check_all()
                self._ports.close_unless(lambda worker: self._is_known(worker.record))
                self._power.forget_unless(self._is_known)
                for key, console in list(self._consoles.items()):
                    if not self._is_known(console.worker.record):
                        del self._consoles[key]

    def _is_known(self, record: NodeRecord) -> bool:
        return self._world.nodes.get(record.name) is record

    def _report_overflow(self, record: NodeRecord) -> None:
        for listener in self.on_overflow:
            listener(record)

    def _write_lines(self, worker: Worker, lines: list[str]) -> None:
        key = worker.uid, worker.number
        self._consoles.setdefault(key, Console(worker)).add_lines(lines)
        logs.write_lines(self._world, worker.record, worker.number, lines, severity="INFO")
