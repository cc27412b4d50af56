"""The emulator as a program: one world, a gRPC port and a REST port in one event loop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import uvicorn

from service.emulator.api.methods import RPCS
from service.emulator.clock import Clock, wall_clock
from service.emulator.config.config import Config, patched_config
from service.emulator.incidents.random_events import RandomEvents
from service.emulator.played.workers import Played
from service.emulator.surfaces.rpc import build_server
from service.emulator.surfaces.web import build_app
from service.emulator.telemetry import audit
from service.emulator.worker_http.routes import worker_routes
from service.emulator.worker_http.workers import Workers
from service.emulator.workers.power import Scripts
from service.emulator.world.world import World

HOST = "127.0.0.1"
GRPC_PORT = 9470
REST_PORT = 9471
GRACE_SECONDS = 1


class PortTaken(OSError):
    """The port is in use by another program, or this process may not listen on it."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"cannot listen on {host}:{port}: the port is taken or not allowed")
        self.host = host
        self.port = port


@dataclass(frozen=True)
class Emulator:
    """A running emulator: where it listens, and the world behind it."""

    world: World
    host: str
    grpc_port: int
    rest_port: int

    @property
    def grpc_address(self) -> str:
        return f"{self.host}:{self.grpc_port}"

    @property
    def rest_url(self) -> str:
        return f"http://{self.host}:{self.rest_port}"


Served = Callable[[], AbstractAsyncContextManager[Emulator]]


def build_world(*, speed: float = 1.0, seed: int = 0, clock: Clock = wall_clock) -> World:
    """Make a world without servers, for callers in the same process.

    Raises ApiError for a `speed` out of range.
    """
    world = World(clock, RPCS, seed, patched_config(Config(), {"speed": speed}))
    attach_observers(world)
    return world


def attach_observers(world: World) -> Played:
    """Attach audit log, played workers and random events to a new world. Returns the workers."""
    world.observers.append(partial(audit.log_transition, world))
    played = Played(world)
    RandomEvents(world)
    return played


@asynccontextmanager
async def serve_world(
    world: World,
    host: str = HOST,
    grpc_port: int = 0,
    rest_port: int = 0,
    *,
    run_startup_scripts: Scripts = False,
    allowed_hosts: Collection[str] = (),
) -> AsyncIterator[Emulator]:
    """Serve a world on two ports of this event loop; port 0 takes any free port.

    Raises PortTaken.
    """
    # gRPC reports a taken port as a line of C++ on stderr, so the port is tried first.
    _open_listener(host, grpc_port).close()
    listener = _open_listener(host, rest_port)
    rpc = build_server(world)
    try:
        bound = rpc.add_insecure_port(f"{host}:{grpc_port}")
    except RuntimeError:
        listener.close()
        raise PortTaken(host, grpc_port) from None
    await rpc.start()
    workers = Workers(world, run_scripts=run_startup_scripts)
    world.has_real_workers = bool(run_startup_scripts)
    web = _Web(world, f"{host}:{bound}", workers, allowed_hosts)
    task = asyncio.create_task(web.serve([listener]))
    try:
        await web.ready.wait()
        async with workers.follow_world():
            yield Emulator(world, host, bound, listener.getsockname()[1])
    finally:
        web.should_exit = True
        await rpc.stop(GRACE_SECONDS)
        await task
        listener.close()


def run(  # noqa: PLR0913 - the options of the command line
    world: World,
    host: str = HOST,
    grpc_port: int = GRPC_PORT,
    rest_port: int = REST_PORT,
    on_ready: Callable[[Emulator], None] | None = None,
    *,
    run_startup_scripts: Scripts = False,
    allowed_hosts: Collection[str] = (),
) -> None:
    """Serve until SIGINT or SIGTERM; to be called from the main thread. Raises PortTaken.

    `run_startup_scripts` runs startup scripts from the metadata of nodes, as the user of this
    process: all of them, or only scripts with a given SHA-256 digest. `allowed_hosts` are further
    host names to which the REST port answers.
    """

    async def serve_until_signal() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with serve_world(
            world,
            host,
            grpc_port,
            rest_port,
            run_startup_scripts=run_startup_scripts,
            allowed_hosts=allowed_hosts,
        ) as emulator:
            if on_ready is not None:
                on_ready(emulator)
            await stop.wait()

    asyncio.run(serve_until_signal())


@contextmanager
def run_in_thread(
    world: World | None = None,
    host: str = HOST,
    grpc_port: int = 0,
    rest_port: int = 0,
    *,
    run_startup_scripts: Scripts = False,
    allowed_hosts: Collection[str] = (),
) -> Iterator[Emulator]:
    """Serve a world from a separate thread. Read the world only while no call is in progress."""
    served = partial(
        serve_world,
        world or build_world(),
        host,
        grpc_port,
        rest_port,
        run_startup_scripts=run_startup_scripts,
        allowed_hosts=allowed_hosts,
    )
    thread = _Thread(served)
    thread.start()
    try:
        yield thread.wait_until_up()
    finally:
        thread.stop()


class _Web(uvicorn.Server):
    """A web server that leaves signals to its program; `ready` is set once it listens."""

    def __init__(
        self, world: World, grpc_address: str, workers: Workers, allowed_hosts: Collection[str]
    ) -> None:
        app = build_app(
            world,
            grpc_address,
            worker_routes(world, workers),
            loopback_only=workers.run_scripts,
            allowed_hosts=allowed_hosts,
        )
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                # The metadata servers of the workers send a Server header of their own.
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self.ready = asyncio.Event()

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class _Thread(threading.Thread):
    def __init__(self, served: Served) -> None:
        super().__init__(name="tpu-emulator", daemon=True)
        self._served = served
        self._up = threading.Event()
        self._emulator: Emulator | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve_until_stop())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for it
            self._error = error
            self._up.set()

    def wait_until_up(self) -> Emulator:
        self._up.wait()
        if self._error is not None:
            raise self._error
        assert self._emulator is not None
        return self._emulator

    def stop(self) -> None:
        if self._emulator is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._stop_event.set)
        self.join()

    async def _serve_until_stop(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop_event = asyncio.Event()
        async with self._served() as emulator:
            self._emulator = emulator
            self._up.set()
            await self._stop_event.wait()


def _open_listener(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError:
        raise PortTaken(host, port) from None
